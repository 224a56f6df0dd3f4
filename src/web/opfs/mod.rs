//! Models in the origin's private file system: `millrace/<id>/F.S` for shard S of file F, `manifest.json` last.
//!
//! Files are written through synchronous access handles, which only Workers have. Reading uses them too where they can be
//! shared (`mode: "read-only"`); elsewhere a handle would lock everyone else out, and the shards are read as blobs.

mod handle;
mod source;
mod writer;

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{AbortSignal, FileSystemDirectoryHandle};

pub(super) use self::handle::{JsResult, blob, directory, file};
use self::handle::{names, remove};
use self::source::OpfsSource;
use self::writer::OpfsWriter;
use super::BlobSource;
use super::errors::from_js;
use super::js;
use super::lock::{self, Otherwise};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, Files};
use crate::store::{Begin, Entry, MANIFEST, Manifest, ModelKey, Store, Usage};
use crate::stream::Cancel;

/// Bytes of a shard: small enough to write, verify or fetch again alone.
const SHARD: u64 = 64 << 20;
/// The folder of the origin's file system that is ours.
const FOLDER: &str = "millrace";
/// The folder of saved conversations.
const CONVERSATIONS: &str = "millrace-conversations";

/// The store in the origin's private file system.
pub struct OpfsStore {
    dir: FileSystemDirectoryHandle,
    folder: String,
    shard: u64,
    signal: Option<AbortSignal>,
}

/// From here on a browser's answer may be made up: there can be more, and an attempt tells.
const MOST_REPORTED: u64 = 10_000_000_000;

impl OpfsStore {
    /// Opens the store and removes what interrupted writers left. `signal` ends waiting for other writers.
    ///
    /// Fails with `STORAGE` where the browser has no such file system or keeps it closed, as in private windows.
    pub async fn open(signal: Option<AbortSignal>) -> Result<Self> {
        Self::open_in(FOLDER, SHARD, signal).await
    }

    /// Where conversations are kept: beside the models' folder.
    pub async fn conversations(signal: Option<AbortSignal>) -> Result<Self> {
        Self::open_in(CONVERSATIONS, SHARD, signal).await
    }

    async fn open_in(folder: &str, shard: u64, signal: Option<AbortSignal>) -> Result<Self> {
        let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
        let missing = |what: &str| Error::storage(format!("this browser has no {what} here; models cannot be kept"));
        if !js::get(&storage, "getDirectory").is_function() {
            return Err(missing("private file system"));
        }
        if !lock::available() {
            return Err(missing("Web Locks"));
        }
        if !js::path(&js_sys::global(), &["FileSystemFileHandle", "prototype", "createSyncAccessHandle"]).is_function() {
            return Err(missing("synchronous file access"));
        }
        let closed = |e: JsValue| from_js(&e, ErrorKind::Storage, "the browser keeps its private file system closed, as in private windows");
        let root = js::call_async(&storage, "getDirectory", &[]).await.map_err(closed)?;
        let root: FileSystemDirectoryHandle = root.dyn_into().map_err(closed)?;
        let dir = directory(&root, folder, true).await.map_err(closed)?;
        let store = Self { dir, folder: folder.to_owned(), shard, signal };
        store.sweep().await?;
        Ok(store)
    }

    /// Removes what is no whole model and nobody is writing.
    async fn sweep(&self) -> Result<()> {
        for id in self.ids().await? {
            if self.manifest(&id).await.is_none()
                && let Some(_lock) = lock::acquire(&self.lock_name(&id), Otherwise::Leave).await?
                && self.manifest(&id).await.is_none()
            {
                remove(&self.dir, &id).await?;
            }
        }
        Ok(())
    }

    fn lock_name(&self, id: &str) -> String {
        format!("{}/{id}", self.folder)
    }

    async fn ids(&self) -> Result<Vec<String>> {
        names(&self.dir).await.map_err(|e| from_js(&e, ErrorKind::Storage, "private file system"))
    }

    /// The manifest of a model, if there is a whole one.
    async fn manifest(&self, id: &str) -> Option<Manifest> {
        let dir = directory(&self.dir, id, false).await.ok()?;
        let blob = blob(&file(&dir, MANIFEST, false).await.ok()?).await.ok()?;
        let source = BlobSource::new(MANIFEST, blob);
        Manifest::parse(&source.read(0, source.len() as usize).await.ok()?, id)
    }

    /// The files of a model, if all of it is there.
    async fn files(&self, id: &str) -> Result<Option<Files>> {
        let Some(manifest) = self.manifest(id).await else { return Ok(None) };
        let Ok(dir) = directory(&self.dir, id, false).await else { return Ok(None) };
        let mut files = Files::new();
        for (number, stored) in manifest.files.into_iter().enumerate() {
            let Some(source) = OpfsSource::open(&dir, number, stored).await? else { return Ok(None) };
            files.insert(source.name.clone(), Rc::new(source));
        }
        Ok(Some(files))
    }

    /// Bytes that can still be written, where the browser says so. Chrome tells no more than 10 GiB, so as not to tell how large the disk is.
    async fn estimate(&self) -> Option<u64> {
        let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
        let estimate = js::call_async(&storage, "estimate", &[]).await.ok()?;
        let number = |name: &str| js::get(&estimate, name).as_f64();
        let free = (number("quota")? - number("usage")?).max(0.0) as u64;
        (free < MOST_REPORTED).then_some(free)
    }
}

