//! Reading a header of unknown length through ranges that grow.

use std::rc::Rc;

use crate::error::{Error, Result};
use crate::source::ByteSource;

/// The first range; most headers of models without a vocabulary fit.
const FIRST_READ: usize = 256 << 10;
/// Later ranges double up to this: large enough that a URL sees few requests, small enough for a page's memory.
const LARGEST_READ: usize = 4 << 20;

/// A cursor over the beginning of a file. Holds one range at a time; bytes that were consumed are dropped.
pub(crate) struct HeaderReader {
    source: Rc<dyn ByteSource>,
    buffer: Vec<u8>,
    /// Next byte within `buffer`.
    cursor: usize,
    /// Offset in the file of the byte after `buffer`.
    loaded: u64,
    next_read: usize,
    /// The header may not be longer than this, in bytes.
    limit: u64,
}

impl HeaderReader {
    pub fn new(source: Rc<dyn ByteSource>, limit: u64) -> Self {
        Self { source, buffer: Vec::new(), cursor: 0, loaded: 0, next_read: FIRST_READ, limit }
    }

    /// Offset in the file of the next byte.
    pub fn position(&self) -> u64 {
        self.loaded - (self.buffer.len() - self.cursor) as u64
    }

    /// Bytes between the next byte and the end of the file.
    pub fn remaining(&self) -> u64 {
        self.source.len() - self.position()
    }

    /// Checks, before anything is allocated, that `count` items of at least `min_bytes` each can still follow.
    pub fn check_count(&self, count: u64, min_bytes: u64, what: impl FnOnce() -> String) -> Result<usize> {
        let room = self.remaining().min(self.limit.saturating_sub(self.position()));
        match count.checked_mul(min_bytes) {
            Some(bytes) if bytes <= room => {
                usize::try_from(count).map_err(|_| Error::bad_model(format!("{}: {count} is too many", what())))
            }
            _ => Err(Error::bad_model(format!(
                "{}: {count} would need at least {min_bytes} bytes each, but only {room} bytes of the header can follow",
                what()
            ))),
        }
    }

    /// The next `len` bytes. `len` is checked against the file and the limit before anything is read.
    pub async fn take(&mut self, len: u64, what: &dyn Fn() -> String) -> Result<&[u8]> {
        if len > self.remaining() {
            return Err(Error::bad_model(format!(
                "{} at byte {} needs {len} bytes, but the file ends after {}: it is truncated, or its header is wrong",
                what(),
                self.position(),
                self.remaining()
            )));
        }
        if self.position() + len > self.limit {
            return Err(Error::bad_model(format!(
                "{} at byte {} would make the header longer than the {} MiB that are allowed",
                what(),
                self.position(),
                self.limit >> 20
            )));
        }
        let len =
            usize::try_from(len).map_err(|_| Error::bad_model(format!("{}: {len} bytes are too many", what())))?;
        if self.buffer.len() - self.cursor < len {
            self.fill(len).await?;
        }
        let start = self.cursor;
        self.cursor += len;
        Ok(&self.buffer[start..self.cursor])
    }

    /// Makes at least `len` bytes available; the caller has checked that the file has them.
    async fn fill(&mut self, len: usize) -> Result<()> {
        self.buffer.drain(..self.cursor);
        self.cursor = 0;
        let missing = len - self.buffer.len();
        let left = self.source.len() - self.loaded;
        let want = missing.max(self.next_read).min(usize::try_from(left).unwrap_or(usize::MAX));
        self.next_read = (self.next_read * 2).min(LARGEST_READ);
        let bytes = self.source.read(self.loaded, want).await?;
        if bytes.len() != want {
            return Err(Error::storage(format!("{}: asked for {want} bytes, got {}", self.source.name(), bytes.len())));
        }
        self.loaded += want as u64;
        if self.buffer.is_empty() {
            self.buffer = bytes;
        } else {
            self.buffer.extend_from_slice(&bytes);
        }
        Ok(())
    }
}
