//! The sampler's parameters.

use bytemuck::{Pod, Zeroable};

use crate::numbers::{FEW_ROWS, MAX_STOP};

/// The parameters as the kernels read them: the host of `shaders/common/sampling.wgsl`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
pub struct Sampling {
    pub temperature: f32,
    pub top_p: f32,
    pub min_p: f32,
    pub top_k: u32,
    pub seed_lo: u32,
    pub seed_hi: u32,
    /// How many of `stop` count.
    pub n_stop: u32,
    /// Length of the ring of sampled tokens.
    pub ring_len: u32,
    pub presence: f32,
    pub frequency: f32,
    pub repetition: f32,
    pub top_logprobs: u32,
    /// Ids that end the generation; they are appended to the ring all the same.
    pub stop: [u32; MAX_STOP as usize],
}

impl Sampling {
    /// Bytes in the uniform buffer.
    pub const BYTES: usize = std::mem::size_of::<Self>();
    /// Bytes of that buffer: rows of several sequences each have their own, all others the first.
    pub const ROOM: usize = Self::BYTES * FEW_ROWS as usize;

    /// Sampling with every filter off, into a ring of eight.
    pub const OFF: Self = Self {
        temperature: 1.0,
        top_p: 1.0,
        min_p: 0.0,
        top_k: 0,
        seed_lo: 7,
        seed_hi: 9,
        n_stop: 0,
        ring_len: 8,
        presence: 0.0,
        frequency: 0.0,
        repetition: 1.0,
        top_logprobs: 0,
        stop: [0; MAX_STOP as usize],
    };

    /// Whether top-k leaves anything out of `v` tokens.
    pub fn searches_top_k(&self, v: u32) -> bool {
        self.top_k != 0 && self.top_k < v
    }

    /// Rounds of the search for what survives top-k and top-p.
    pub fn filter_rounds(&self, v: u32) -> u32 {
        if self.temperature == 0.0 { 0 } else { 4 * (u32::from(self.searches_top_k(v)) + u32::from(self.top_p < 1.0)) }
    }

    /// Whether that token ends the generation.
    pub fn stops(&self, id: u32) -> bool {
        self.stop[..self.n_stop as usize].contains(&id)
    }

    /// Whether what has been said so far changes the logits.
    pub fn penalizes(&self) -> bool {
        (self.presence, self.frequency, self.repetition) != (0.0, 0.0, 1.0)
    }

    /// The parameters as the words of a buffer, for the first row.
    pub fn words(&self) -> Vec<u32> {
        let mut words = vec![0; Self::ROOM / 4];
        words[..Self::BYTES / 4].copy_from_slice(bytemuck::cast_slice(std::slice::from_ref(self)));
        words
    }

    /// The parameters of a row in the words of a buffer; `None` where it is too short.
    pub fn of_row(words: &[u32], row: usize) -> Option<Self> {
        words
            .chunks_exact(Self::BYTES / 4)
            .nth(row)
            .map(|words| bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)))
    }
}
