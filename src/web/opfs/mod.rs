//! The origin's private file system: `millrace/<id>/NAME` for each file.
//!
//! Files are written through synchronous access handles, which only Workers have. Reading uses them too where they can
//! be shared (`mode: "read-only"`); elsewhere a handle would lock out all other readers, and the shards are read as
//! blobs.

mod handle;
mod hash;
mod reader;
mod source;

use std::rc::Rc;

use futures_util::future::{LocalBoxFuture, ready};
use futures_util::stream::{StreamExt, iter};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortSignal, FileSystemDirectoryHandle, FileSystemRemoveOptions};

use self::handle::{Handle, names, removed};
pub(super) use self::handle::{JsResult, blob, directory, file};
pub(super) use self::hash::hasher;
use self::source::OpfsSource;
use super::errors::{from_js, name_of};
use super::lock::{self, Otherwise};
use crate::base::{Cancel, js, sleep};
use crate::error::{Error, ErrorKind, Result};
use crate::source::ByteSource;
use crate::store::medium::{Hasher, Lock, Out};
use crate::store::{Medium, Store, Work, full};

/// The folder of the origin's file system that is ours.
const FOLDER: &str = "millrace";
/// The folder of saved conversations.
const CONVERSATIONS: &str = "millrace-conversations";

/// Files that are looked at at a time.
const AT_ONCE: usize = 16;

/// How often opening a file that is in use is tried again, and the wait between, ms.
const TRIES: u32 = 20;
const WAIT_MS: f64 = 50.0;

/// A folder of the origin's private file system.
#[derive(Clone)]
pub struct Opfs {
    dir: FileSystemDirectoryHandle,
    folder: String,
    signal: Option<AbortSignal>,
}

/// From here on a browser's answer may be made up: there can be more, and an attempt tells.
const MOST_REPORTED: u64 = 10_000_000_000;

impl Opfs {
    /// Opens the store of models and removes what cannot be resumed. `signal` ends waiting for other writers.
    ///
    /// Fails with `STORAGE` where the browser has no such file system or keeps it closed, as in private windows.
    pub async fn models(signal: Option<AbortSignal>) -> Result<Store> {
        Self::open_in(FOLDER, signal).await
    }

    /// Where conversations are kept: beside the models' folder.
    pub async fn conversations(signal: Option<AbortSignal>) -> Result<Store> {
        Self::open_in(CONVERSATIONS, signal).await
    }

    async fn open_in(folder: &str, signal: Option<AbortSignal>) -> Result<Store> {
        let store = Store::new(Self::open_folder(folder, signal).await?);
        store.sweep().await?;
        Ok(store)
    }

    async fn open_folder(folder: &str, signal: Option<AbortSignal>) -> Result<Self> {
        let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
        let missing = |what: &str| Error::storage(format!("this browser has no {what} here; models cannot be kept"));
        if !js::get(&storage, "getDirectory").is_function() {
            return Err(missing("private file system"));
        }
        if !lock::available() {
            return Err(missing("Web Locks"));
        }
        if !js::path(&js_sys::global(), &["FileSystemFileHandle", "prototype", "createSyncAccessHandle"]).is_function()
        {
            return Err(missing("synchronous file access"));
        }
        let closed = |e: JsValue| {
            from_js(&e, ErrorKind::Storage, "the browser keeps its private file system closed, as in private windows")
        };
        let root = js::call_async(&storage, "getDirectory", &[]).await.map_err(closed)?;
        let root: FileSystemDirectoryHandle = root.dyn_into().map_err(closed)?;
        let dir = directory(&root, folder, true).await.map_err(closed)?;
        Ok(Self { dir, folder: folder.to_owned(), signal })
    }

    /// A stored file of a model as a blob, which lies on the disk until it is read.
    pub(super) async fn blob_of_model(id: &str, name: &str) -> Result<web_sys::Blob> {
        let medium = Self::open_folder(FOLDER, None).await?;
        let read = async { blob(&file(&directory(&medium.dir, id, false).await?, name, false).await?).await };
        read.await.map_err(failed)
    }

    fn lock_name(&self, id: &str) -> String {
        format!("{}/{id}", self.folder)
    }

