//! Where downloaded models stay: OPFS in the browser, a cache folder natively, memory where neither can be had.
//!
//! A model is a folder of a [`Medium`] (one of two, so that what replaces it is whole before it goes): its files in
//! shards, `F.S` for shard S of file F; while it arrives a journal that says which shards are whole; and last a
//! document without which it is no model. Interrupted downloads resume. One writer at a time per model, across threads,
//! tabs and processes; a second one waits and then finds the model whole.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{StreamExt, iter};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::base::{Cancel, Phase, Progress, epoch_ms, hex};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, Files};

#[cfg(not(target_arch = "wasm32"))]
pub mod disk;
pub mod download;
pub mod journal;
pub mod medium;
pub mod memory;
mod keep;
mod shards;
#[cfg(test)]
pub(crate) mod suite;
mod writer;

#[cfg(not(target_arch = "wasm32"))]
pub use disk::Disk;
pub use download::{DownloadOptions, fetch, look_into};
use journal::{JOURNAL, Journal, STORED, State, StoredFile};
use medium::Hasher;
pub use medium::Medium;
pub use memory::Memory;
use shards::ShardedSource;
pub use writer::Writer;
pub(crate) use writer::{Sequence, Shard, Shared};

/// Bytes of a shard where the caller does not say: small enough to write, verify or fetch again alone.
pub const SHARD: u64 = 32 << 20;
/// What the name of a model's other folder ends in: what takes its place is written beside it.
const BESIDE: &str = "-b";
/// The file that says when a model was last opened.
const USED: &str = "used";
/// Bytes that are hashed at one time.
const PIECE: u64 = 4 << 20;
/// Shards that are looked at at a time.
const AT_ONCE: usize = 4;

/// Models in a [`Medium`].
#[derive(Clone)]
pub struct Store {
    medium: Rc<dyn Medium>,
}

/// What [`Store::begin`] leads to.
pub enum Begin {
    /// Another writer finished the model meanwhile.
    Whole(Files),
    /// Write it, or what is missing of it. Dropping the writer keeps the shards that are whole.
    Write(Writer),
}

impl std::fmt::Debug for Begin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Whole(_) => "Begin::Whole",
            Self::Write(_) => "Begin::Write",
        })
    }
}

/// What is found under a key.
enum Found {
    /// A whole model.
    Whole(State),
    /// Some of one.
    Part(Part),
    /// Nothing, or what no version of this store has written.
    Nothing,
}

/// Some of a model.
struct Part {
    /// The shards that are there.
    state: State,
    /// Whether its last writer ended in order.
    clean: bool,
    /// Bytes of the journal that make sense, where it is what tells.
    journal: Option<u64>,
    /// (file, shard): what should be there and is not.
    missing: Vec<(usize, usize)>,
}

impl Store {
    /// The store in `medium`.
    pub fn new(medium: impl Medium + 'static) -> Self {
        Self { medium: Rc::new(medium) }
    }

