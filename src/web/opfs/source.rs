//! Stored files, to read.

use futures_util::future::LocalBoxFuture;
use js_sys::Uint8Array;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, FileSystemDirectoryHandle, FileSystemReadWriteOptions};

use super::handle::{Handle, JsResult, blob, file};
use super::reader::Beside;
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, check_range};
use crate::web::errors::{from_js, name_of};

/// How a file is read.
enum Shard {
    Handle(Handle, Beside),
    Blob(Blob),
}

impl Shard {
    async fn open(dir: &FileSystemDirectoryHandle, name: &str) -> JsResult<Self> {
        let file = file(dir, name, false).await?;
        match Handle::shared(&file).await {
            Ok(Some(handle)) => {
                let beside = Beside::new(file, handle.0.get_size()?);
                Ok(Self::Handle(handle, beside))
            }
            // The browser has no such mode, or the exclusive handle of one without it is held for a moment.
            Ok(None) | Err(_) => Ok(Self::Blob(blob(&file).await?)),
        }
    }

    fn len(&self) -> JsResult<u64> {
        match self {
            Self::Handle(handle, _) => Ok(handle.0.get_size()? as u64),
            Self::Blob(blob) => Ok(blob.size() as u64),
        }
    }

    /// `len` bytes from `offset`, fewer if the shard is shorter.
    async fn read(&self, offset: u64, len: usize) -> JsResult<Vec<u8>> {
        match self {
            Self::Handle(handle, beside) => {
                if let Some(bytes) = beside.read(offset, len).await {
                    return Ok(bytes);
                }
                let options = FileSystemReadWriteOptions::new();
                options.set_at(offset as f64);
                let mut bytes = vec![0; len];
                let read = handle.0.read_with_u8_array_and_options(&mut bytes, &options)? as usize;
                bytes.truncate(read);
                Ok(bytes)
            }
            Self::Blob(blob) => {
                let slice = blob.slice_with_f64_and_f64(offset as f64, (offset + len as u64) as f64)?;
                Ok(Uint8Array::new(&JsFuture::from(slice.array_buffer()).await?).to_vec())
            }
        }
    }
}

/// A file, to read.
pub(super) struct OpfsSource {
    name: String,
    len: u64,
    shard: Shard,
}

impl OpfsSource {
    /// `None` if it is not there.
    pub(super) async fn open(dir: &FileSystemDirectoryHandle, name: &str) -> Result<Option<Self>> {
        let failed = |e: JsValue| from_js(&e, ErrorKind::Storage, name);
        let shard = match Shard::open(dir, name).await {
            Ok(shard) => shard,
            Err(e) if name_of(&e) == "NotFoundError" => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let len = shard.len().map_err(failed)?;
        Ok(Some(Self { name: name.to_owned(), len, shard }))
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
            let bytes = self.shard.read(offset, len).await.map_err(|e| from_js(&e, ErrorKind::Storage, &self.name))?;
            if bytes.len() != len {
                return Err(Error::storage(format!("{}: the stored file became shorter", self.name)));
            }
            Ok(bytes)
        })
    }
    fn will_be_read(&self) {
        if let Shard::Handle(_, beside) = &self.shard {
            beside.will_be_read();
        }
    }
}