    /// A model's folder; `None` where there is none.
    async fn folder(&self, id: &str) -> Option<FileSystemDirectoryHandle> {
        directory(&self.dir, id, false).await.ok()
    }

    /// Bytes that can still be written, where the browser says so. Chrome tells no more than 10 GiB, so as not to tell
    /// how large the disk is.
    async fn estimate(&self) -> Option<u64> {
        let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
        let estimate = js::call_async(&storage, "estimate", &[]).await.ok()?;
        let number = |name: &str| js::get(&estimate, name).as_f64();
        let free = (number("quota")? - number("usage")?).max(0.0) as u64;
        (free < MOST_REPORTED).then_some(free)
    }
}

/// Tries again while a file is in use: a handle that was just closed may not be released yet.
async fn patiently<T, F: Future<Output = JsResult<T>>>(attempt: impl Fn() -> F) -> JsResult<T> {
    for _ in 0..TRIES {
        match attempt().await {
            Err(e) if name_of(&e) == "NoModificationAllowedError" => sleep(WAIT_MS).await,
            other => return other,
        }
    }
    attempt().await
}

fn failed(e: JsValue) -> Error {
    from_js(&e, ErrorKind::Storage, "private file system")
}

impl Medium for Opfs {
    fn kind(&self) -> &'static str {
        "opfs"
    }

    fn transient(&self) -> Option<&str> {
        None
    }

    fn folders(&self) -> Work<'_, Vec<String>> {
        Box::pin(async { names(&self.dir).await.map_err(failed) })
    }

    fn files<'a>(&'a self, folder: &'a str) -> Work<'a, Vec<(String, u64)>> {
        Box::pin(async move {
            let Some(dir) = self.folder(folder).await else { return Ok(Vec::new()) };
            // A file may go while it is looked at: then it is not there.
            let length = async |name: String| {
                Some((blob(&file(&dir, &name, false).await.ok()?).await.ok()?.size() as u64, name))
            };
            let lengths = iter(names(&dir).await.map_err(failed)?).map(length).buffered(AT_ONCE);
            Ok(lengths.filter_map(ready).map(|(length, name)| (name, length)).collect().await)
        })
    }

    fn open<'a>(&'a self, folder: &'a str, name: &'a str) -> Work<'a, Option<Rc<dyn ByteSource>>> {
        Box::pin(async move {
            let Some(dir) = self.folder(folder).await else { return Ok(None) };
            Ok(OpfsSource::open(&dir, name).await?.map(|source| Rc::new(source) as _))
        })
    }

    fn create<'a>(&'a self, folder: &'a str, name: &'a str, keep: u64) -> Work<'a, Box<dyn Out>> {
        Box::pin(async move {
            let failed = |e: JsValue| match name_of(&e).as_str() {
                "NoModificationAllowedError" => Error::storage(format!(
                    "{name} of a stored model is in use by another engine or tab; close it and try again"
                )),
                "QuotaExceededError" => full(name, None, None),
                _ => failed(e),
            };
            let dir = directory(&self.dir, folder, true).await.map_err(failed)?;
            let handle = patiently(|| Handle::create(&dir, name, keep)).await.map_err(failed)?;
            Ok(Box::new(OpfsOut { medium: self.clone(), handle, at: keep }) as _)
        })
    }

    fn remove<'a>(&'a self, folder: &'a str, name: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            let Some(dir) = self.folder(folder).await else { return Ok(()) };
            removed(name, patiently(|| JsFuture::from(dir.remove_entry(name))).await)
        })
    }

    fn remove_folder<'a>(&'a self, folder: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            let all = FileSystemRemoveOptions::new();
            all.set_recursive(true);
            removed("the folder", patiently(|| JsFuture::from(self.dir.remove_entry_with_options(folder, &all))).await)
        })
    }

    fn lock<'a>(&'a self, folder: &'a str, cancel: &'a Cancel) -> Work<'a, Lock> {
        Box::pin(async move {
            cancel.check()?;
            let lock = lock::acquire(&self.lock_name(folder), Otherwise::Wait(self.signal.as_ref())).await?;
            cancel.check()?;
            Ok(Box::new(lock.ok_or_else(|| Error::storage("lock: the browser gave none"))?) as Lock)
        })
    }

    fn try_lock<'a>(&'a self, folder: &'a str) -> Work<'a, Option<Lock>> {
        Box::pin(async move {
            Ok(lock::acquire(&self.lock_name(folder), Otherwise::Leave).await?.map(|lock| Box::new(lock) as Lock))
        })
    }

    fn available(&self) -> LocalBoxFuture<'_, Option<u64>> {
        Box::pin(self.estimate())
    }

    fn hasher(&self, most: u64) -> Box<dyn Hasher> {
        hasher(most)
    }
}

