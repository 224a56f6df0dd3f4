//! Models in the origin's private file system: `millrace/<id>/F.S` for shard S of file F, `manifest.json` last.
//!
//! Files are written through synchronous access handles, which only Workers have. Reading uses them too where they can be
//! shared (`mode: "read-only"`); elsewhere a handle would lock everyone else out, and the shards are read as blobs.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use js_sys::Uint8Array;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{
    AbortSignal, Blob, FileSystemDirectoryHandle, FileSystemFileHandle, FileSystemGetDirectoryOptions, FileSystemGetFileOptions, FileSystemReadWriteOptions,
    FileSystemRemoveOptions, FileSystemSyncAccessHandle,
};

use super::BlobSource;
use super::errors::{from_js, name_of};
use super::js;
use super::lock::{self, Otherwise, WebLock};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, Files, check_range};
use crate::store::{Begin, Entry, MANIFEST, Manifest, ModelKey, Store, StoredFile, Usage, Writer, check_name, full};
use crate::stream::Cancel;

type JsResult<T = JsValue> = std::result::Result<T, JsValue>;

/// Bytes of a shard: small enough to write, verify or fetch again alone.
const SHARD: u64 = 64 << 20;
/// The folder of the origin's file system that is ours.
const FOLDER: &str = "millrace";

/// The store in the origin's private file system.
pub struct OpfsStore {
    dir: FileSystemDirectoryHandle,
    folder: String,
    shard: u64,
    signal: Option<AbortSignal>,
}

impl OpfsStore {
    /// Opens the store and removes what interrupted writers left. `signal` ends waiting for other writers.
    ///
    /// Fails with `STORAGE` where the browser has no such file system or keeps it closed, as in private windows.
    pub async fn open(signal: Option<AbortSignal>) -> Result<Self> {
        Self::open_in(FOLDER, SHARD, signal).await
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

    async fn estimate(&self) -> Option<u64> {
        let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
        let estimate = js::call_async(&storage, "estimate", &[]).await.ok()?;
        let number = |name: &str| js::get(&estimate, name).as_f64();
        Some((number("quota")? - number("usage")?).max(0.0) as u64)
    }
}

async fn directory(parent: &FileSystemDirectoryHandle, name: &str, create: bool) -> JsResult<FileSystemDirectoryHandle> {
    let options = FileSystemGetDirectoryOptions::new();
    options.set_create(create);
    JsFuture::from(parent.get_directory_handle_with_options(name, &options)).await?.dyn_into()
}

async fn file(parent: &FileSystemDirectoryHandle, name: &str, create: bool) -> JsResult<FileSystemFileHandle> {
    let options = FileSystemGetFileOptions::new();
    options.set_create(create);
    JsFuture::from(parent.get_file_handle_with_options(name, &options)).await?.dyn_into()
}

async fn blob(file: &FileSystemFileHandle) -> JsResult<Blob> {
    JsFuture::from(file.get_file()).await?.dyn_into()
}

async fn names(dir: &FileSystemDirectoryHandle) -> JsResult<Vec<String>> {
    let mut names = Vec::new();
    let keys: JsValue = dir.keys().into();
    loop {
        let next = js::call_async(&keys, "next", &[]).await?;
        if js::get(&next, "done").is_truthy() {
            return Ok(names);
        }
        names.extend(js::get(&next, "value").as_string());
    }
}

/// Removes a model's folder, manifest first: a removal that is interrupted leaves nothing that looks whole.
async fn remove(dir: &FileSystemDirectoryHandle, id: &str) -> Result<()> {
    let all = FileSystemRemoveOptions::new();
    all.set_recursive(true);
    let model = directory(dir, id, false).await;
    let mut steps = Vec::new();
    if let Ok(model) = &model {
        steps.push(JsFuture::from(model.remove_entry(MANIFEST)).await);
    }
    steps.push(JsFuture::from(dir.remove_entry_with_options(id, &all)).await);
    for step in steps {
        match step {
            Err(e) if name_of(&e) == "NoModificationAllowedError" => {
                return Err(Error::storage("the stored model is in use by another engine or tab; close it and try again"));
            }
            Err(e) if name_of(&e) != "NotFoundError" => return Err(from_js(&e, ErrorKind::Storage, "private file system")),
            _ => (),
        }
    }
    Ok(())
}

/// The name of a shard's file.
fn shard_name(file: usize, shard: usize) -> String {
    format!("{file}.{shard}")
}

/// An access handle that is closed when dropped.
struct Handle(FileSystemSyncAccessHandle);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Handle {
    /// The only handle of a file, empty, to write.
    async fn create(dir: &FileSystemDirectoryHandle, name: &str) -> JsResult<Self> {
        let file = file(dir, name, true).await?;
        let handle = Self(JsFuture::from(file.create_sync_access_handle()).await?.unchecked_into());
        handle.0.truncate_with_u32(0)?;
        Ok(handle)
    }