    /// What it is, for messages and reports: `opfs`, `disk` or `memory`.
    pub fn kind(&self) -> &'static str {
        self.medium.kind()
    }

    /// Why models do not outlive this page or process here, or `None` where they do.
    pub fn transient(&self) -> Option<&str> {
        self.medium.transient()
    }

    /// Bytes that can still be written, as far as the system tells.
    pub async fn available(&self) -> Option<u64> {
        self.medium.available().await
    }

    /// The models that are whole, and those of which some is there.
    pub async fn list(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let folders = self.medium.folders().await?;
        for folder in &folders {
            let id = id_of(folder);
            // A model that has both is one.
            if id == folder || !folders.iter().any(|other| other == id) {
                entries.extend(self.entry_of(id).await?);
            }
        }
        Ok(entries)
    }

    /// The entry of one model, if any of it is there.
    pub async fn entry(&self, key: &ModelKey) -> Result<Option<Entry>> {
        self.entry_of(key.id()).await
    }

    async fn entry_of(&self, id: &str) -> Result<Option<Entry>> {
        let (place, found) = self.place(id).await?;
        let (state, complete) = match found {
            Found::Whole(state) => (state, true),
            Found::Part(part) => (part.state, false),
            Found::Nothing => return Ok(None),
        };
        let used = self.small(&place, USED).await.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
        Ok(Some(Entry::new(&state, complete, used)))
    }

    /// The files of a model that is whole, else `None`. Does not wait for a lock.
    pub async fn open(&self, key: &ModelKey) -> Result<Option<Files>> {
        match self.place(key.id()).await? {
            (place, Found::Whole(state)) => self.open_whole(&place, state).await,
            _ => Ok(None),
        }
    }

    /// The files of a model found whole at `place`; `None` if it has been removed since.
    async fn open_whole(&self, place: &str, state: State) -> Result<Option<Files>> {
        let mut files = Files::new();
        for (number, file) in state.files.into_iter().enumerate().filter(|(_, file)| !file.is_left_out()) {
            let Some(source) = ShardedSource::open(&*self.medium, place, number, &file).await? else { return Ok(None) };
            files.insert(file.name, Rc::new(source));
        }
        // The time of last use is best effort.
        let _ = self.put(place, USED, epoch_ms().to_string().as_bytes()).await;
        Ok(Some(files))
    }

    /// Becomes the writer of a model, after any other writer of it has ended; if that one has finished it, its files.
    ///
    /// Fails with `ABORTED` when `cancel` is set while waiting and `STORAGE` if the place cannot be written.
    pub async fn begin(&self, key: &ModelKey, cancel: &Cancel) -> Result<Begin> {
        self.begin_with(key, None, cancel).await
    }

    /// As [`Store::begin`], for a model that is only whole with the file `wanted`.
    pub(crate) async fn begin_with(&self, key: &ModelKey, wanted: Option<&str>, cancel: &Cancel) -> Result<Begin> {
        cancel.check()?;
        let lock = self.medium.lock(key.id(), cancel).await?;
        cancel.check()?;
        let mut found = self.place(key.id()).await?;
        if let (place, Found::Whole(state)) = found {
            if let Some(files) = self.open_whole(&place, state).await?.filter(|files| has(files, wanted)) {
                return Ok(Begin::Whole(files));
            }
            found = self.place(key.id()).await?;
        }
        Ok(Begin::Write(Writer::new(self.medium.clone(), key.clone(), lock, found).await?))
    }

    /// Becomes the writer of what takes a model's place: until it is whole, what was there before stays.
    pub(crate) async fn begin_beside(&self, key: &ModelKey, cancel: &Cancel) -> Result<Writer> {
        cancel.check()?;
        let lock = self.medium.lock(key.id(), cancel).await?;
        cancel.check()?;
        let (place, found) = self.place(key.id()).await?;
        let free = match found {
            Found::Nothing => place,
            _ => other_place(&place),
        };
        Writer::new(self.medium.clone(), key.clone(), lock, (free, Found::Nothing)).await
    }

    /// A model that is whole: its folder, its files, and the names of their shards' files there.
    pub async fn shard_names(&self, key: &ModelKey) -> Result<Option<(String, Vec<(String, Vec<String>)>)>> {
        let (place, Found::Whole(state)) = self.place(key.id()).await? else { return Ok(None) };
        let names = |(number, file): (usize, StoredFile)| {
            (file.name, (0..file.shards.len()).map(|index| shard_name(number, index)).collect())
        };
        let files = state.files.into_iter().enumerate().filter(|(_, file)| !file.is_left_out());
        Ok(Some((place, files.map(names).collect())))
    }

    /// Compares what is stored of a model with its hashes and drops what differs: the next download fetches it again.
    ///
    /// Fails with `NOT_FOUND` where there is no such model.
    pub async fn verify(&self, key: &ModelKey, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<Verified> {
        let lock = self.medium.lock(key.id(), cancel).await?;
        let (place, found) = self.place(key.id()).await?;
        let (whole, state) = match &found {
            Found::Whole(state) => (true, state),
            Found::Part(part) => (false, &part.state),
            Found::Nothing => return Err(Error::not_found(format!("{}: no such model is stored", key.url()))),
        };
        let verified = check(&*self.medium, &place, state, progress, cancel).await?;
        if verified.bad.is_empty() && whole {
            return Ok(verified);
        }
        let writer = Writer::new(self.medium.clone(), key.clone(), lock, (place, found)).await?;
        writer.shared().drop_shards(&verified.bad).await?;
        writer.close().await?;
        Ok(verified)
    }

    /// Removes a model, if it is there. Fails with `STORAGE` where it is in use and the place does not allow that.
    pub async fn remove(&self, key: &ModelKey) -> Result<()> {
        let _lock = self.medium.lock(key.id(), &Cancel::new()).await?;
        for place in [key.id().to_owned(), other_place(key.id())] {
            clear(&*self.medium, &place).await?;
        }
        Ok(())
    }

    /// Removes folders that cannot be resumed and are not being written.
    pub async fn sweep(&self) -> Result<()> {
        for folder in self.medium.folders().await? {
            let id = id_of(&folder);
            if self.is_left_over(&folder).await?
                && let Some(_lock) = self.medium.try_lock(id).await?
                && self.is_left_over(&folder).await?
            {
                clear(&*self.medium, &folder).await?;
            }
        }
        Ok(())
    }

    /// Whether a folder is useless: it is empty, or the model's other folder replaces it or is replaced by it.
    async fn is_left_over(&self, folder: &str) -> Result<bool> {
        let (place, found) = self.place(id_of(folder)).await?;
        Ok(matches!(found, Found::Nothing) || place != folder)
    }

    /// The one of a model's two folders that counts, and what is in it: the whole model first, then the newer, then the
    /// larger.
    async fn place(&self, id: &str) -> Result<(String, Found)> {
        let (one, other) = (self.look(id).await?, self.look(&other_place(id)).await?);
        let rank = |found: &Found| match found {
            Found::Whole(state) => (2, state.created),
            Found::Part(part) => (1, part.state.bytes()),
            Found::Nothing => (0, 0),
        };
        Ok(if rank(&other) > rank(&one) { (other_place(id), other) } else { (id.to_owned(), one) })
    }

    /// How full it is. Looks at every file.
    pub async fn usage(&self) -> Result<Usage> {
        let mut used = 0;
        for id in self.medium.folders().await? {
            used += self.medium.files(&id).await?.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
        Ok(Usage { used, available: self.medium.available().await })
    }

    /// A small file of a folder.
    async fn small(&self, id: &str, name: &str) -> Option<Vec<u8>> {
        small(&*self.medium, id, name).await
    }

    async fn put(&self, id: &str, name: &str, bytes: &[u8]) -> Result<()> {
        put(&*self.medium, id, name, bytes).await
    }

    /// What is there, by the lengths of its shards.
    async fn look(&self, place: &str) -> Result<Found> {
        let stored = self.small(place, STORED).await.and_then(|text| State::parse_stored(&text, id_of(place)));
        let journal = self.small(place, JOURNAL).await.and_then(|text| State::parse_journal(&text, id_of(place)));
        let (mut state, whole, clean, journal) = match (stored, journal) {
            (Some(state), None) => (state, true, true, None),
            // The document was written, and then something happened: what it says has to be looked at.
            (Some(state), Some(_)) => (state, false, false, None),
            (None, Some(Journal { state, clean, good })) => (state, false, clean, Some(good)),
            (None, None) => return Ok(Found::Nothing),
        };
        let there = self.medium.files(place).await?;
        let there = |number, index| {
            let name = shard_name(number, index);
            there.iter().find(|(found, _)| *found == name).map(|(_, bytes)| *bytes)
        };
        let mut missing = Vec::new();
        for (number, file) in state.files.iter_mut().enumerate() {
            for index in 0..file.shards.len() {
                let expected = file.shard_len(index);
                let found = there(number, index);
                if file.shards[index].is_some()
                    && (found.is_none() || expected.is_some_and(|expected| found != Some(expected)))
                {
                    file.shards[index] = None;
                    missing.push((number, index));
                }
            }
            file.parts.retain(|(index, bytes, _)| there(number, *index).is_some_and(|found| found >= *bytes));
        }
        Ok(if whole && missing.is_empty() {
            Found::Whole(state)
        } else {
            Found::Part(Part { state, clean, journal, missing })
        })
    }
}

/// Whether the file that is wanted is among these, if any is.
fn has(files: &Files, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|name| files.contains_key(name))
}

