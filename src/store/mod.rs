//! Where downloaded models stay: OPFS in the browser, a cache folder natively, memory where neither can be had.
//!
//! A stored model is a set of files under a [`ModelKey`]. Its manifest is written last: a model without a whole manifest is
//! not there, and what an interrupted write left behind is removed when the store is next opened. One writer at a time per
//! model, across threads, tabs and processes; whoever comes second waits and then finds the model whole.

use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::source::Files;
use crate::stream::Cancel;

#[cfg(not(target_arch = "wasm32"))]
pub mod disk;
pub mod download;
pub mod memory;
#[cfg(test)]
pub(crate) mod suite;

#[cfg(not(target_arch = "wasm32"))]
pub use disk::DiskStore;
pub use download::fetch;
pub use memory::MemoryStore;

/// A place that keeps models.
pub trait Store {
    /// What it is, for messages and reports: `opfs`, `disk` or `memory`.
    fn kind(&self) -> &'static str;
    /// Why models do not outlive this page or process here, or `None` where they do.
    fn transient(&self) -> Option<&str>;
    /// The models that are whole.
    fn list(&self) -> LocalBoxFuture<'_, Result<Vec<Entry>>>;
    /// The files of a model that is whole, else `None`. Waits for nobody.
    fn open<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<Option<Files>>>;
    /// Becomes the writer of a model, after any other writer of it has ended; if that one has finished it, its files.
    ///
    /// Fails with `ABORTED` when `cancel` is set while waiting and `STORAGE` if the place cannot be written.
    fn begin<'a>(&'a self, key: &'a ModelKey, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Begin>>;
    /// Removes a model, if it is there. Fails with `STORAGE` where it is in use and the place does not allow that.
    fn remove<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<()>>;
    /// How full it is. Looks at every file.
    fn usage(&self) -> LocalBoxFuture<'_, Result<Usage>>;
    /// Bytes that can still be written, as far as the system tells.
    fn available(&self) -> LocalBoxFuture<'_, Option<u64>>;
}

/// What [`Store::begin`] leads to.
pub enum Begin {
    /// Somebody else finished the model meanwhile.
    Whole(Files),
    /// Write it. Dropping the writer gives it up: what it wrote never counts as a model.
    Write(Box<dyn Writer>),
}

impl std::fmt::Debug for Begin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Whole(_) => "Begin::Whole",
            Self::Write(_) => "Begin::Write",
        })
    }
}

/// Writes one model: its files one after the other, each from its beginning to its end.
pub trait Writer {
    /// Starts the next file; the one before is complete as it is. Names are unique and pass [`check_name`].
    fn create<'a>(&'a mut self, name: &'a str, etag: Option<String>) -> LocalBoxFuture<'a, Result<()>>;
    /// Adds to the current file. Fails with `STORAGE` if the place is full, saying how full.
    fn append<'a>(&'a mut self, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>>;
    /// Makes the model whole, manifest last, and opens it.
    fn finish(self: Box<Self>) -> LocalBoxFuture<'static, Result<Files>>;
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
        let id = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
        Self { url, id }
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
pub struct Entry {
    /// Where it came from.
    pub url: String,
    /// How long it is, in bytes, all files together.
    pub bytes: u64,
}

/// How full a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes that models take, half-written ones included.
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

/// The manifest's version; another one means that another version of Millrace wrote it, and the model is fetched again.
pub(crate) const MANIFEST_VERSION: u32 = 1;
/// The manifest's file name.
pub(crate) const MANIFEST: &str = "stored.json";

/// What a store writes last, beside a model's files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub version: u32,
    pub url: String,
    pub files: Vec<StoredFile>,
}

/// One file of a stored model.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredFile {
    pub name: String,
    /// Bytes.
    pub length: u64,
    pub etag: Option<String>,
    /// Lengths in bytes of the pieces that it is stored in, in order; their sum is `length`.
    pub shards: Vec<u64>,
}

impl Manifest {
    pub(crate) fn new(key: &ModelKey, files: Vec<StoredFile>) -> Self {
        Self { version: MANIFEST_VERSION, url: key.url.clone(), files }
    }

    /// `None` for anything but a whole manifest of this version, of `id`, that contradicts itself nowhere.
    pub(crate) fn parse(bytes: &[u8], id: &str) -> Option<Self> {
        let manifest: Self = serde_json::from_slice(bytes).ok()?;
        let sound = |f: &StoredFile| check_name(&f.name).is_ok() && f.shards.iter().try_fold(0u64, |sum, s| sum.checked_add(*s)) == Some(f.length);
        let mut names = std::collections::HashSet::new();
        let unique = manifest.files.iter().all(|f| names.insert(f.name.as_str()));
        let ours = manifest.version == MANIFEST_VERSION && ModelKey::new(manifest.url.as_str()).id() == id;
        (ours && unique && manifest.files.iter().all(sound)).then_some(manifest)
    }

    /// Bytes of all files; saturates, for a manifest that lies.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, f| sum.saturating_add(f.length))
    }
}

/// Checks that `name` is a plain file name in characters that every store accepts, so that it cannot lead out of its folder.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || name == MANIFEST || !name.chars().all(plain) {
        return Err(Error::bad_model(format!("{name:?} is not a file name that can be stored: use letters, digits, '.', '_' and '-', not starting with '.'")));
    }
    Ok(())
}

/// The error for a store that is full.
pub(crate) fn full(what: &str, needed: Option<u64>, available: Option<u64>) -> Error {
    let needed = needed.map_or_else(|| "more space than there is".to_owned(), |n| format!("{} of storage", size(n)));
    let available = available.map_or_else(String::new, |a| format!(", {} available", size(a)));
    Error::storage(format!("{what}: needs {needed}{available}; remove models or other site data, or load with `cache: false` to keep the model in memory only"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for good in ["model.gguf", "manifest.json", "model-00001-of-00002.safetensors", "a"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "../a", "a/b", "a\\b", ".hidden", "a b", "stored.json", "é", "a:b", "nul\0"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_a_whole_manifest_counts() {
        let key = ModelKey::new("https://example.org/a.gguf");
        let file = StoredFile { name: "a.gguf".into(), length: 10, etag: None, shards: vec![8, 2] };
        let good = Manifest::new(&key, vec![file.clone()]);
        let text = serde_json::to_vec(&good).unwrap();
        assert_eq!(Manifest::parse(&text, key.id()).unwrap().bytes(), 10);
        assert!(Manifest::parse(&text, ModelKey::new("https://example.org/b.gguf").id()).is_none());
        for cut in 0..text.len() {
            assert!(Manifest::parse(&text[..cut], key.id()).is_none(), "{cut}");
        }
        let broken = [
            Manifest { version: 2, ..good.clone() },
            Manifest::new(&key, vec![file.clone(), file.clone()]),
            Manifest::new(&key, vec![StoredFile { length: 11, ..file.clone() }]),
            Manifest::new(&key, vec![StoredFile { shards: vec![u64::MAX, 11], ..file.clone() }]),
            Manifest::new(&key, vec![StoredFile { name: "../a".into(), ..file }]),
        ];
        for manifest in broken {
            assert!(Manifest::parse(&serde_json::to_vec(&manifest).unwrap(), key.id()).is_none(), "{manifest:?}");
        }
    }
}
