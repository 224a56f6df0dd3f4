//! Folders, files and access handles of the origin's private file system.

use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    Blob, FileSystemDirectoryHandle, FileSystemFileHandle, FileSystemGetDirectoryOptions, FileSystemGetFileOptions, FileSystemReadWriteOptions,
    FileSystemRemoveOptions, FileSystemSyncAccessHandle,
};

use crate::error::{Error, ErrorKind, Result};
use crate::store::MANIFEST;
use crate::web::errors::{from_js, name_of};
use crate::web::js;

/// What the browser's calls give.
pub(in crate::web) type JsResult<T = JsValue> = std::result::Result<T, JsValue>;

pub(in crate::web) async fn directory(parent: &FileSystemDirectoryHandle, name: &str, create: bool) -> JsResult<FileSystemDirectoryHandle> {
    let options = FileSystemGetDirectoryOptions::new();
    options.set_create(create);
    JsFuture::from(parent.get_directory_handle_with_options(name, &options)).await?.dyn_into()
}

pub(in crate::web) async fn file(parent: &FileSystemDirectoryHandle, name: &str, create: bool) -> JsResult<FileSystemFileHandle> {
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

/// Removes a model's folder, manifest first: a removal that is interrupted leaves nothing that looks whole.
pub(super) async fn remove(dir: &FileSystemDirectoryHandle, id: &str) -> Result<()> {
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
pub(super) fn shard_name(file: usize, shard: usize) -> String {
    format!("{file}.{shard}")
}

/// An access handle that is closed when dropped.
pub(super) struct Handle(pub(super) FileSystemSyncAccessHandle);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Handle {
    /// The only handle of a file, empty, to write.
    pub(super) async fn create(dir: &FileSystemDirectoryHandle, name: &str) -> JsResult<Self> {
        let file = file(dir, name, true).await?;
        let handle = Self(JsFuture::from(file.create_sync_access_handle()).await?.unchecked_into());
        handle.0.truncate_with_u32(0)?;
        Ok(handle)
    }

    /// A handle to read that others can have too; `None` where the browser has no such mode.
    pub(super) async fn shared(file: &FileSystemFileHandle) -> JsResult<Option<Self>> {
        let options = js::object(&[("mode", "read-only".into())]);
        let handle = js::call_async(file, "createSyncAccessHandle", &[&options]).await?;
        // A browser that does not know the mode ignores it and locks the file; it does not tell a mode either.
        let known = js::string(&handle, "mode") == "read-only";
        let handle = Self(handle.unchecked_into());
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