struct OpfsOut {
    medium: Opfs,
    handle: Handle,
    at: u64,
}

impl Out for OpfsOut {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move {
            if !self.handle.write(bytes, self.at).map_err(failed)? {
                return Err(full("the model", None, self.medium.estimate().await));
            }
            self.at += bytes.len() as u64;
            Ok(())
        })
    }
    fn flush(&mut self) -> Work<'_, ()> {
        Box::pin(async { self.handle.0.flush().map_err(failed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Begin, ModelKey};
    use wasm_bindgen_test::wasm_bindgen_test;

    async fn wipe(folder: &str) {
        let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
        let root: FileSystemDirectoryHandle =
            js::call_async(&storage, "getDirectory", &[]).await.unwrap().unchecked_into();
        let all = FileSystemRemoveOptions::new();
        all.set_recursive(true);
        let _ = JsFuture::from(root.remove_entry_with_options(folder, &all)).await;
    }

    #[wasm_bindgen_test]
    async fn conformance() {
        wipe("test-suite").await;
        crate::store::suite::conforms(|| async { Opfs::open_in("test-suite", None).await.unwrap() }).await;
        wipe("test-suite").await;
    }

    #[wasm_bindgen_test]
    async fn what_nobody_can_go_on_with_is_removed_and_damage_is_noticed() {
        wipe("test-crash").await;
        let opfs = Opfs::open_folder("test-crash", None).await.unwrap();
        let store = Store::new(opfs.clone());
        let key = ModelKey::new("https://example.org/a.gguf");
        let write = |name: &'static str, bytes: &'static [u8]| {
            let (opfs, key) = (opfs.clone(), key.clone());
            async move { opfs.create(key.id(), name, 0).await.unwrap().write(bytes).await.unwrap() }
        };
        write("0.0", b"half").await;
        assert_eq!(store.usage().await.unwrap().used, 4);
        assert_eq!(Opfs::open_in("test-crash", None).await.unwrap().usage().await.unwrap().used, 0);

        for (victim, content) in [("0.0", &b"x"[..]), ("stored.json", b"{"), ("stored.json", b"")] {
            let Begin::Write(mut w) = store.begin(&key, &Cancel::new()).await.unwrap() else { panic!("not clean") };
            w.create("a.gguf").await.unwrap();
            w.append(b"0123456789").await.unwrap();
            drop(w.finish().await.unwrap());
            assert!(store.open(&key).await.unwrap().is_some());
            write(victim, content).await;
            assert!(store.open(&key).await.unwrap().is_none(), "{victim}");
        }
        wipe("test-crash").await;
    }

    #[wasm_bindgen_test]
    async fn waiting_for_a_writer_ends_with_the_signal() {
        wipe("test-abort").await;
        let store = Opfs::open_in("test-abort", None).await.unwrap();
        let key = ModelKey::new("https://example.org/a.gguf");
        let Begin::Write(first) = store.begin(&key, &Cancel::new()).await.unwrap() else { panic!("not clean") };
        let controller = web_sys::AbortController::new().unwrap();
        let waiting = Opfs::open_in("test-abort", Some(controller.signal())).await.unwrap();
        let cancel = Cancel::new();
        let mut second = Box::pin(waiting.begin(&key, &cancel));
        assert!(futures_util::future::poll_immediate(&mut second).await.is_none());
        controller.abort();
        assert_eq!(second.await.unwrap_err().kind(), ErrorKind::Aborted);
        drop(first);
        wipe("test-abort").await;
    }
}
