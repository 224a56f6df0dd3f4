//! From a server into a store: several connections, shard by shard, each byte into the store as it arrives. Interrupted
//! downloads resume, changed files start over, and readers need not wait for the end.

mod connection;
mod control;
mod crew;
mod discover;
mod huggingface;
mod live;
mod unfinished;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::{Either, ready, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use self::connection::{Job, Outcome};
pub use self::control::Control;
use self::crew::Crew;
use self::live::{Live, LiveSource};
use self::unfinished::{Held, Unfinished};
use super::journal::StoredFile;
use super::medium::Software;
use super::{Begin, Memory, ModelKey, Storage, Store, Work, full, sha256_of, total};
use crate::base::{Cancel, Event, Phase, Progress};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, Files, Remote, Transport};

/// Bounds of the bytes between two reports of progress, otherwise a fixed fraction of all bytes.
const REPORT_EVERY: (u64, u64) = (16 << 10, 1 << 20);
/// How often a file may change on the server before that is an error.
const MOST_CHANGES: u32 = 3;
/// Bytes of a file that are asked for to learn its length, where only parts of it are wanted.
pub(crate) const FIRST_LOOK: u64 = 1 << 20;
/// How often a caller that waits for another's download polls its progress, ms.
const LOOK_EVERY_MS: f64 = 500.0;
/// The longest that callers with work ahead let a download begin, ms.
const MOST_TO_BEGIN_MS: f64 = 100.0;
/// How often a paused download looks whether it is aborted, ms.
const LOOK_FOR_ABORT_MS: f64 = 200.0;

include!(concat!(env!("OUT_DIR"), "/options/fetching.rs"));

/// A file to download.
struct Target {
    /// Its number in the store.
    number: usize,
    url: String,
    /// Whether the server answers ranges of it.
    ranges: bool,
    /// Whether a request for it has succeeded.
    has_worked: bool,
}

/// Receives progress: bytes and file, and an event if one has just happened.
type Report<'a> = &'a dyn Fn(&str, Option<(Event, String)>);

/// What [`prepare`] leads to.
pub enum Prepared {
    /// The model is stored, whole.
    Stored(Files, Storage),
    /// The model has to be fetched, all of it or what is missing.
    Download(Box<Download>),
}

/// A download that has not begun: what the model's files are is known.
pub struct Download {
    live: Rc<Live>,
    options: DownloadOptions,
    targets: RefCell<Vec<Target>>,
    /// (file, shard): what connections are at, and bytes of it that are not whole shards yet.
    flight: RefCell<Vec<((usize, usize), u64)>>,
    /// Files and shards that some connection has taken.
    taken: RefCell<Vec<(usize, usize)>>,
    /// Incomplete shards that no connection writes.
    unfinished: Unfinished,
    crew: Crew,
    reported: Cell<u64>,
    storage: Storage,
    changes: Cell<u32>,
    remote: Remote,
}

