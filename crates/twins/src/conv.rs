use super::Call;
use super::quantize::write_rows;

/// A causal convolution of single channels, and the rows before this pass's in its state.
pub struct Conv {
    channels: usize,
    taps: usize,
    slot: usize,
    pos: usize,
}

impl Conv {
    pub fn of(call: &Call) -> Self {
        let state = call.state();
        Self {
            channels: call.usize("CHANNELS"),
            taps: call.usize("TAPS"),
            slot: state.slot as usize,
            pos: state.pos as usize,
        }
    }

    /// Where the state has a channel of a position.
    fn at(&self, channel: usize, position: usize) -> usize {
        (self.slot * self.taps + position % self.taps) * self.channels + channel
    }

    /// A channel's sum in a row of the pass; `own(row)` is what it reads of the pass's rows.
    pub fn sum(&self, weights: &[f32], kept: &[f32], row: usize, channel: usize, own: impl Fn(usize) -> f64) -> f64 {
        let of = |back: usize| match row.checked_sub(back) {
            Some(row) => own(row),
            None if back <= row + self.pos => f64::from(kept[self.at(channel, self.pos + row - back)]),
            None => 0.0,
        };
        (0..self.taps).map(|back| f64::from(weights[channel * self.taps + self.taps - 1 - back]) * of(back)).sum()
    }

    /// A channel of row `row` goes to the state.
    pub fn keep(&self, kept: &mut [f32], row: usize, channel: usize, value: f32) {
        kept[self.at(channel, self.pos + row)] = value;
    }
}

/// y = C * conv(B * X).
pub fn short(call: &Call) {
    let (d, stride, first) = (call.usize("CHANNELS"), call.usize("STRIDE"), call.usize("CONV_AT"));
    let conv = Conv::of(call);
    let (x, cw) = (call.view::<f32>("x"), call.view::<f32>("cw"));
    let of = |row: usize, part: usize, channel: usize| x[row * stride + first + part * d + channel];
    let rows = call.state().rows.min(call.grid[1]) as usize;
    {
        let kept = call.view::<f32>("conv");
        let product = |row: usize, channel: usize| f64::from(of(row, 0, channel)) * f64::from(of(row, 2, channel));
        let y = |row: usize, channel: usize| {
            conv.sum(&cw, &kept, row, channel, |row| product(row, channel)) * f64::from(of(row, 1, channel))
        };
        write_rows(call, call.usize("KB"), (0..rows).map(|row| (0..d).map(|channel| y(row, channel) as f32).collect()));
    }
    if call.u32("KEEP") == 1 {
        let mut kept = call.view_mut::<f32>("conv");
        (0..d).for_each(|channel| conv.keep(&mut kept, 0, channel, of(0, 0, channel) * of(0, 2, channel)));
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