/// The other one of a model's two folders.
fn other_place(place: &str) -> String {
    place.strip_suffix(BESIDE).map_or_else(|| format!("{place}{BESIDE}"), str::to_owned)
}

/// The [`ModelKey::id`] that a folder belongs to.
fn id_of(place: &str) -> &str {
    place.strip_suffix(BESIDE).unwrap_or(place)
}

/// Removes a model's folder. What makes it a model goes first: a removal that is interrupted leaves nothing that looks
/// whole.
async fn clear(medium: &dyn Medium, place: &str) -> Result<()> {
    medium.remove(place, STORED).await?;
    medium.remove(place, JOURNAL).await?;
    medium.remove_folder(place).await
}

/// Compares the shards that are there with their hashes.
async fn check(
    medium: &dyn Medium,
    id: &str,
    state: &State,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<Verified> {
    let (total, bytes) = (state.bytes(), Cell::new(0));
    progress(Progress::new(Phase::Verify, 0, total));
    let shards = state.files.iter().enumerate().flat_map(|(number, file)| {
        let there = file.shards.iter().enumerate().filter_map(|(shard, hash)| Some((shard, hash.as_deref()?)));
        there.map(move |(shard, expected)| (number, file.name.as_str(), shard, expected))
    });
    let mut looked_at = iter(shards)
        .map(async |(number, name, shard, expected)| {
            let mut before = 0;
            let read = |at| {
                bytes.set(bytes.get() + at - std::mem::replace(&mut before, at));
                progress(Progress { file: Some(name.to_owned()), ..Progress::new(Phase::Verify, bytes.get(), total) });
            };
            let found = match medium.open(id, &shard_name(number, shard)).await? {
                Some(source) => match sha256_of(&*source, medium.hasher(source.len()), cancel, read).await {
                    Err(e) if e.kind() == ErrorKind::Aborted => return Err(e),
                    // What cannot be read is not what it was.
                    found => found.ok(),
                },
                None => None,
            };
            Ok::<_, Error>((found.as_deref() != Some(expected)).then(|| BadShard {
                file: name.to_owned(),
                number,
                shard,
            }))
        })
        .buffered(AT_ONCE);
    let mut bad = Vec::new();
    while let Some(found) = looked_at.next().await {
        bad.extend(found?);
    }
    progress(Progress::new(Phase::Verify, total, total));
    Ok(Verified { bytes: bytes.get(), bad })
}

/// The SHA-256 of all of `source`, hexadecimal, by `hasher`. `read` is called with the number of bytes so far.
pub(crate) async fn sha256_of(
    source: &dyn ByteSource,
    mut hasher: Box<dyn Hasher>,
    cancel: &Cancel,
    mut read: impl FnMut(u64),
) -> Result<String> {
    let mut at = 0;
    while at < source.len() {
        cancel.check()?;
        let n = PIECE.min(source.len() - at);
        hasher.update(&source.read(at, n as usize).await?);
        at += n;
        read(at);
    }
    hasher.finish().await
}

/// A small file of a folder; `None` where it is not there or cannot be read.
async fn small(medium: &dyn Medium, id: &str, name: &str) -> Option<Vec<u8>> {
    let source = medium.open(id, name).await.ok()??;
    source.read(0, usize::try_from(source.len()).ok()?).await.ok()
}

/// Writes a small file.
async fn put(medium: &dyn Medium, id: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let mut out = medium.create(id, name, 0).await?;
    out.write(bytes).await?;
    out.flush().await
}

/// The name of a shard's file.
fn shard_name(file: usize, shard: usize) -> String {
    format!("{file}.{shard}")
}

/// How a look at all bytes of a model went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Bytes that were looked at.
    pub bytes: u64,
    /// The shards that are not what they were; they have been removed.
    pub bad: Vec<BadShard>,
}

