//! A model from where a page has it to the engine: its own files, or a server's through the store, and to the GPU as they arrive.

use futures_util::future::{Either, select};
use web_sys::AbortSignal;

use super::models::transport;
use super::options::{Load, Source};
use super::{Blobs, Opfs};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Files, Remote};
use crate::store::download::{Download, Prepared, prepare};
use crate::store::{ModelKey, Storage, Store, fetch};
use crate::stream::{Cancel, Engine, Phase, Progress};

/// Where the model is kept, or why it is not.
pub(super) async fn store_of(load: &Load, remote: &Remote, signal: &AbortSignal) -> Store {
    let opened = match remote {
        _ if !load.cache => Err(Error::storage("keeping the model is switched off (cache: false)")),
        Remote::File { url } if url.starts_with("blob:") => {
            Err(Error::storage("blob: addresses end with the page, so there is nothing to keep the model under"))
        }
        _ => Opfs::models(Some(signal.clone())).await,
    };
    opened.unwrap_or_else(|why| Store::new(Blobs::new(why.message())))
}

/// The model's files: the page's own, or from the server through the store.
pub(super) async fn files(load: &Load, progress: &dyn Fn(Progress), cancel: &Cancel, signal: AbortSignal) -> Result<Files> {
    match &load.source {
        Source::Files(files) => Ok(files.clone()),
        Source::Remote(remote) => {
            let store = store_of(load, remote, &signal).await;
            Ok(fetch(remote, &store, transport(load, remote, signal), load.download.clone(), progress, cancel).await?.0)
        }
    }
}

/// A loaded model, and where it is kept. What is not there yet goes to the GPU as it arrives.
pub(super) async fn load_engine(load: &Load, progress: &dyn Fn(Progress), cancel: &Cancel, signal: AbortSignal) -> Result<(Engine, Storage)> {
    let remote = match &load.source {
        Source::Files(files) => return Ok((Engine::load(files, &load.options, progress, cancel).await?, Storage::local())),
        Source::Remote(remote) => remote,
    };
    let store = store_of(load, remote, &signal).await;
    let transport = transport(load, remote, signal);
    let (loaded, storage) = match prepare(remote, &store, transport, load.download.clone(), progress, cancel).await? {
        Prepared::Stored(files, storage) => (Engine::load(&files, &load.options, progress, cancel).await, storage),
        Prepared::Download(download) => (load_arriving(load, &download, progress, cancel).await, download.storage().clone()),
    };
    match loaded {
        Err(e) if matches!(e.kind(), ErrorKind::BadModel | ErrorKind::Tokenizer) => {
            // A broken file must not stand in the way of a mended one. If another engine has it open, it stays.
            let _ = store.remove(&ModelKey::new(remote.url())).await;
            Err(if e.message().contains(&remote.url()) { e } else { e.at(remote.url()) })
        }
        loaded => Ok((loaded?, storage)),
    }
}

/// Bytes up to which a model is fetched at once: to look into its header first would not save anything.
const AT_ONCE: u64 = 16 << 20;

/// Loads a model while it arrives: first its header, then what the GPU needs is made ready, then the weights in the order in which they come.
async fn load_arriving(load: &Load, download: &Download, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<Engine> {
    let Some(files) = download.files() else {
        download.start();
        let files = download.run(progress).await?;
        return Engine::load(&files, &load.options, progress, cancel).await;
    };
    if !download.reads_ahead() || download.missing() <= AT_ONCE {
        download.start();
    }
    // The header fits this GPU: now it is worth while.
    let started = |report: Progress| {
        if report.phase == Phase::Compile {
            download.start();
        }
        progress(report);
    };
    let arriving = Box::pin(download.run(progress));
    let loading = Box::pin(Engine::load(&files, &load.options, &started, cancel));
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
        // What was read has changed on the server meanwhile.
        Err(_) if download.changes() > 0 => Engine::load(&files, &load.options, progress, cancel).await,
        Ok(engine) if download.changes() > 0 => {
            engine.dispose();
            Engine::load(&files, &load.options, progress, cancel).await
        }
        Ok(mut engine) => {
            engine.keep_files(&files);
            Ok(engine)
        }
        failed => failed,
    }
}
