//! Writing a model: shard after shard, the manifest last.

use futures_util::future::LocalBoxFuture;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::FileSystemDirectoryHandle;

use super::OpfsStore;
use super::handle::{Handle, remove, shard_name};
use crate::error::{Error, ErrorKind, Result};
use crate::source::Files;
use crate::store::{MANIFEST, Manifest, ModelKey, StoredFile, Writer, check_name, full};
use crate::web::errors::from_js;
use crate::web::lock::WebLock;

pub(super) struct OpfsWriter {
    pub(super) store: OpfsStore,
    pub(super) dir: FileSystemDirectoryHandle,
    pub(super) key: ModelKey,
    pub(super) files: Vec<StoredFile>,
    /// The shard being written, the last of the last file.
    pub(super) handle: Option<Handle>,
    /// `None` once finished.
    pub(super) lock: Option<WebLock>,
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