/// A shard that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadShard {
    /// The file's name.
    pub file: String,
    #[serde(skip)]
    number: usize,
    /// Which of its shards, from 0.
    pub shard: usize,
}

/// What identifies a model in a store: the address it came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelKey {
    url: String,
    id: String,
}

impl ModelKey {
    /// The key of the model at `url`, which is taken as it is: make it canonical first.
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        let digest = Sha256::digest(url.as_bytes());
        Self { id: hex(&digest[..16]), url }
    }

    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// 32 hexadecimal digits of the address's SHA-256: a name for folders and locks.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A model in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Where it came from.
    pub url: String,
    /// Bytes that are here.
    pub bytes: u64,
    /// Bytes in all, where that is known.
    pub total: Option<u64>,
    /// Whether all of it is here.
    pub complete: bool,
    /// Its files, as far as they are known.
    pub files: Vec<EntryFile>,
    /// When its first byte arrived, ms since 1970.
    pub created: u64,
    /// When it was last opened, ms since 1970.
    pub last_used: Option<u64>,
}

/// A file in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryFile {
    /// Its name.
    pub name: String,
    /// Bytes that are here.
    pub bytes: u64,
    /// Bytes in all, where that is known.
    pub total: Option<u64>,
}

impl Entry {
    fn new(state: &State, complete: bool, last_used: Option<u64>) -> Self {
        let files = state
            .files
            .iter()
            .filter(|f| !f.is_left_out())
            .map(|f| EntryFile { name: f.name.clone(), bytes: f.bytes(), total: f.length })
            .collect();
        Self {
            url: state.url.clone(),
            bytes: state.bytes(),
            total: state.total(),
            complete,
            files,
            created: state.created,
            last_used,
        }
    }
}

