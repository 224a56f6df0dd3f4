//! The state of a generation, which lives on the GPU: the host of `shaders/common/state.wgsl`.

use bytemuck::{Pod, Zeroable};

use crate::numbers::FEW_ROWS;

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
    /// Steps so far of those that may take several tokens.
    pub turn: u32,
    /// 1: the rows are of several sequences, and `each` says where they are.
    pub apart: u32,
    /// Rotary positions lag behind cache slots by this many: a picture's rows share positions on a grid.
    pub lag: u32,
    /// Rows of the step before this one that count, which recurrent states have yet to take over from what that step
    /// has kept of each: in the half beside `side`.
    pub kept: u32,
    /// The half of what is kept of rows that this step writes to: 0 or 1.
    pub side: u32,
    /// Tokens that the step before this one has taken, of those that may take several.
    pub taken: u32,
    /// Room for later, zero.
    pub reserved: [u32; 3],
    /// Per row of several sequences: its slot in its cache, its sequence's slot, the tokens that it may still sample,
    /// its lag.
    pub each: [[u32; 4]; FEW_ROWS as usize],
}

impl State {
    /// Bytes of the uniform buffer.
    pub const BYTES: usize = std::mem::size_of::<Self>();
    /// Where `kept` and `turn` are, in bytes.
    pub const KEPT_AT: usize = std::mem::offset_of!(Self, kept);
    pub const TURN_AT: usize = std::mem::offset_of!(Self, turn);

    /// The position by which row `t` is rotated.
    pub fn rotated_at(&self, t: usize) -> usize {
        self.position_of(t) - if self.apart == 0 { self.lag } else { self.each[t][3] } as usize
    }

    /// The position of row `t`.
    pub fn position_of(&self, t: usize) -> usize {
        if self.apart == 0 { self.pos as usize + t } else { self.each[t][0] as usize }
    }

    /// The slot of row `t`'s sequence.
    pub fn slot_of(&self, t: usize) -> usize {
        if self.apart == 0 { self.slot as usize } else { self.each[t][1] as usize }
    }

    /// Whether row `t`'s sequence has ended.
    pub fn rests(&self, t: usize) -> bool {
        self.apart != 0 && self.each[t][2] == 0
    }

    /// The state of the last row of a pass alone: `token` becomes its index in the pass.
    pub fn last(self) -> Self {
        let last = self.rows.saturating_sub(1);
        Self { pos: self.pos + last, token: last, rows: 1, ..self }
    }

    /// The state as the words of a buffer.
    pub fn words(&self) -> Vec<u32> {
        bytemuck::cast_slice(std::slice::from_ref(self)).to_vec()
    }

    /// The state in the first words of a buffer; `None` where it is too short.
    pub fn from_words(words: &[u32]) -> Option<Self> {
        words.get(..Self::BYTES / 4).map(|words| bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)))
    }
}