    /// A handle to read that others can have too; `None` where the browser has no such mode.
    async fn shared(file: &FileSystemFileHandle) -> JsResult<Option<Self>> {
        let options = js::object(&[("mode", "read-only".into())]);
        let handle = js::call_async(file, "createSyncAccessHandle", &[&options]).await?;
        // A browser that does not know the mode ignores it and locks the file; it does not tell a mode either.
        let known = js::string(&handle, "mode") == "read-only";
        let handle = Self(handle.unchecked_into());
        Ok(known.then_some(handle))
    }

    /// Writes all of `bytes` at `offset`; false if the place is full.
    fn write(&self, bytes: &[u8], offset: u64) -> JsResult<bool> {
        let options = FileSystemReadWriteOptions::new();
        options.set_at(offset as f64);
        match self.0.write_with_u8_array_and_options(bytes, &options) {
            Ok(written) => Ok(written as usize == bytes.len()),
            Err(e) if name_of(&e) == "QuotaExceededError" => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// One shard, to read.
enum Shard {
    Handle(Handle),
    Blob(Blob),
}

impl Shard {
    async fn open(dir: &FileSystemDirectoryHandle, name: &str) -> JsResult<Self> {
        let file = file(dir, name, false).await?;
        match Handle::shared(&file).await {
            Ok(Some(handle)) => Ok(Self::Handle(handle)),
            // No such mode, or somebody holds the exclusive handle of a browser without it for a moment.
            Ok(None) | Err(_) => Ok(Self::Blob(blob(&file).await?)),
        }
    }

    fn len(&self) -> JsResult<u64> {
        match self {
            Self::Handle(handle) => Ok(handle.0.get_size()? as u64),
            Self::Blob(blob) => Ok(blob.size() as u64),
        }
    }

    /// Fills `out` from `offset`. False if the shard is shorter.
    async fn read(&self, offset: u64, out: &mut [u8]) -> JsResult<bool> {
        match self {
            Self::Handle(handle) => {
                let options = FileSystemReadWriteOptions::new();
                options.set_at(offset as f64);
                Ok(handle.0.read_with_u8_array_and_options(out, &options)? as usize == out.len())
            }
            Self::Blob(blob) => {
                let slice = blob.slice_with_f64_and_f64(offset as f64, (offset + out.len() as u64) as f64)?;
                let bytes = Uint8Array::new(&JsFuture::from(slice.array_buffer()).await?);
                if bytes.length() as usize != out.len() {
                    return Ok(false);
                }
                bytes.copy_to(out);
                Ok(true)
            }
        }
    }
}

/// A stored file, to read.
struct OpfsSource {
    name: String,
    len: u64,
    /// Each with its first byte's position in the file.
    shards: Vec<(u64, Shard)>,
}

impl OpfsSource {
    /// `None` if a shard is missing or of another length than the manifest says.
    async fn open(dir: &FileSystemDirectoryHandle, number: usize, stored: StoredFile) -> Result<Option<Self>> {
        let mut shards = Vec::with_capacity(stored.shards.len());
        let mut start = 0;
        for (i, length) in stored.shards.iter().enumerate() {
            let shard = match Shard::open(dir, &shard_name(number, i)).await {
                Ok(shard) => shard,
                Err(e) if name_of(&e) == "NotFoundError" => return Ok(None),
                Err(e) => return Err(from_js(&e, ErrorKind::Storage, &stored.name)),
            };
            if shard.len().map_err(|e| from_js(&e, ErrorKind::Storage, &stored.name))? != *length {
                return Ok(None);
            }
            shards.push((start, shard));
            start += length;
        }
        Ok(Some(Self { name: stored.name, len: stored.length, shards }))
    }
}

impl ByteSource for OpfsSource {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            check_range(&self.name, self.len, offset, len)?;
            let mut bytes = vec![0; len];
            let mut done = 0;
            // The last shard that begins at or before the position.
            let first = self.shards.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
            for (i, (start, shard)) in self.shards.iter().enumerate().skip(first) {
                if done == len {
                    break;
                }
                let end = self.shards.get(i + 1).map_or(self.len, |(next, _)| *next);
                let at = offset + done as u64;
                let part = ((end - at) as usize).min(len - done);
                let whole = shard.read(at - start, &mut bytes[done..done + part]).await.map_err(|e| from_js(&e, ErrorKind::Storage, &self.name))?;
                if !whole {
                    return Err(Error::storage(format!(
                        "{}: the stored file became shorter; the browser may have evicted it: load the model again",
                        self.name
                    )));
                }
                done += part;
            }
            Ok(bytes)
        })
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

struct OpfsWriter {
    store: OpfsStore,
    dir: FileSystemDirectoryHandle,
    key: ModelKey,
    files: Vec<StoredFile>,
    /// The shard being written, the last of the last file.
    handle: Option<Handle>,
    /// `None` once finished.
    lock: Option<WebLock>,
}

impl OpfsWriter {
    fn failed(&self) -> impl Fn(JsValue) -> Error + use<> {
        let url = self.key.url().to_owned();
        move |e| from_js(&e, ErrorKind::Storage, &url)
    }

    /// Ends the current shard: its bytes are on the disk afterwards.
    fn end_shard(&mut self) -> Result<()> {
        let failed = self.failed();
        self.handle.take().map_or(Ok(()), |handle| handle.0.flush().map_err(failed))
    }
}

impl Writer for OpfsWriter {
    fn create<'a>(&'a mut self, name: &'a str, etag: Option<String>) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            self.end_shard()?;
            self.files.push(StoredFile { name: name.to_owned(), length: 0, etag, shards: Vec::new() });
            Ok(())
        })
    }

