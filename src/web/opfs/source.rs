//! Stored files, to read.

use futures_util::future::LocalBoxFuture;
use js_sys::Uint8Array;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, FileSystemDirectoryHandle, FileSystemReadWriteOptions};

use super::handle::{Handle, JsResult, blob, file, shard_name};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, check_range};
use crate::store::StoredFile;
use crate::web::errors::{from_js, name_of};

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
pub(super) struct OpfsSource {
    pub(super) name: String,
    len: u64,
    /// Each with its first byte's position in the file.
    shards: Vec<(u64, Shard)>,
}

impl OpfsSource {
    /// `None` if a shard is missing or of another length than the manifest says.
    pub(super) async fn open(dir: &FileSystemDirectoryHandle, number: usize, stored: StoredFile) -> Result<Option<Self>> {
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
