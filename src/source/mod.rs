//! Where a model's bytes come from: anything that can answer "these bytes, from this offset".
//!
//! [`ModelSpec`] reads what the user wrote, [`DiskSource`] and [`MemorySource`] answer from what is already here, and a
//! [`Transport`] brings what is not; [`crate::store::fetch`] puts that into a store first.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use crate::error::{Error, Result};

#[cfg(not(target_arch = "wasm32"))]
pub mod disk;
#[cfg(all(feature = "cli", not(target_arch = "wasm32")))]
pub mod http;
pub mod spec;
pub mod transport;

#[cfg(not(target_arch = "wasm32"))]
pub use disk::DiskSource;
pub use spec::{ModelSpec, Remote, Weights, is_projector};
pub use transport::{Body, Reply, Transport};

/// Random access to the bytes of one file, wherever they are: memory, disk, OPFS, a URL.
pub trait ByteSource {
    /// The file's name, for messages.
    fn name(&self) -> &str;
    /// Length in bytes.
    fn len(&self) -> u64;
    /// `len` bytes from `offset`. Fails with a typed error if the range is not inside the file.
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>>;
    /// A hint that the whole file will be read soon from its beginning: a source may read ahead.
    fn will_be_read(&self) {}
    /// Whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A model as its source gives it: files by relative name (`model.gguf`, or `config.json`, `model.safetensors`, …).
pub type Files = indexmap::IndexMap<String, Rc<dyn ByteSource>>;

/// The projector of a GGUF model, where it is among its files.
pub fn projector_of(files: &Files) -> Option<Files> {
    let name = spec::best_projector(files.keys().map(String::as_str))?;
    let beside = files.keys().any(|other| other.ends_with(".gguf") && !is_projector(other));
    beside.then(|| files.get(name).map(|file| Files::from([(name.to_owned(), file.clone())]))).flatten()
}

/// Checks that `len` bytes from `offset` lie inside a file of `size` bytes, without overflow.
pub fn check_range(name: &str, size: u64, offset: u64, len: usize) -> Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::bad_model(format!(
            "{name}: bytes {offset}..+{len} lie outside the file of {size} bytes; it is truncated or its header is wrong"
        ))),
    }
}

/// A file that is already in memory.
pub struct MemorySource {
    name: String,
    bytes: Vec<u8>,
}

impl MemorySource {
    /// Wraps `bytes` under `name`.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), bytes }
    }
}

impl ByteSource for MemorySource {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            check_range(&self.name, self.len(), offset, len)?;
            let start = offset as usize;
            Ok(self.bytes[start..start + len].to_vec())
        })
    }
}
