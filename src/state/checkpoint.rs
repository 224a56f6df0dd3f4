//! Copies of the recurrent states of a sequence, at positions that it may have to go back to: they cannot be cut.

use super::kinds::Part;
use crate::error::Result;
use crate::gpu::{Buffer, Encoder, Gpu};
use crate::layout::StateShape;

/// Where a snapshot is that holds nothing, or of which it is not yet known: beyond all texts.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// A snapshot of one sequence's recurrent states at one position. It is not written while a sequence may be reset to
/// it; forks share it.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    /// Tokens that had been read, or [`UNKNOWN`].
    pub position: u32,
    /// All parts, one after another.
    buffer: Buffer,
    /// The logits of the last token that had been read, of the end of a prompt.
    logits: Option<Buffer>,
}

/// The usage of buffers that only copies read and write.
const COPIES: wgpu::BufferUsages = wgpu::BufferUsages::COPY_SRC.union(wgpu::BufferUsages::COPY_DST);

/// The recurrent parts of a session.
fn recurrent(parts: &[Part]) -> impl Iterator<Item = (&Part, u64)> {
    parts.iter().filter_map(|part| match part.shape {
        StateShape::Recurrent { bytes } => Some((part, bytes)),
        StateShape::Rows(_) => None,
    })
}

/// Bytes of a checkpoint; 0 where no layer is recurrent.
pub(crate) fn bytes(parts: &[Part]) -> u64 {
    recurrent(parts).map(|(_, bytes)| bytes).sum()
}

impl Checkpoint {
    /// Room for one.
    pub fn new(gpu: &Gpu, parts: &[Part]) -> Result<Self> {
        Ok(Self { position: UNKNOWN, buffer: gpu.buffer("checkpoint", bytes(parts), COPIES)?, logits: None })
    }

    /// Room for one with so many bytes of logits.
    pub fn with_logits(gpu: &Gpu, parts: &[Part], bytes: u64) -> Result<Self> {
        Ok(Self { logits: Some(gpu.buffer("logits of a checkpoint", bytes, COPIES)?), ..Self::new(gpu, parts)? })
    }

    /// Bytes of its buffers.
    pub fn bytes(&self) -> u64 {
        self.buffer.bytes() + self.logits.as_ref().map_or(0, Buffer::bytes)
    }

    /// What it holds is of no use any more.
    pub fn forget(&mut self) {
        self.position = UNKNOWN;
    }

    /// Takes the states of the sequence in `slot` as they are when `encoder` runs.
    pub fn take(&mut self, encoder: &mut Encoder, parts: &[Part], slot: usize, position: u32) {
        self.position = position;
        let mut at = 0;
        for (part, bytes) in recurrent(parts) {
            encoder.copy_buffer_to_buffer(part.buffer.raw(), slot as u64 * bytes, self.buffer.raw(), at, bytes);
            at += bytes;
        }
    }

    /// Takes logits as they are when `encoder` runs, where there is room for them.
    pub fn take_logits(&self, encoder: &mut Encoder, from: &Buffer) {
        if let Some(logits) = &self.logits {
            encoder.copy_buffer_to_buffer(from.raw(), 0, logits.raw(), 0, logits.bytes());
        }
    }

    /// Puts logits back.
    pub fn put_back_logits(&self, encoder: &mut Encoder, to: &Buffer) {
        if let Some(logits) = &self.logits {
            encoder.copy_buffer_to_buffer(logits.raw(), 0, to.raw(), 0, logits.bytes());
        }
    }

    /// Puts them back.
    pub fn put_back(&self, encoder: &mut Encoder, parts: &[Part], slot: usize) {
        let mut at = 0;
        for (part, bytes) in recurrent(parts) {
            encoder.copy_buffer_to_buffer(self.buffer.raw(), at, part.buffer.raw(), slot as u64 * bytes, bytes);
            at += bytes;
        }
    }
}