    fn append<'a>(&'a mut self, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let failed = self.failed();
            let mut rest = bytes;
            while !rest.is_empty() {
                let number = self.files.len().checked_sub(1).ok_or_else(|| Error::internal("append before create"))?;
                let file = &mut self.files[number];
                if self.handle.is_none() {
                    self.handle = Some(Handle::create(&self.dir, &shard_name(number, file.shards.len())).await.map_err(&failed)?);
                    file.shards.push(0);
                }
                let (Some(handle), Some(length)) = (&self.handle, file.shards.last_mut()) else { return Err(Error::internal("no shard is open")) };
                let part = &rest[..rest.len().min((self.store.shard - *length) as usize)];
                if !handle.write(part, *length).map_err(&failed)? {
                    let available = self.store.estimate().await;
                    return Err(full(self.key.url(), None, available));
                }
                *length += part.len() as u64;
                file.length += part.len() as u64;
                rest = &rest[part.len()..];
                if *length == self.store.shard {
                    self.end_shard()?;
                }
            }
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> LocalBoxFuture<'static, Result<Files>> {
        Box::pin(async move {
            self.end_shard()?;
            let manifest = Manifest::new(&self.key, std::mem::take(&mut self.files));
            let text = serde_json::to_vec_pretty(&manifest).map_err(|e| Error::internal(format!("manifest: {e}")))?;
            let failed = self.failed();
            // A manifest that is cut short does not parse, so it need not appear at once.
            let handle = Handle::create(&self.dir, MANIFEST).await.map_err(&failed)?;
            if !handle.write(&text, 0).map_err(&failed)? {
                return Err(full(self.key.url(), None, self.store.estimate().await));
            }
            handle.0.flush().map_err(&failed)?;
            drop(handle);
            let files = self.store.files(self.key.id()).await?;
            let files = files.ok_or_else(|| Error::storage(format!("{}: what was written is not there; the browser may be out of storage", self.key.url())))?;
            self.lock = None;
            Ok(files)
        })
    }
}

impl Drop for OpfsWriter {
    fn drop(&mut self) {
        self.handle = None;
        if let Some(lock) = self.lock.take() {
            let (dir, id) = (self.store.dir.clone(), self.key.id().to_owned());
            // Given up: nobody will want these bytes. Should this fail, the next opening of the store tries again.
            spawn_local(async move {
                let _ = remove(&dir, &id).await;
                drop(lock);
            });
        }
    }
}

#[cfg(test)]
mod tests {
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
