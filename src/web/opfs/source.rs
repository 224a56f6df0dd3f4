//! Stored files, to read.

use futures_util::future::LocalBoxFuture;
use js_sys::Uint8Array;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, FileSystemDirectoryHandle, FileSystemReadWriteOptions};

use super::handle::{Handle, JsResult, blob, file};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, check_range};
use crate::web::errors::{from_js, name_of};

/// How a file is read.
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
            let mut bytes = vec![0; len];
            match self.shard.read(offset, &mut bytes).await.map_err(|e| from_js(&e, ErrorKind::Storage, &self.name))? {
                true => Ok(bytes),
                false => Err(Error::storage(format!("{}: the stored file became shorter", self.name))),
            }
        })
    }
}
