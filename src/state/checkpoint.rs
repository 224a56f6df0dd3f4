//! Copies of the recurrent states of a sequence, at positions that it may have to go back to: they cannot be cut.

use super::kinds::Part;
use crate::error::Result;
use crate::gpu::{Buffer, Encoder, Gpu};
use crate::layout::StateShape;

/// Recurrent states of one sequence at one position. Nobody writes to it while somebody may want to go back to it; forks share it.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    /// Tokens that had been read; beyond all texts where it holds nothing.
    pub position: u32,
    /// All parts, one after another.
    buffer: Buffer,
}

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
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        Ok(Self { position: u32::MAX, buffer: gpu.buffer("checkpoint", bytes(parts), usage)? })
    }

    /// What it holds is of no use any more.
    pub fn forget(&mut self) {
        self.position = u32::MAX;
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

    /// Puts them back.
    pub fn put_back(&self, encoder: &mut Encoder, parts: &[Part], slot: usize) {
        let mut at = 0;
        for (part, bytes) in recurrent(parts) {
            encoder.copy_buffer_to_buffer(self.buffer.raw(), at, part.buffer.raw(), slot as u64 * bytes, bytes);
            at += bytes;
        }
    }
}
