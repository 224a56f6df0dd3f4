//! Shards that a connection has begun and not ended: the next connection that takes one resumes it, and when a download
//! is interrupted they are kept for the next one.

use std::cell::RefCell;

use crate::error::{Error, Result};
use crate::store::Shard;

/// (file, shard): the part that has arrived, of shards without a connection.
#[derive(Default)]
pub(super) struct Unfinished(RefCell<Vec<((usize, usize), Shard)>>);

impl Unfinished {
    /// Takes the part of a shard that has arrived.
    pub fn take(&self, number: usize, index: usize) -> Option<Shard> {
        let mut all = self.0.borrow_mut();
        let at = all.iter().position(|(key, _)| *key == (number, index))?;
        Some(all.swap_remove(at).1)
    }

    /// Takes any shard.
    pub fn any(&self) -> Option<Shard> {
        self.0.borrow_mut().pop().map(|(_, shard)| shard)
    }

    /// Drops the shards of a file that starts over.
    pub fn forget(&self, number: usize) {
        self.0.borrow_mut().retain(|((of, _), _)| *of != number);
    }

    /// Bytes of each that have arrived.
    pub fn bytes(&self) -> Vec<((usize, usize), u64)> {
        self.0.borrow().iter().map(|(key, shard)| (*key, shard.len())).collect()
    }

    /// A shard to write: whatever becomes of the writer, it comes back here unless it was taken.
    pub fn hold(&self, number: usize, index: usize, shard: Shard) -> Held<'_> {
        Held { of: self, key: (number, index), shard: Some(shard) }
    }
}

/// A shard that a connection is writing.
pub(super) struct Held<'a> {
    of: &'a Unfinished,
    key: (usize, usize),
    shard: Option<Shard>,
}

impl Held<'_> {
    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.shard.as_ref().map_or(0, Shard::len)
    }

    pub async fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.shard {
            Some(shard) => shard.append(bytes).await,
            None => Err(gone()),
        }
    }

    /// Takes the shard when it is complete.
    pub fn take(mut self) -> Result<Shard> {
        self.shard.take().ok_or_else(gone)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(shard) = self.shard.take() {
            self.of.0.borrow_mut().push((self.key, shard));
        }
    }
}

fn gone() -> Error {
    Error::internal("a shard that was held is gone")
}
