//! A stored file: its shards, read as one.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::journal::StoredFile;
use super::{Medium, shard_name};
use crate::error::{Error, Result};
use crate::source::{ByteSource, check_range};

/// A stored file, to read.
pub(super) struct ShardedSource {
    name: String,
    len: u64,
    shard: u64,
    shards: Vec<Rc<dyn ByteSource>>,
}

impl ShardedSource {
    /// `None` if a shard is not there.
    pub(super) async fn open(medium: Rc<dyn Medium>, id: &str, number: usize, file: &StoredFile) -> Result<Option<Self>> {
        let mut shards = Vec::with_capacity(file.shards.len());
        for index in 0..file.shards.len() {
            match medium.open(id, &shard_name(number, index)).await? {
                Some(shard) if file.shard_len(index) == Some(shard.len()) => shards.push(shard),
                _ => return Ok(None),
            }
        }
        let Some(len) = file.length else { return Ok(None) };
        Ok(Some(Self { name: file.name.clone(), len, shard: file.shard, shards }))
    }
}

impl ByteSource for ShardedSource {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            check_range(&self.name, self.len, offset, len)?;
            gather(self.shard, offset, len, |index, at, part| async move {
                let shard = self.shards.get(index).ok_or_else(|| Error::internal(format!("{}: no shard {index}", self.name)))?;
                shard.read(at, part).await.map_err(|e| gone(&self.name, &e))
            })
            .await
        })
    }
}

/// What it means that a stored shard cannot be read any more.
pub(super) fn gone(name: &str, error: &Error) -> Error {
    Error::storage(format!(
        "{name}: a stored piece cannot be read any more ({}); the browser may have removed it to free space: load the model again, what is missing is fetched again",
        error.message()
    ))
}

/// `len` bytes from `offset` of what lies in shards of `shard` bytes: `read(shard, offset, len)` gives each part.
pub(super) async fn gather<F: Future<Output = Result<Vec<u8>>>>(shard: u64, offset: u64, len: usize, read: impl Fn(usize, u64, usize) -> F) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let at = offset + bytes.len() as u64;
        let (index, within) = (at / shard, at % shard);
        let part = ((shard - within).min((len - bytes.len()) as u64)) as usize;
        if part == 0 {
            return Ok(bytes);
        }
        let read = read(index as usize, within, part).await?;
        // What lies in one shard is not copied.
        if part == len {
            return Ok(read);
        }
        bytes.extend_from_slice(&read);
    }
}