impl Store for OpfsStore {
    fn kind(&self) -> &'static str {
        "opfs"
    }

    fn transient(&self) -> Option<&str> {
        None
    }

    fn list(&self) -> LocalBoxFuture<'_, Result<Vec<Entry>>> {
        Box::pin(async {
            let mut entries = Vec::new();
            for id in self.ids().await? {
                entries.extend(self.manifest(&id).await.map(|m| Entry { bytes: m.bytes(), url: m.url }));
            }
            Ok(entries)
        })
    }

    fn open<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<Option<Files>>> {
        Box::pin(async move { self.files(key.id()).await })
    }

    fn begin<'a>(&'a self, key: &'a ModelKey, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Begin>> {
        Box::pin(async move {
            cancel.check()?;
            let lock = lock::acquire(&self.lock_name(key.id()), Otherwise::Wait(self.signal.as_ref())).await?;
            let lock = lock.ok_or_else(|| Error::storage("lock: the browser gave none"))?;
            cancel.check()?;
            if let Some(files) = self.files(key.id()).await? {
                return Ok(Begin::Whole(files));
            }
            remove(&self.dir, key.id()).await?;
            let dir = directory(&self.dir, key.id(), true).await.map_err(|e| from_js(&e, ErrorKind::Storage, "private file system"))?;
            let store = Self { dir: self.dir.clone(), folder: self.folder.clone(), shard: self.shard, signal: None };
            Ok(Begin::Write(Box::new(OpfsWriter { store, dir, key: key.clone(), files: Vec::new(), handle: None, lock: Some(lock) })))
        })
    }

    fn remove<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _lock = lock::acquire(&self.lock_name(key.id()), Otherwise::Wait(self.signal.as_ref())).await?;
            remove(&self.dir, key.id()).await
        })
    }

    fn usage(&self) -> LocalBoxFuture<'_, Result<Usage>> {
        Box::pin(async {
            let failed = |e: JsValue| from_js(&e, ErrorKind::Storage, "private file system");
            let mut used = 0;
            for id in self.ids().await? {
                // A folder or file may go while it is looked at: then it takes no space.
                let Ok(dir) = directory(&self.dir, &id, false).await else { continue };
                for name in names(&dir).await.map_err(failed)? {
                    if let Ok(file) = file(&dir, &name, false).await {
                        used += blob(&file).await.map_or(0, |b| b.size() as u64);
                    }
                }
            }
            Ok(Usage { used, available: self.estimate().await })
        })
    }

    fn available(&self) -> LocalBoxFuture<'_, Option<u64>> {
        Box::pin(self.estimate())
    }
}

#[cfg(test)]
mod tests {
    use super::handle::Handle;
    use super::*;
    use wasm_bindgen_test::wasm_bindgen_test;

    async fn wipe(folder: &str) {
        let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
        let root: FileSystemDirectoryHandle = js::call_async(&storage, "getDirectory", &[]).await.unwrap().unchecked_into();
        let _ = remove(&root, folder).await;
    }

    #[wasm_bindgen_test]
    async fn conformance() {
        wipe("test-suite").await;
        // Shards of a size that fits nothing, so that every boundary is crossed.
        let open = || async { Box::new(OpfsStore::open_in("test-suite", 999, None).await.unwrap()) as Box<dyn Store> };
        crate::store::suite::conforms(open).await;
        wipe("test-suite").await;
    }

    #[wasm_bindgen_test]
    async fn what_a_crash_left_is_removed_and_damage_is_noticed() {
        wipe("test-crash").await;
        let open = || OpfsStore::open_in("test-crash", 4, None);
        let store = open().await.unwrap();
        let key = ModelKey::new("https://example.org/a.gguf");
        let left = directory(&store.dir, key.id(), true).await.unwrap();
        Handle::create(&left, "0.0").await.unwrap().write(b"half", 0).unwrap();
        assert_eq!(store.usage().await.unwrap().used, 4);
        let store = open().await.unwrap();
        assert_eq!(store.usage().await.unwrap().used, 0);

        for (victim, content) in [("0.1", &b"x"[..]), (MANIFEST, b"{"), (MANIFEST, b"")] {
            let Begin::Write(mut w) = store.begin(&key, &Cancel::new()).await.unwrap() else { panic!("not clean") };
            w.create("a.gguf", None).await.unwrap();
            w.append(b"0123456789").await.unwrap();
            drop(w.finish().await.unwrap());
            assert!(store.open(&key).await.unwrap().is_some());
            let dir = directory(&store.dir, key.id(), false).await.unwrap();
            Handle::create(&dir, victim).await.unwrap().write(content, 0).unwrap();
            assert!(store.open(&key).await.unwrap().is_none(), "{victim}");
        }
        wipe("test-crash").await;
    }

    #[wasm_bindgen_test]
    async fn waiting_for_a_writer_can_be_aborted() {
        let controller = web_sys::AbortController::new().unwrap();
        let store = OpfsStore::open_in("test-abort", 999, Some(controller.signal())).await.unwrap();
        let key = ModelKey::new("https://example.org/a.gguf");
        let Begin::Write(first) = store.begin(&key, &Cancel::new()).await.unwrap() else { panic!("not clean") };
        let cancel = Cancel::new();
        let mut second = store.begin(&key, &cancel);
        assert!(futures_util::future::poll_immediate(&mut second).await.is_none());
        controller.abort();
        assert_eq!(second.await.unwrap_err().kind(), ErrorKind::Aborted);
        drop(first);
        wipe("test-abort").await;
    }
}
