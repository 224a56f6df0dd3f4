//! A stored file: its shards, read as one.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt, TryStreamExt, iter};

use super::journal::StoredFile;
use super::{Medium, shard_name};
use crate::error::{Error, Result};
use crate::source::{ByteSource, check_range};

/// Shards that are opened at a time.
const AT_ONCE: usize = 16;

/// A stored file, to read.
pub(super) struct ShardedSource {
    name: String,
    len: u64,
    shard: u64,
    shards: Vec<Rc<dyn ByteSource>>,
}

impl ShardedSource {
    /// `None` if a shard is not there.
    pub(super) async fn open(medium: &dyn Medium, id: &str, number: usize, file: &StoredFile) -> Result<Option<Self>> {
        let open = |index| async move {
            Ok::<_, Error>(
                medium.open(id, &shard_name(number, index)).await?.filter(|s| file.shard_len(index) == Some(s.len())),
            )
        };
        let shards: Option<Vec<_>> =
            iter(0..file.shards.len()).map(open).buffered(AT_ONCE).try_collect::<Vec<_>>().await?.into_iter().collect();
        let Some(shards) = shards else { return Ok(None) };
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
                let shard = self
                    .shards
                    .get(index)
                    .ok_or_else(|| Error::internal(format!("{}: no shard {index}", self.name)))?;
                shard.read(at, part).await.map_err(|e| gone(&self.name, &e))
            })
            .await
        })
    }
    fn will_be_read(&self) {
        self.shards.iter().for_each(|shard| shard.will_be_read());
    }
}

/// What it means that a stored shard cannot be read any more.
pub(super) fn gone(name: &str, error: &Error) -> Error {
    Error::storage(format!(
        "{name}: a stored piece cannot be read any more ({}); the browser may have removed it to free space: load the model again, what is missing is fetched again",
        error.message()
    ))
}

/// `len` bytes from `offset` of what lies in shards of `shard` bytes: `read(shard, offset, len)` gives each part, all
/// of which are asked for at once.
pub(super) async fn gather<F: Future<Output = Result<Vec<u8>>>>(
    shard: u64,
    offset: u64,
    len: usize,
    read: impl Fn(usize, u64, usize) -> F,
) -> Result<Vec<u8>> {
    let (mut parts, mut at) = (FuturesOrdered::new(), offset);
    while at < offset + len as u64 {
        let within = at % shard;
        let part = (shard - within).min(offset + len as u64 - at);
        parts.push_back(read((at / shard) as usize, within, part as usize));
        at += part;
    }
    // What lies in one shard is not copied.
    let mut bytes = parts.next().await.transpose()?.unwrap_or_default();
    while let Some(part) = parts.next().await {
        bytes.extend_from_slice(&part?);
    }
    Ok(bytes)
}
