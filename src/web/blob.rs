//! Blobs: files that the user picked, and the memory that the browser keeps outside of wasm, where OPFS cannot be had.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use futures_util::lock::OwnedMutexGuard;
use js_sys::{Array, Uint8Array};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

use super::errors::from_js;
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, Files, check_range};
use crate::store::memory::{Locks, total};
use crate::store::{Begin, Entry, ModelKey, Store, Usage, Writer, check_name};
use crate::stream::Cancel;

/// Bytes that are gathered in wasm before they become a blob.
const GATHER: usize = 4 << 20;

/// A blob that holds a copy of `bytes`.
pub(super) fn blob_of(bytes: &[u8]) -> std::result::Result<Blob, JsValue> {
    Blob::new_with_u8_array_sequence(&Array::of1(&Uint8Array::from(bytes)))
}

/// A `File` or `Blob`, read by slices.
pub struct BlobSource {
    name: String,
    blob: Blob,
}

impl BlobSource {
    /// Wraps `blob` under `name`.
    pub fn new(name: impl Into<String>, blob: Blob) -> Self {
        Self { name: name.into(), blob }
    }
}

impl ByteSource for BlobSource {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> u64 {
        self.blob.size() as u64
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            check_range(&self.name, self.len(), offset, len)?;
            let failed = |e: JsValue| match from_js(&e, ErrorKind::Storage, &self.name) {
                // The browser reads a picked file lazily, and refuses once it changed.
                e if e.message().contains("NotReadableError") || e.message().contains("NotFoundError") => {
                    Error::storage(format!("{}; the file was changed, moved or removed since it was chosen: choose it again", e.message()))
                }
                e => e,
            };
            let slice = self.blob.slice_with_f64_and_f64(offset as f64, (offset + len as u64) as f64).map_err(failed)?;
            let buffer = JsFuture::from(slice.array_buffer()).await.map_err(failed)?;
            let bytes = Uint8Array::new(&buffer).to_vec();
            if bytes.len() != len {
                return Err(Error::storage(format!("{}: gave {} bytes instead of {len}; choose the file again", self.name, bytes.len())));
            }
            Ok(bytes)
        })
    }
}

#[derive(Default)]
struct Shared {
    models: RefCell<HashMap<ModelKey, Files>>,
    locks: Locks,
}

/// A store of blobs: as long as this engine lives, outside of wasm's 4 GiB.
#[derive(Clone)]
pub struct BlobStore {
    shared: Rc<Shared>,
    reason: Rc<str>,
}

impl BlobStore {
    /// An empty store; `reason` says why there is nothing better.
    pub fn new(reason: &str) -> Self {
        Self { shared: Rc::default(), reason: reason.into() }
    }
}

impl Store for BlobStore {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn transient(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn list(&self) -> LocalBoxFuture<'_, Result<Vec<Entry>>> {
        Box::pin(async { Ok(self.shared.models.borrow().iter().map(|(key, files)| Entry { url: key.url().to_owned(), bytes: total(files) }).collect()) })
    }

    fn open<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<Option<Files>>> {
        Box::pin(async move { Ok(self.shared.models.borrow().get(key).cloned()) })
    }

    fn begin<'a>(&'a self, key: &'a ModelKey, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Begin>> {
        Box::pin(async move {
            cancel.check()?;
            let guard = self.shared.locks.acquire(key).await;
            cancel.check()?;
            if let Some(files) = self.open(key).await? {
                return Ok(Begin::Whole(files));
            }
            Ok(Begin::Write(Box::new(BlobWriter { store: self.clone(), key: key.clone(), files: Files::new(), current: None, _guard: guard })))
        })
    }

    fn remove<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.shared.models.borrow_mut().remove(key);
            Ok(())
        })
    }

    fn usage(&self) -> LocalBoxFuture<'_, Result<Usage>> {
        Box::pin(async { Ok(Usage { used: self.shared.models.borrow().values().map(total).sum(), available: None }) })
    }

    fn available(&self) -> LocalBoxFuture<'_, Option<u64>> {
        Box::pin(async { None })
    }
}

/// A file being written: blobs, and bytes that are not one yet.
struct Open {
    name: String,
    parts: Array,
    tail: Vec<u8>,
}

impl Open {
    fn gather(&mut self) -> Result<()> {
        let blob = blob_of(&self.tail).map_err(|e| from_js(&e, ErrorKind::OutOfMemory, &self.name))?;
        self.parts.push(&blob);
        self.tail.clear();
        Ok(())
    }
}

struct BlobWriter {
    store: BlobStore,
    key: ModelKey,
    files: Files,
    current: Option<Open>,
    _guard: OwnedMutexGuard<()>,
}

impl BlobWriter {
    fn end_file(&mut self) -> Result<()> {
        if let Some(mut open) = self.current.take() {
            open.gather()?;
            let blob = Blob::new_with_blob_sequence(&open.parts).map_err(|e| from_js(&e, ErrorKind::OutOfMemory, &open.name))?;
            self.files.insert(open.name.clone(), Rc::new(BlobSource::new(open.name, blob)));
        }
        Ok(())
    }
}

impl Writer for BlobWriter {
    fn create<'a>(&'a mut self, name: &'a str, _etag: Option<String>) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            self.end_file()?;
            self.current = Some(Open { name: name.to_owned(), parts: Array::new(), tail: Vec::new() });
            Ok(())
        })
    }

    fn append<'a>(&'a mut self, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let open = self.current.as_mut().ok_or_else(|| Error::internal("append before create"))?;
            open.tail.extend_from_slice(bytes);
            if open.tail.len() >= GATHER { open.gather() } else { Ok(()) }
        })
    }

    fn finish(mut self: Box<Self>) -> LocalBoxFuture<'static, Result<Files>> {
        Box::pin(async move {
            self.end_file()?;
            let files = std::mem::take(&mut self.files);
            self.store.shared.models.borrow_mut().insert(self.key.clone(), files.clone());
            Ok(files)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    async fn conformance() {
        let store = BlobStore::new("a test");
        crate::store::suite::conforms(|| std::future::ready(Box::new(store.clone()) as Box<dyn Store>)).await;
    }

    #[wasm_bindgen_test]
    async fn a_picked_file() {
        let source = BlobSource::new("a.gguf", blob_of(b"0123456789").unwrap());
        assert_eq!((source.name(), source.len()), ("a.gguf", 10));
        assert_eq!(source.read(3, 4).await.unwrap(), b"3456");
        assert_eq!(source.read(8, 3).await.unwrap_err().kind(), ErrorKind::BadModel);
    }
}
