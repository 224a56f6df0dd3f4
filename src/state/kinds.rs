//! What one buffer of a layer remembers of a sequence, by its kind: how far it can be cut back, how it is copied.
//!
//! | kind | grows with the text | cut back to position p | copied |
//! |---|---|---|---|
//! | keys and values | yes | yes | the rows in use |
//! | keys and values of a window | up to the window | while the slots of the ring still hold what p sees | the rows in use |
//! | recurrent | no | to where a checkpoint of it is | whole |
//! | another layer's keys and values | no buffer of its own: with that layer | | |

use crate::gpu::{Buffer, Encoder};
use crate::layout::{Rows, StateShape};

/// A buffer with a slot for each sequence on the GPU.
#[derive(Clone)]
pub(crate) struct Part {
    pub shape: StateShape,
    pub buffer: Buffer,
}

impl Part {
    /// Bytes that a copy of one sequence of `n` positions takes.
    pub fn bytes(&self, n: u32) -> u64 {
        match self.shape {
            StateShape::Rows(rows) => rows.cut(n).bytes(),
            StateShape::Recurrent { bytes } => bytes,
        }
    }

    /// The largest position, at most `p`, that the rows of a sequence can be cut back to where positions up to
    /// `written` were written: `p` or 0. A recurrent state is where it is: its checkpoints say where it can go.
    pub fn trim(&self, p: u32, written: u32) -> u32 {
        match self.shape {
            // A slot of the ring holds the youngest position that was written to it.
            StateShape::Rows(Rows { positions, window: Some(window), .. })
                if (p + 1).saturating_sub(window) < written.saturating_sub(positions) =>
            {
                0
            }
            _ => p,
        }
    }

    /// Copies what `n` positions of the sequence in `slot` use to a buffer that holds nothing else.
    pub fn keep(&self, encoder: &mut Encoder, slot: usize, n: u32, to: &Buffer) {
        self.copy(encoder, n, (&self.buffer, self.shape, slot), (to, self.packed(n), 0));
    }

    /// Copies the first `n` positions of a copy of `positions` back.
    pub fn put_back(&self, encoder: &mut Encoder, slot: usize, n: u32, from: &Buffer, positions: u32) {
        self.copy(encoder, n, (from, self.packed(positions), 0), (&self.buffer, self.shape, slot));
    }

    /// Copies the first `n` positions of a copy of `positions` to one that holds nothing else.
    pub fn shorten(&self, encoder: &mut Encoder, n: u32, (from, positions): (&Buffer, u32), to: &Buffer) {
        self.copy(encoder, n, (from, self.packed(positions), 0), (to, self.packed(n), 0));
    }

    /// Takes over all of a sequence from a part of another size.
    pub fn take_over(&self, encoder: &mut Encoder, slot: usize, from: &Self) {
        let n = match (from.shape, self.shape) {
            // Slots are positions as long as a part can grow.
            (StateShape::Rows(from), StateShape::Rows(to)) => from.positions.min(to.positions),
            _ => 0,
        };
        self.copy(encoder, n, (&from.buffer, from.shape, slot), (&self.buffer, self.shape, slot));
    }

    /// Resets the state of the sequence in `slot` to no tokens: zeros recurrent states; rows need nothing, as none is
    /// read before it is written.
    pub fn clear(&self, encoder: &mut Encoder, slot: usize) {
        if let StateShape::Recurrent { bytes } = self.shape {
            encoder.clear_buffer(self.buffer.raw(), slot as u64 * bytes, Some(bytes));
        }
    }

    /// The shape of a copy of `n` positions.
    fn packed(&self, n: u32) -> StateShape {
        match self.shape {
            StateShape::Rows(rows) => StateShape::Rows(rows.cut(n)),
            whole => whole,
        }
    }

    fn copy(
        &self,
        encoder: &mut Encoder,
        n: u32,
        from: (&Buffer, StateShape, usize),
        to: (&Buffer, StateShape, usize),
    ) {
        let at = |(_, shape, slot): (&Buffer, StateShape, usize)| slot as u64 * shape.bytes();
        match (from.1, to.1) {
            (StateShape::Rows(source), StateShape::Rows(target)) => {
                let used = source.used(n);
                if used == 0 {
                    return;
                }
                for head in 0..u64::from(source.heads) {
                    let row = |rows: Rows| head * u64::from(rows.positions) * rows.row;
                    let bytes = u64::from(used) * source.row;
                    encoder.copy_buffer_to_buffer(
                        from.0.raw(),
                        at(from) + row(source),
                        to.0.raw(),
                        at(to) + row(target),
                        bytes,
                    );
                }
            }
            (StateShape::Recurrent { bytes }, _) | (_, StateShape::Recurrent { bytes }) => {
                encoder.copy_buffer_to_buffer(from.0.raw(), at(from), to.0.raw(), at(to), bytes);
            }
        }
    }
}