/// How full a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes that models take, incomplete ones included.
    pub used: u64,
    /// Bytes that can still be written, as far as the system tells.
    pub available: Option<u64>,
}

/// How a loaded model is kept: part of the engine's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// [`Store::kind`], or `local` for the user's own files.
    pub kind: &'static str,
    /// Whether this load took the bytes from there, without the network.
    pub cached: bool,
    /// Why the model is not kept, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Storage {
    /// The user's own files: nothing is copied, nothing is fetched.
    pub fn local() -> Self {
        Self { kind: "local", cached: true, reason: None }
    }
}

/// The error for a store that is full.
pub(crate) fn full(what: &str, needed: Option<u64>, available: Option<u64>) -> Error {
    let needed = needed.map_or_else(|| "more space than there is".to_owned(), |n| format!("{} of storage", size(n)));
    let available = available.map_or_else(String::new, |a| format!(", {} available", size(a)));
    Error::storage(format!(
        "{what}: needs {needed}{available}; remove models or other site data, or load with `cache: false` to keep the model in memory only"
    ))
}

/// Bytes for people: `1.5 GB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A future of nothing in particular.
pub(crate) type Work<'a, T> = LocalBoxFuture<'a, Result<T>>;

/// Bytes of all files of a model.
pub(crate) fn total(files: &Files) -> u64 {
    files.values().map(|f: &Rc<dyn ByteSource>| f.len()).sum()
}
