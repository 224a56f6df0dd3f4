//! Blobs: files that the user picked, and the memory that the browser keeps outside of wasm, where OPFS cannot be had.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use js_sys::{Array, Uint8Array};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

use super::errors::from_js;
use crate::base::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, check_range};
use crate::store::medium::{Lock, Out};
use crate::store::memory::Locks;
use crate::store::{Medium, Work};

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
                    Error::storage(format!(
                        "{}; the file was changed, moved or removed since it was chosen: choose it again",
                        e.message()
                    ))
                }
                e => e,
            };
            let slice =
                self.blob.slice_with_f64_and_f64(offset as f64, (offset + len as u64) as f64).map_err(failed)?;
            let buffer = JsFuture::from(slice.array_buffer()).await.map_err(failed)?;
            let bytes = Uint8Array::new(&buffer).to_vec();
            if bytes.len() != len {
                return Err(Error::storage(format!(
                    "{}: gave {} bytes instead of {len}; choose the file again",
                    self.name,
                    bytes.len()
                )));
            }
            Ok(bytes)
        })
    }
}

#[derive(Default)]
struct Place {
    folders: RefCell<BTreeMap<String, BTreeMap<String, Blob>>>,
    locks: Locks,
}

/// Folders of blobs: as long as this engine lives, outside of wasm's 4 GiB.
#[derive(Clone)]
pub struct Blobs {
    place: Rc<Place>,
    reason: Rc<str>,
}

impl Blobs {
    /// An empty place; `reason` says why there is nothing better.
    pub fn new(reason: &str) -> Self {
        Self { place: Rc::default(), reason: reason.into() }
    }
}

impl Medium for Blobs {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn transient(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn folders(&self) -> Work<'_, Vec<String>> {
        Box::pin(async { Ok(self.place.folders.borrow().keys().cloned().collect()) })
    }

    fn files<'a>(&'a self, folder: &'a str) -> Work<'a, Vec<(String, u64)>> {
        Box::pin(async move {
            let folders = self.place.folders.borrow();
            Ok(folders
                .get(folder)
                .into_iter()
                .flatten()
                .map(|(name, blob)| (name.clone(), blob.size() as u64))
                .collect())
        })
    }

    fn open<'a>(&'a self, folder: &'a str, name: &'a str) -> Work<'a, Option<Rc<dyn ByteSource>>> {
        Box::pin(async move {
            let blob = self.place.folders.borrow().get(folder).and_then(|files| files.get(name)).cloned();
            Ok(blob.map(|blob| Rc::new(BlobSource::new(name, blob)) as _))
        })
    }

    fn create<'a>(&'a self, folder: &'a str, name: &'a str, keep: u64) -> Work<'a, Box<dyn Out>> {
        Box::pin(async move {
            let parts = Array::new();
            let old = self.place.folders.borrow().get(folder).and_then(|files| files.get(name)).cloned();
            if let Some(old) = old.filter(|_| keep > 0) {
                let kept = old
                    .slice_with_f64_and_f64(0.0, keep as f64)
                    .map_err(|e| from_js(&e, ErrorKind::OutOfMemory, name))?;
                parts.push(&kept);
            }
            let mut out = BlobOut {
                place: self.place.clone(),
                folder: folder.to_owned(),
                name: name.to_owned(),
                parts,
                tail: Vec::new(),
            };
            out.flush().await?;
            Ok(Box::new(out) as _)
        })
    }

    fn remove<'a>(&'a self, folder: &'a str, name: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            self.place.folders.borrow_mut().get_mut(folder).and_then(|files| files.remove(name));
            Ok(())
        })
    }

    fn remove_folder<'a>(&'a self, folder: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            self.place.folders.borrow_mut().remove(folder);
            Ok(())
        })
    }

    fn lock<'a>(&'a self, folder: &'a str, cancel: &'a Cancel) -> Work<'a, Lock> {
        Box::pin(self.place.locks.acquire(folder, cancel))
    }

    fn try_lock<'a>(&'a self, folder: &'a str) -> Work<'a, Option<Lock>> {
        Box::pin(async move { Ok(self.place.locks.try_acquire(folder)) })
    }

    fn available(&self) -> LocalBoxFuture<'_, Option<u64>> {
        Box::pin(async { None })
    }
}

/// A file being written: blobs, and bytes that are not one yet.
struct BlobOut {
    place: Rc<Place>,
    folder: String,
    name: String,
    parts: Array,
    tail: Vec<u8>,
}

impl BlobOut {
    fn gather(&mut self) -> Result<()> {
        if !self.tail.is_empty() {
            let blob = blob_of(&self.tail).map_err(|e| from_js(&e, ErrorKind::OutOfMemory, &self.name))?;
            self.parts.push(&blob);
            self.tail.clear();
        }
        Ok(())
    }
}

impl Out for BlobOut {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move {
            self.tail.extend_from_slice(bytes);
            if self.tail.len() >= GATHER { self.gather() } else { Ok(()) }
        })
    }
    fn flush(&mut self) -> Work<'_, ()> {
        Box::pin(async {
            self.gather()?;
            let blob = Blob::new_with_blob_sequence(&self.parts)
                .map_err(|e| from_js(&e, ErrorKind::OutOfMemory, &self.name))?;
            self.place.folders.borrow_mut().entry(self.folder.clone()).or_default().insert(self.name.clone(), blob);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    async fn conformance() {
        let blobs = Blobs::new("a test");
        crate::store::suite::conforms(|| std::future::ready(Store::new(blobs.clone()))).await;
    }

    #[wasm_bindgen_test]
    async fn a_picked_file() {
        let source = BlobSource::new("a.gguf", blob_of(b"0123456789").unwrap());
        assert_eq!((source.name(), source.len()), ("a.gguf", 10));
        assert_eq!(source.read(3, 4).await.unwrap(), b"3456");
        assert_eq!(source.read(8, 3).await.unwrap_err().kind(), ErrorKind::BadModel);
    }
}