/// Looks whether the model is there, becomes its writer, and finds out what there is to fetch; small files are fetched
/// already.
///
/// Waits for another tab's or engine's download of the same model. Fails with `NOT_FOUND`, `NETWORK`, `STORAGE` (not
/// enough room: nothing has been written), `BAD_MODEL` (an index that is not one) or `ABORTED`.
pub async fn prepare(
    remote: &Remote,
    store: &Store,
    transport: Rc<dyn Transport>,
    options: DownloadOptions,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<Prepared> {
    cancel.check()?;
    let key = ModelKey::new(remote.url());
    let projector = remote.projector().map(|(name, _)| name);
    let wanted = projector.as_deref();
    let reason = store.transient().map(str::to_owned);
    let stored = |files: Files| {
        let bytes = total(&files);
        progress(Progress { cached: true, reason: reason.clone(), ..Progress::new(Phase::Download, bytes, bytes) });
        Prepared::Stored(files, Storage { kind: store.kind(), cached: true, reason: reason.clone() })
    };
    let verified = options.verify && store.entry(&key).await?.is_some_and(|entry| entry.complete);
    if verified {
        store.verify(&key, progress, cancel).await?;
    }
    if let Some(files) = store.open(&key).await?.and_then(|files| remote.asked_of(files)) {
        return Ok(stored(files));
    }
    let writer = match begin(store, &key, wanted, &*transport, progress, cancel).await? {
        Begin::Whole(files) => return asked_of(remote, files).map(stored),
        Begin::Write(writer) => writer,
    };
    let shared = writer.shared().clone();
    let storage = Storage { kind: store.kind(), cached: false, reason };
    let live = Rc::new(Live::new(shared.clone(), transport, cancel.clone()));
    let download = Download {
        live,
        crew: Crew::new(options.connections),
        unfinished: Unfinished::default(),
        options,
        targets: RefCell::default(),
        flight: RefCell::default(),
        taken: RefCell::default(),
        reported: Cell::new(0),
        storage,
        changes: Cell::new(0),
        remote: remote.clone(),
    };
    let found = async {
        download.go().await?;
        if !verified && (!shared.is_clean() || download.options.verify) {
            shared.verify(progress, cancel).await?;
        }
        let event = if shared.state().bytes() == 0 { Event::Started } else { Event::Resumed };
        download.report(progress, "", Some((event, String::new())));
        download.discover(remote, &|file, told| download.report(progress, file, told)).await?;
        let missing = download.missing();
        match store.available().await {
            Some(available) if missing > available => Err(full(key.url(), Some(missing), Some(available))),
            _ => Ok(()),
        }
    };
    if let Err(e) = found.await {
        // An index or manifest that is none must not stand in the way of a mended one.
        download.live.let_all_go();
        if e.kind() == ErrorKind::BadModel {
            let _ = shared.discard().await;
        }
        download.close().await;
        return Err(e);
    }
    Ok(Prepared::Download(Box::new(download)))
}

/// What is asked for of a model that is whole.
fn asked_of(remote: &Remote, files: Files) -> Result<Files> {
    remote.asked_of(files).ok_or_else(|| Error::internal("a model that is whole without what reads pictures for it"))
}

/// Becomes the writer; while there is another, reports that one's progress.
async fn begin(
    store: &Store,
    key: &ModelKey,
    wanted: Option<&str>,
    transport: &dyn Transport,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<Begin> {
    let mut begin = Box::pin(store.begin_with(key, wanted, cancel));
    loop {
        match select(begin, transport.sleep(LOOK_EVERY_MS)).await {
            Either::Left((begun, _)) => return begun,
            Either::Right(((), waiting)) => begin = waiting,
        }
        if let Ok(Some(entry)) = store.entry(key).await {
            let note = Some("another tab or engine is downloading this model".to_owned());
            progress(Progress {
                note,
                event: Some(Event::Waiting),
                ..Progress::new(Phase::Download, entry.bytes, entry.total.unwrap_or(0))
            });
        }
    }
}

/// The files of `remote`: from `store` without a request if they are there whole, else through `transport` into it. See
/// [`prepare`].
pub async fn fetch(
    remote: &Remote,
    store: &Store,
    transport: Rc<dyn Transport>,
    options: DownloadOptions,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<(Files, Storage)> {
    match prepare(remote, store, transport, options, progress, cancel).await? {
        Prepared::Stored(files, storage) => Ok((files, storage)),
        Prepared::Download(download) => {
            let storage = download.storage.clone();
            download.start();
            Ok((download.run(progress).await?, storage))
        }
    }
}

/// The files of `remote` as they lie on the server, to read parts of: nothing is kept. `None` where the server answers
/// no ranges.
pub async fn look_into(remote: &Remote, transport: Rc<dyn Transport>, cancel: &Cancel) -> Result<Option<Files>> {
    let options = DownloadOptions { shard: FIRST_LOOK, ..DownloadOptions::default() };
    match prepare(remote, &Memory::store(), transport, options, &|_| (), cancel).await? {
        Prepared::Stored(files, _) => Ok(Some(files)),
        Prepared::Download(download) => Ok(download.files().filter(|_| download.answers_ranges())),
    }
}

impl Download {
    /// How the model will be kept.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Bytes that are still to come, as far as is known.
    pub fn missing(&self) -> u64 {
        let state = self.live.shared.state();
        state.files.iter().filter_map(|f| f.length?.checked_sub(f.bytes())).sum()
    }

    /// The files, to read while they arrive: [`Download::run`] has to run meanwhile. `None` where a length is not
    /// known.
    pub fn files(&self) -> Option<Files> {
        let sources = self.targets.borrow().iter().map(|t| t.number).collect::<Vec<_>>();
        sources
            .into_iter()
            .map(|number| {
                self.source(number).ok().map(|source| (source.name.clone(), Rc::new(source) as Rc<dyn ByteSource>))
            })
            .collect()
    }

    /// Whether headers can be read before it starts: otherwise it has to start first.
    pub fn reads_ahead(&self) -> bool {
        self.answers_ranges() || self.targets.borrow().len() == 1
    }

    /// Whether every part of all files can be had now.
    fn answers_ranges(&self) -> bool {
        self.targets
            .borrow()
            .iter()
            .all(|t| t.ranges || self.live.shared.state().files.get(t.number).is_some_and(StoredFile::is_whole))
    }

    /// Waits while it is paused; fails with `ABORTED` once it is aborted, paused or not.
    async fn go(&self) -> Result<()> {
        loop {
            self.live.cancel.check()?;
            if !self.options.control.is_paused() {
                return Ok(());
            }
            select(Box::pin(self.options.control.go()), self.live.transport.sleep(LOOK_FOR_ABORT_MS)).await;
        }
    }

    /// Lets it fetch the files themselves.
    pub fn start(&self) {
        self.live.start();
    }

    /// Starts it, and lets it ask for the first files, which takes a moment at most: for callers with work ahead that
    /// waits for nothing.
    pub async fn begin(&self) {
        self.start();
        let begun = self.live.signal.until(|| self.live.begun.get().then_some(()));
        select(Box::pin(begun), self.live.transport.sleep(MOST_TO_BEGIN_MS)).await;
    }

    /// How often the model has changed on the server since the download began; readers have to read again after each
    /// change.
    pub fn changes(&self) -> u32 {
        self.changes.get()
    }

    /// Whether nothing more will arrive.
    pub fn has_failed(&self) -> bool {
        self.live.failed.borrow().is_some()
    }

    /// Ends it: what has arrived in whole shards is kept for the next time.
    pub async fn close(&self) {
        self.live.fail(&Error::aborted());
        self.live.let_all_go();
        // What cannot be kept is fetched again.
        while let Some(shard) = self.unfinished.any() {
            let _ = shard.set_aside().await;
        }
        *self.live.hand.lock().await = None;
        // The next download looks at everything again if this fails.
        let _ = self.live.shared.close().await;
    }

    /// Once [`Download::start`] was called: fetches what is missing and makes the model whole.
    pub async fn run(&self, progress: &dyn Fn(Progress)) -> Result<Files> {
        let done = async {
            self.live.signal.until(|| self.live.started.get().then_some(())).await;
            self.fetch_all(progress).await?;
            self.live.cancel.check()?;
            asked_of(&self.remote, self.live.shared.finish().await?)
        };
        match done.await {
            Ok(files) => {
                let bytes = total(&files);
                progress(Progress {
                    reason: self.storage.reason.clone(),
                    ..Progress::new(Phase::Download, bytes, bytes)
                });
                Ok(files)
            }
            Err(e) => {
                self.live.fail(&e);
                self.close().await;
                Err(e)
            }
        }
    }

    async fn fetch_all(&self, progress: &dyn Fn(Progress)) -> Result<()> {
        let report = |file: &str, told: Option<(Event, String)>| self.report(progress, file, told);
        loop {
            self.taken.take();
            self.flight.replace(self.unfinished.bytes());
            self.crew.begin();
            let mut hashes = Vec::new();
            let outcome = {
                let work: FuturesUnordered<Work<'_, Outcome>> = FuturesUnordered::new();
                work.push(Box::pin(self.hash_behind(progress, &mut hashes)));
                (0..self.crew.most()).for_each(|_| work.push(Box::pin(self.connection(&report))));
                let mut ended = work.filter(|ended| ready(!matches!(ended, Ok(Outcome::Done))));
                ended.next().await.unwrap_or(Ok(Outcome::Done))?
            };
            match outcome {
                Outcome::Done => return self.compare_hashes(hashes, progress).await,
                Outcome::NoRanges(number) => {
                    let text =
                        "the server's ranges are of no use: the file is read from its beginning by one connection"
                            .to_owned();
                    report("", Some((Event::Restarted, text)));
                    self.target(number, |t| t.ranges = false);
                    self.forget(number, |length| length).await?;
                }
                Outcome::NoLength(number) => {
                    self.changes.set(self.changes.get() + 1);
                    self.live.change();
                    self.target(number, |t| t.ranges = false);
                    self.forget(number, |_| None).await?;
                }
                Outcome::Changed(number) => {
                    self.changes.set(self.changes.get() + 1);
                    self.live.change();
                    if self.changes.get() > MOST_CHANGES {
                        return Err(Error::network(format!(
                            "{}: changes on the server again and again (its ETag or length differs from answer to answer); try again later",
                            self.url(number)?
                        )));
                    }
                    report(
                        "",
                        Some((Event::Restarted, "the file has changed on the server: it begins anew".to_owned())),
                    );
                    self.measure_again(number, &|event, text| report("", Some((event, text)))).await?;
                }
            }
        }
    }

    /// The files whose hash was known before they came, and their numbers.
    fn known(&self) -> Vec<(usize, StoredFile)> {
        self.live.shared.state().files.iter().cloned().enumerate().filter(|(_, f)| f.sha256.is_some()).collect()
    }

    /// The hash of all of a file, of as much as has arrived: it waits for the rest.
    async fn hash(&self, number: usize, file: &StoredFile, progress: &dyn Fn(Progress)) -> Result<String> {
        let read = |at| {
            // Until all is there, people want to know how much has arrived.
            if self.missing() == 0 {
                progress(Progress {
                    file: Some(file.name.clone()),
                    ..Progress::new(Phase::Verify, at, file.length.unwrap_or(0))
                });
            }
        };
        sha256_of(&self.source(number)?, Box::new(Software::default()), &self.live.cancel, read).await
    }

    /// While files arrive, hashes those of several shards, so that not all of it has to be read afterwards.
    async fn hash_behind(&self, progress: &dyn Fn(Progress), hashes: &mut Vec<(usize, String)>) -> Result<Outcome> {
        for (number, file) in
            self.known().into_iter().filter(|(_, file)| file.length.is_some() && file.shards.len() > 1)
        {
            hashes.push((number, self.hash(number, &file, progress).await?));
        }
        Ok(Outcome::Done)
    }

    /// Compares files with the hash that was known before; that of a file of one shard is its shard's.
    async fn compare_hashes(&self, hashes: Vec<(usize, String)>, progress: &dyn Fn(Progress)) -> Result<()> {
        for (number, file) in self.known() {
            let url = self.url(number)?;
            let behind = hashes.iter().find(|(of, _)| *of == number);
            let found = match (file.shards.as_slice(), behind) {
                (_, Some((_, hash))) => hash.clone(),
                ([Some(alone)], None) => alone.clone(),
                _ => self.hash(number, &file, progress).await?,
            };
            if file.sha256.as_deref().is_some_and(|expected| !expected.eq_ignore_ascii_case(&found)) {
                self.forget(number, |length| length).await?;
                return Err(Error::bad_model(format!(
                    "{url}: all of it has arrived, but its SHA-256 is not the one that the server tells: it was damaged on the way; load it again"
                )));
            }
        }
        Ok(())
    }

    async fn forget(&self, number: usize, length: impl Fn(Option<u64>) -> Option<u64>) -> Result<()> {
        let file = self
            .live
            .shared
            .state()
            .files
            .get(number)
            .cloned()
            .ok_or_else(|| Error::internal("a change of no file"))?;
        let length = length(file.length);
        self.live.let_go(number);
        self.unfinished.forget(number);
        self.live
            .shared
            .put_file(StoredFile {
                version: file.version,
                sha256: file.sha256,
                ..StoredFile::new(file.name, length, file.shard)
            })
            .await
            .map(drop)
    }

    /// The next shard that is missing, in order.
    fn next_job(&self) -> Option<Job> {
        let state = self.live.shared.state();
        let mut all = self.taken.borrow_mut();
        let mut take = |key| {
            let free = !all.contains(&key);
            if free {
                all.push(key);
            }
            free
        };
        for target in self.targets.borrow().iter() {
            let Some(file) = state.files.get(target.number) else { continue };
            if file.is_whole() {
                continue;
            }
            if !target.ranges || file.length.is_none() {
                if take((target.number, 0)) {
                    return Some(Job::Whole(target.number));
                }
                continue;
            }
            for (index, shard) in file.shards.iter().enumerate() {
                if shard.is_none() && take((target.number, index)) {
                    return Some(Job::Shard(target.number, index));
                }
            }
        }
        None
    }

    /// Releases a job for another connection.
    fn give_back(&self, job: Job) {
        let key = match job {
            Job::Shard(number, index) => (number, index),
            Job::Whole(number) => (number, 0),
        };
        self.taken.borrow_mut().retain(|taken| *taken != key);
    }

    /// A shard to write, with the part that has arrived.
    async fn rest_of(&self, number: usize, index: usize) -> Result<Held<'_>> {
        let shard = match self.unfinished.take(number, index) {
            Some(shard) => shard,
            None => self.live.shared.rest_of_shard(number, index).await?,
        };
        Ok(self.unfinished.hold(number, index, shard))
    }

    fn add(&self, target: Target) {
        let mut targets = self.targets.borrow_mut();
        match targets.iter_mut().find(|t| t.number == target.number) {
            Some(old) => *old = target,
            None => targets.push(target),
        }
    }

    fn target(&self, number: usize, change: impl FnOnce(&mut Target)) {
        self.targets.borrow_mut().iter_mut().find(|t| t.number == number).map(change);
    }

    fn url(&self, number: usize) -> Result<String> {
        let targets = self.targets.borrow();
        targets
            .iter()
            .find(|t| t.number == number)
            .map(|t| t.url.clone())
            .ok_or_else(|| Error::internal(format!("no address of file {number}")))
    }

    fn source(&self, number: usize) -> Result<LiveSource> {
        let file = self
            .live
            .shared
            .state()
            .files
            .get(number)
            .cloned()
            .ok_or_else(|| Error::internal(format!("no file {number}")))?;
        let len = file
            .length
            .ok_or_else(|| Error::new(ErrorKind::Network, format!("{}: its length is not known", file.name)))?;
        Ok(LiveSource {
            live: self.live.clone(),
            epoch: self.live.epoch.get(),
            number,
            url: self.url(number)?,
            name: file.name,
            len,
            shard: file.shard,
        })
    }

    fn flying(&self, number: usize, index: usize, bytes: u64) {
        self.landed(number, index);
        self.flight.borrow_mut().push(((number, index), bytes));
    }

    fn landed(&self, number: usize, index: usize) {
        self.flight.borrow_mut().retain(|(key, _)| *key != (number, index));
    }

    /// Tells how far it is, but not for every few bytes.
    fn report(&self, progress: &dyn Fn(Progress), file: &str, told: Option<(Event, String)>) {
        let (bytes, total) = {
            let state = self.live.shared.state();
            let known = state.files.iter().filter_map(|f| f.length).sum::<u64>();
            (state.bytes() + self.flight.borrow().iter().map(|(_, bytes)| bytes).sum::<u64>(), known)
        };
        let before = self.reported.get();
        // Where a file starts over, the progress stays until it is reached again.
        let loaded = before.max(bytes);
        let total = if total == 0 { 0 } else { total.max(loaded) };
        if told.is_none()
            && loaded - before < (total / 200).clamp(REPORT_EVERY.0, REPORT_EVERY.1)
            && before != 0
            && loaded != total
        {
            return;
        }
        self.reported.set(loaded);
        let file = (!file.is_empty()).then(|| file.to_owned());
        let (event, note) = told.unzip();
        let note = note.filter(|note| !note.is_empty());
        progress(Progress {
            file,
            event,
            note,
            reason: self.storage.reason.clone(),
            ..Progress::new(Phase::Download, loaded, total)
        });
    }
}
