//! Folders, files and access handles of the origin's private file system.

use futures_channel::oneshot;
use js_sys::Promise;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{
    Blob, FileSystemDirectoryHandle, FileSystemFileHandle, FileSystemGetDirectoryOptions, FileSystemGetFileOptions,
    FileSystemReadWriteOptions, FileSystemSyncAccessHandle,
};

use crate::base::js;
use crate::error::{Error, ErrorKind, Result};
use crate::web::errors::{from_js, name_of};

/// What the browser's calls give.
pub(in crate::web) type JsResult<T = JsValue> = std::result::Result<T, JsValue>;

pub(in crate::web) async fn directory(
    parent: &FileSystemDirectoryHandle,
    name: &str,
    create: bool,
) -> JsResult<FileSystemDirectoryHandle> {
    let options = FileSystemGetDirectoryOptions::new();
    options.set_create(create);
    JsFuture::from(parent.get_directory_handle_with_options(name, &options)).await?.dyn_into()
}

pub(in crate::web) async fn file(
    parent: &FileSystemDirectoryHandle,
    name: &str,
    create: bool,
) -> JsResult<FileSystemFileHandle> {
    let options = FileSystemGetFileOptions::new();
    options.set_create(create);
    JsFuture::from(parent.get_file_handle_with_options(name, &options)).await?.dyn_into()
}

pub(in crate::web) async fn blob(file: &FileSystemFileHandle) -> JsResult<Blob> {
    JsFuture::from(file.get_file()).await?.dyn_into()
}

pub(super) async fn names(dir: &FileSystemDirectoryHandle) -> JsResult<Vec<String>> {
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

/// What removing said: what is not there is as good as removed.
pub(super) fn removed(what: &str, result: JsResult) -> Result<()> {
    match result {
        Err(e) if name_of(&e) == "NoModificationAllowedError" => Err(Error::storage(format!(
            "{what} of a stored model is in use by another engine or tab; close it and try again"
        ))),
        Err(e) if name_of(&e) != "NotFoundError" => Err(from_js(&e, ErrorKind::Storage, "private file system")),
        _ => Ok(()),
    }
}

/// An access handle that is closed when dropped.
pub(super) struct Handle(pub(super) FileSystemSyncAccessHandle);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Handle {
    /// The only handle of a file, with its first `keep` bytes, to write.
    pub(super) async fn create(dir: &FileSystemDirectoryHandle, name: &str, keep: u64) -> JsResult<Self> {
        let file = file(dir, name, true).await?;
        let handle = Self::given(file.create_sync_access_handle()).await?;
        handle.0.truncate_with_f64(keep as f64)?;
        Ok(handle)
    }

    /// Waits for the browser's handle. If this future is dropped before, the handle is closed at once: an open one
    /// locks its file.
    async fn given(promise: Promise) -> JsResult<Self> {
        let (sender, receiver) = oneshot::channel();
        spawn_local(async move {
            let handle = JsFuture::from(promise).await;
            let _ = sender.send(handle.map(|handle| Self(handle.unchecked_into())));
        });
        receiver.await.map_err(|_| JsValue::from("no handle was given"))?
    }

    /// A handle to read that others can have too; `None` where the browser has no such mode.
    pub(super) async fn shared(file: &FileSystemFileHandle) -> JsResult<Option<Self>> {
        let options = js::object(&[("mode", "read-only".into())]);
        let handle = Self::given(Promise::resolve(&js::call(file, "createSyncAccessHandle", &[&options])?)).await?;
        // A browser that does not know the mode ignores it and locks the file; it does not tell a mode either.
        let known = js::string(&handle.0, "mode") == "read-only";
        Ok(known.then_some(handle))
    }

    /// Writes all of `bytes` at `offset`; false if the place is full.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> JsResult<bool> {
        let options = FileSystemReadWriteOptions::new();
        options.set_at(offset as f64);
        match self.0.write_with_u8_array_and_options(bytes, &options) {
            Ok(written) => Ok(written as usize == bytes.len()),
            Err(e) if name_of(&e) == "QuotaExceededError" => Ok(false),
            Err(e) => Err(e),
        }
    }
}
