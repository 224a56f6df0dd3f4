//! Opens a model of files, or of an address through the store: the weights go to the GPU as they arrive.

use std::rc::Rc;

use futures_util::future::{Either, LocalBoxFuture, select};
use serde::Serialize;

use super::fit::{Fit, Room};
use super::{Engine, LoadOptions, ModelInfo, draft};
use crate::base::{Cancel, Progress};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Files, Remote, Transport};
use crate::store::download::{Download, FIRST_LOOK, Prepared, prepare};
use crate::store::{DownloadOptions, Memory, ModelKey, Storage, Store, full, total};

/// Bytes up to which a model is fetched at once: reading its header first would not save anything.
const AT_ONCE: u64 = 16 << 20;

/// Where a model comes from.
pub enum Origin {
    /// Local files.
    Files(Files),
    /// An address, and where its files are kept.
    Remote(Stored),
}

/// A model of an address, which is fetched into a store once.
pub struct Stored {
    /// The address.
    pub remote: Remote,
    /// Where the files are kept.
    pub store: Store,
    /// Makes the requests.
    pub transport: Rc<dyn Transport>,
    /// Options of the download.
    pub download: DownloadOptions,
}

impl Stored {
    /// A download of headers alone, which is not stored.
    async fn look(&self, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<Box<Download>> {
        let options = DownloadOptions { shard: FIRST_LOOK, ..self.download.clone() };
        match prepare(&self.remote, &Memory::store(), self.transport.clone(), options, progress, cancel).await? {
            Prepared::Download(download) => Ok(download),
            Prepared::Stored(..) => Err(Error::internal("a fresh store holds a model")),
        }
    }
}

impl Origin {
    /// All of the model's files, once they are fetched.
    pub async fn files(&self, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<Files> {
        match self {
            Self::Files(files) => Ok(files.clone()),
            Self::Remote(stored) => {
                let fetched = crate::store::fetch(
                    &stored.remote,
                    &stored.store,
                    stored.transport.clone(),
                    stored.download.clone(),
                    progress,
                    cancel,
                );
                fetched.await.map(|(files, _)| files)
            }
        }
    }
}

/// The memory, download and storage of a load, and whether it fits.
#[derive(Debug, Serialize)]
pub struct LoadPlan {
    /// Whether the model fits this GPU, and settings that would.
    #[serde(flatten)]
    pub fit: Fit,
    /// The model, from its header.
    pub model: ModelInfo,
    /// Bytes of the model's files.
    pub download: PlanDownload,
    /// Where the files would be kept.
    pub storage: PlanStorage,
    /// The plan of the draft model, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<Box<Self>>,
}

/// Bytes of a model's files: all, those that are stored, those to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PlanDownload {
    /// Bytes of all files.
    pub total: u64,
    /// Bytes that are stored.
    pub stored: u64,
    /// Bytes that are to be fetched.
    pub missing: u64,
}

/// Where a model's files would be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanStorage {
    /// `opfs`, `disk`, `memory` or `local`.
    pub kind: &'static str,
    /// Bytes that can still be written, where the system says so.
    pub available: Option<u64>,
    /// Why the files would not outlive this page or process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Engine {
    /// Loads a model; returns it, and where its files are kept. Weights that are not stored yet go to the GPU as they
    /// arrive.
    pub async fn open(
        origin: &Origin,
        options: &LoadOptions,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<(Self, Storage)> {
        let stored = match origin {
            Origin::Files(files) => return Ok((Self::load(files, options, progress, cancel).await?, Storage::local())),
            Origin::Remote(stored) => stored,
        };
        let Stored { remote, store, transport, download } = stored;
        let (loaded, storage) =
            match prepare(remote, store, transport.clone(), download.clone(), progress, cancel).await? {
                Prepared::Stored(files, storage) => (Self::load(&files, options, progress, cancel).await, storage),
                Prepared::Download(download) => {
                    (load_arriving(options, &download, progress, cancel).await, download.storage().clone())
                }
            };
        match loaded {
            // Where the caller gave a tokenizer.json, that may be the faulty file: the stored model stays.
            Err(e)
                if e.kind() == ErrorKind::BadModel
                    || e.kind() == ErrorKind::Tokenizer && options.tokenizer_json.is_none() =>
            {
                let url = remote.url();
                // A broken stored file would hide a repaired one. Where another engine has it open, it stays.
                let _ = store.remove(&ModelKey::new(url.clone())).await;
                Err(if e.message().contains(&url) { e } else { e.at(url) })
            }
            loaded => Ok((loaded?, storage)),
        }
    }

    /// Loads a draft model beside the engine's own: as [`Engine::load_draft`]. Of one that is not stored the header is
    /// read first, so that one that does not fit the model is refused before it is fetched.
    pub async fn open_draft(&mut self, origin: &Origin, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<()> {
        let reports = |report: Progress| progress(Progress { draft: true, ..report });
        if let Origin::Remote(from) = origin
            && from.store.open(&ModelKey::new(from.remote.url())).await?.is_none()
        {
            let header = from.look(&reports, cancel).await?;
            if let Some(files) = header.files().filter(|_| header.reads_ahead()) {
                self.draft_checkpoint(&files).await?;
            }
        }
        let files = origin.files(&reports, cancel).await?;
        self.load_draft(&files, &reports, cancel).await
    }

    /// Plans a load from the model's header alone, and that of its draft model where there is one. Nothing is stored.
    pub async fn plan_load(
        origin: &Origin,
        draft: Option<&Origin>,
        options: &LoadOptions,
        room: Room,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<LoadPlan> {
        let mut plan = Self::plan_one(origin, options, room, progress, cancel).await?;
        let Some(draft) = draft else { return Ok(plan) };
        // What is quantized while it is loaded is counted as it is: a draft model may be quantized already.
        let own = LoadOptions { quantize: None, ..draft::options_of(options, options.lane, plan.fit.context) };
        let beside = room.beside + plan.fit.memory.total;
        let of_draft = Self::plan_one(draft, &own, Room { beside, ..room }, progress, cancel).await?;
        let bytes = of_draft.fit.memory.total;
        if !of_draft.fit.fits {
            // A shorter context may leave room for the draft model.
            let beside = room.beside + bytes;
            let again = Self::plan_one(origin, options, Room { beside, ..room }, progress, cancel).await?;
            plan.fit.alternatives = again.fit.alternatives;
        }
        plan.fit.alternatives.iter_mut().for_each(|other| other.total += bytes);
        plan.fit.memory.draft = bytes;
        plan.fit.memory.total += bytes;
        plan.fit.fits &= of_draft.fit.fits;
        plan.fit.problems.extend(of_draft.fit.problems.iter().map(|problem| format!("draft: {problem}")));
        plan.draft = Some(Box::new(of_draft));
        Ok(plan)
    }

    async fn plan_one(
        origin: &Origin,
        options: &LoadOptions,
        room: Room,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<LoadPlan> {
        let from = match origin {
            Origin::Files(files) => {
                let (info, fit) = Self::plan(files, options, room).await?;
                let total = total(files);
                let storage = PlanStorage { kind: Storage::local().kind, available: None, reason: None };
                return Ok(LoadPlan {
                    fit,
                    model: info.model,
                    download: PlanDownload { total, stored: total, missing: 0 },
                    storage,
                    draft: None,
                });
            }
            Origin::Remote(stored) => stored,
        };
        let Stored { remote, store, .. } = from;
        let key = ModelKey::new(remote.url());
        let mut stored = store.entry(&key).await?.map_or(0, |entry| entry.bytes);
        let prepared;
        let files = match store.open(&key).await?.and_then(|files| remote.asked_of(files)) {
            Some(files) => {
                stored = total(&files);
                files
            }
            // Of a model that is not stored only headers are read, and nothing is written.
            None => {
                prepared = from.look(progress, cancel).await?;
                let unknown = || {
                    Error::network(format!(
                        "{}: the server does not tell its length, or answers no ranges: load it to see whether it fits",
                        remote.url()
                    ))
                };
                prepared.files().filter(|_| prepared.reads_ahead()).ok_or_else(unknown)?
            }
        };
        let total = total(&files);
        let (info, mut fit) = Self::plan(&files, options, room).await?;
        let missing = total.saturating_sub(stored);
        let available = store.available().await;
        if let Some(available) = available.filter(|available| missing > *available) {
            fit.problems.push(full(&remote.url(), Some(missing), Some(available)).message().to_owned());
            fit.fits = false;
        }
        let storage = PlanStorage { kind: store.kind(), available, reason: store.transient().map(str::to_owned) };
        let download = PlanDownload { total, stored, missing };
        Ok(LoadPlan { fit, model: info.model, download, storage, draft: None })
    }
}

/// Loads a model while it arrives: first its header, then the device and kernels are prepared, then the weights are
/// uploaded as they come.
async fn load_arriving(
    options: &LoadOptions,
    download: &Download,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<Engine> {
    let Some(files) = download.files() else {
        download.start();
        let files = download.run(progress).await?;
        return Engine::load(&files, options, progress, cancel).await;
    };
    if !download.reads_ahead() || download.missing() <= AT_ONCE {
        download.start();
    }
    let arriving = Box::pin(download.run(progress));
    // The download begins once it is known that the model fits this GPU: tokenizer, template and kernels are prepared
    // meanwhile.
    let fits = || Box::pin(download.begin()) as LocalBoxFuture<'_, ()>;
    let loading = Box::pin(Engine::load_arriving(&files, options, Some(&fits), progress, cancel));
    let (loaded, arrived) = match select(loading, arriving).await {
        Either::Left((loaded, arriving)) => {
            if loaded.is_err() && !download.has_failed() && download.changes() == 0 {
                drop(arriving);
                download.close().await;
                return loaded;
            }
            (loaded, arriving.await)
        }
        Either::Right((Err(e), _)) => return Err(e),
        Either::Right((arrived, loading)) => (loading.await, arrived),
    };
    let files = match (&loaded, arrived) {
        (_, Ok(files)) => files,
        (Ok(_), Err(e)) => {
            loaded?.dispose();
            return Err(e);
        }
        (Err(_), Err(e)) => return Err(e),
    };
    match loaded {
        // A file that was read has changed on the server meanwhile.
        Err(_) if download.changes() > 0 => Engine::load(&files, options, progress, cancel).await,
        Ok(engine) if download.changes() > 0 => {
            engine.dispose();
            Engine::load(&files, options, progress, cancel).await
        }
        Ok(mut engine) => {
            engine.keep_files(&files);
            Ok(engine)
        }
        failed => failed,
    }
}
