use super::quantize::write_row;
use super::{Call, State};

/// A causal convolution of single channels, and the rows before this pass's in its state.
pub struct Conv {
    channels: usize,
    taps: usize,
    ring: usize,
    state: State,
}

impl Conv {
    pub fn of(call: &Call) -> Self {
        Self {
            channels: call.usize("CHANNELS"),
            taps: call.usize("TAPS"),
            ring: call.usize("RING"),
            state: call.state(),
        }
    }

    /// Where the state of row `row`'s sequence has a channel of a position.
    fn at(&self, row: usize, channel: usize, position: usize) -> usize {
        (self.state.slot_of(row) * self.ring + position % self.ring) * self.channels + channel
    }

    /// A channel's sum in a row of the pass; `own(row)` is what it reads of the pass's rows.
    pub fn sum(&self, weights: &[f32], kept: &[f32], row: usize, channel: usize, own: impl Fn(usize) -> f64) -> f64 {
        // Rows of several sequences have none of their own before them in the pass.
        let (earlier, position) = (if self.state.apart == 0 { row } else { 0 }, self.state.position_of(row));
        let of = |back: usize| match position.checked_sub(back) {
            _ if back <= earlier => own(row - back),
            Some(position) => f64::from(kept[self.at(row, channel, position)]),
            None => 0.0,
        };
        (0..self.taps).map(|back| f64::from(weights[channel * self.taps + self.taps - 1 - back]) * of(back)).sum()
    }

    /// A channel of row `row` goes to the state.
    pub fn keep(&self, kept: &mut [f32], row: usize, channel: usize, value: f32) {
        kept[self.at(row, channel, self.state.position_of(row))] = value;
    }
}

/// y = C * conv(B * X).
pub fn short(call: &Call) {
    let (d, stride, first) = (call.usize("CHANNELS"), call.usize("STRIDE"), call.usize("CONV_AT"));
    let conv = Conv::of(call);
    let (x, cw) = (call.view::<f32>("x"), call.view::<f32>("cw"));
    let of = |row: usize, part: usize, channel: usize| x[row * stride + first + part * d + channel];
    let state = call.state();
    let rows = || (0..state.rows.min(call.grid[1]) as usize).filter(|row| !state.rests(*row));
    {
        let kept = call.view::<f32>("conv");
        let product = |row: usize, channel: usize| f64::from(of(row, 0, channel)) * f64::from(of(row, 2, channel));
        let y = |row: usize, channel: usize| {
            conv.sum(&cw, &kept, row, channel, |row| product(row, channel)) * f64::from(of(row, 1, channel))
        };
        for row in rows() {
            write_row(call, call.usize("KB"), row, (0..d).map(|channel| y(row, channel) as f32).collect());
        }
    }
    if call.u32("KEEP") == 1 {
        let mut kept = call.view_mut::<f32>("conv");
        for row in rows() {
            (0..d).for_each(|channel| conv.keep(&mut kept, row, channel, of(row, 0, channel) * of(row, 2, channel)));
        }
    }
}

/// The last rows go to the state.
pub fn keep(call: &Call) {
    let (stride, first, times) = (call.usize("STRIDE"), call.usize("CONV_AT"), call.usize("TIMES"));
    let conv = Conv::of(call);
    let x = call.view::<f32>("x");
    let mut kept = call.view_mut::<f32>("conv");
    let rows = call.state().rows as usize;
    for row in rows.saturating_sub(conv.taps)..rows {
        for channel in 0..conv.channels {
            let at = row * stride + first + channel;
            conv.keep(&mut kept, row, channel, if times == 0 { x[at] } else { x[at] * x[at + times] });
        }
    }
}
