//! The state of a generation, which lives on the GPU: the host of `shaders/common/state.wgsl`.

use bytemuck::{Pod, Zeroable};

/// What changes from pass to pass. Kernels read it as a uniform; only `advance` writes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct State {
    /// Absolute position of row 0 of this pass.
    pub pos: u32,
    /// The token to embed next, in decode.
    pub token: u32,
    /// Not 0: every kernel returns at once.
    pub done: u32,
    /// T, the rows of this pass; 1 in decode.
    pub rows: u32,
    /// Tokens sampled so far.
    pub step: u32,
    /// `done` is set when `step` reaches it.
    pub limit: u32,
    /// The slot of the sequence's state.
    pub slot: u32,
    /// Room for later, zero.
    pub reserved: [u32; 9],
}

impl State {
    /// Bytes of the uniform buffer.
    pub const BYTES: usize = std::mem::size_of::<Self>();

    /// The state as the words of a buffer.
    pub fn words(&self) -> Vec<u32> {
        bytemuck::cast_slice(std::slice::from_ref(self)).to_vec()
    }

    /// The state in the first words of a buffer; `None` where it is too short.
    pub fn from_words(words: &[u32]) -> Option<Self> {
        words.get(..Self::BYTES / 4).map(|words| bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)))
    }
}
