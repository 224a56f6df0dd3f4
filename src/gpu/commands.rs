//! Command encoders and submissions: wgpu's commands for a GPU, words for the CPU (crates/cpu). Names and meanings are
//! wgpu's.

use std::rc::Rc;

use super::processor::{Memory, Processor};
use millrace_twins::op;

use crate::base::CHECKED;

/// A buffer of either device.
pub enum Raw {
    /// A buffer of a GPU.
    Gpu(wgpu::Buffer),
    /// A buffer of the CPU's machine.
    Cpu(Memory),
}

impl Raw {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Gpu(buffer) => buffer.size(),
            Self::Cpu(memory) => memory.bytes,
        }
    }

    /// wgpu's buffer; `None` for the CPU's memory.
    pub(super) fn gpu(&self) -> Option<&wgpu::Buffer> {
        match self {
            Self::Gpu(buffer) => Some(buffer),
            Self::Cpu(_) => None,
        }
    }
}

/// Commands on their way to a device.
pub enum Encoder {
    /// wgpu's encoder, for a GPU.
    Gpu(wgpu::CommandEncoder),
    /// The CPU's machine, and its commands as words.
    Cpu(Rc<Processor>, Vec<u32>),
}

/// A number of bytes in words of 4, as commands count.
fn words(bytes: u64) -> u32 {
    (bytes / 4) as u32
}

impl Encoder {
    /// Copies `bytes` bytes; offsets and lengths are multiples of 4.
    pub fn copy_buffer_to_buffer(&mut self, from: &Raw, from_offset: u64, to: &Raw, to_offset: u64, bytes: u64) {
        match (self, from, to) {
            (Self::Gpu(encoder), Raw::Gpu(from), Raw::Gpu(to)) => {
                encoder.copy_buffer_to_buffer(from, from_offset, to, to_offset, bytes)
            }
            (Self::Cpu(_, commands), Raw::Cpu(from), Raw::Cpu(to)) => {
                commands.extend([op::COPY, from.id, words(from_offset), to.id, words(to_offset), words(bytes)]);
            }
            // A buffer and the encoder are of one device.
            _ if CHECKED => unreachable!("a copy between two devices"),
            _ => {}
        }
    }

    /// Zeroes `bytes` bytes from `offset` on; `None`: to the buffer's end.
    pub fn clear_buffer(&mut self, buffer: &Raw, offset: u64, bytes: Option<u64>) {
        match (self, buffer) {
            (Self::Gpu(encoder), Raw::Gpu(buffer)) => encoder.clear_buffer(buffer, offset, bytes),
            (Self::Cpu(_, commands), Raw::Cpu(memory)) => {
                commands.extend([op::CLEAR, memory.id, words(offset), words(bytes.unwrap_or(memory.bytes - offset))]);
            }
            _ if CHECKED => unreachable!("a buffer of another device"),
            _ => {}
        }
    }

    /// Begins a pass of dispatches.
    pub fn begin_compute_pass(&mut self, descriptor: &wgpu::ComputePassDescriptor<'_>) -> ComputePass<'_> {
        match self {
            Self::Gpu(encoder) => ComputePass::Gpu(encoder.begin_compute_pass(descriptor)),
            Self::Cpu(_, commands) => ComputePass::Cpu(commands),
        }
    }
}

/// Dispatches that are being recorded.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
pub enum ComputePass<'a> {
    /// wgpu's pass, for a GPU.
    Gpu(wgpu::ComputePass<'a>),
    /// The commands of an encoder for the CPU.
    Cpu(&'a mut Vec<u32>),
}

/// Commands that were submitted.
#[derive(Clone)]
pub enum Submission {
    /// To a GPU.
    Gpu(
        #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "a browser's device is not asked for one"))]
        wgpu::SubmissionIndex,
    ),
    /// To the CPU: the submission's number.
    Cpu(u64),
}
