//! What mixes positions by a state of fixed size: convolutions and linear attention.

use super::builder::Operands;
use super::{Act, Builder, Extent, GatedNorm, Grid, Linear, Overrides, Rule, ShortConv, Value};
use crate::base::numbers::{CHUNK, FEW_ROWS};
use crate::blocks::BLOCK;
use crate::error::Result;
use crate::layout::{BufferId, Name, Scratch, StateShape};
use crate::weights::Matrix;

/// Rows of a product, and f32 between them.
pub type Rows = (Value, usize);

fn numbers<const N: usize>(all: [(&'static str, usize); N]) -> Overrides {
    all.into_iter().map(|(name, n)| (name, n as f64)).collect()
}

/// A factor's override, where it is not the kernel's default.
fn factor(name: &'static str, factor: f64) -> impl Iterator<Item = (&'static str, f64)> {
    (factor != 1.0).then_some((name, factor)).into_iter()
}

/// The `width` axis of kernels that work on `elements` elements together.
const fn wide(elements: usize) -> &'static str {
    if elements > 128 { "e256" } else { "e128" }
}

/// Rows of a convolution's state: those before a step, and those that its drafts may have written to.
const fn ring(taps: usize) -> usize {
    taps + FEW_ROWS as usize - 1
}

impl Builder<'_> {
    fn recurrent(&mut self, layer: usize, part: &'static str, elements: usize) -> BufferId {
        let bytes = (elements as u64 * 4).next_multiple_of(16);
        self.layout.state(layer, part, StateShape::Recurrent { bytes }, self.sizes.slots)
    }

    /// `C conv(B X)` of rows of B, C and X, in the form that `consumer` reads.
    pub fn short_conv(&mut self, name: &str, rows: Value, shape: ShortConv, consumer: &Matrix) -> Result<Act> {
        let ShortConv { layer, taps, weight } = shape;
        let d = consumer.k;
        let conv = self.recurrent(layer, "conv", ring(taps) * d);
        let out = self.room(Scratch::Attention, consumer);
        let kernel = self.select.choose("short_conv", &[("out", out.axis())])?;
        let kb = d.div_ceil(BLOCK);
        let convolution =
            numbers([("CHANNELS", d), ("TAPS", taps), ("RING", ring(taps)), ("STRIDE", 3 * d), ("CONV_AT", 0)]);
        let mut own = numbers([("KB", kb), ("KEEP", usize::from(self.step_rows().is_some()))]);
        own.extend(self.apart());
        let mut bindings: Operands = vec![("x", rows.into()), ("cw", weight.into()), ("conv", conv.into())];
        bindings.extend(out.outputs());
        let grid = Grid::of(Extent::Fixed((kb as u32).div_ceil(8)), self.per_row(1));
        self.push(name, kernel, [&convolution[..], &own].concat(), bindings, grid, 0);
        let act = self.filled(out);
        if self.step_rows().is_none() {
            self.keep(name, rows, conv, [&convolution[..], &numbers([("TIMES", 2 * d)])].concat(), d)?;
        }
        Ok(act)
    }

    /// The last rows of a pass go to the state of their convolution.
    fn keep(&mut self, name: &str, rows: Value, conv: BufferId, overrides: Overrides, channels: usize) -> Result<()> {
        let kernel = self.select.choose("conv_keep", &[])?;
        let grid = Grid::of(Extent::Fixed((channels as u32).div_ceil(kernel.variant.workgroup[0])), Extent::Fixed(1));
        self.push(&format!("{name}.keep"), kernel, overrides, vec![("x", rows.into()), ("conv", conv.into())], grid, 0);
        Ok(())
    }

    /// Linear attention of projected rows, its norm and its gate, in the form that `consumer` reads. `gates`: the rows
    /// that have a (and b), where they are not behind the others. In decode of the fast lane the norm is the prologue
    /// of `consumer`'s product, which is added to the residual stream here: then there is nothing to read.
    pub fn linear(
        &mut self,
        name: &str,
        rows: Rows,
        gates: Option<Rows>,
        shape: Linear,
        consumer: &Matrix,
    ) -> Result<Option<Act>> {
        let Linear { layer, kind, .. } = shape;
        let h = kind.heads;
        let (channels, width) = (h.channels(), h.width());
        let ((x, stride), keys) = (rows, h.key_heads * h.key);
        // Where a row has its channels, the gates of its norm, and a; and where the channels have queries, keys and
        // values.
        let delta = h.rule == Rule::Delta;
        let (conv_at, z_at, [q, k, v]) =
            if delta { (0, channels, [0, keys, 2 * keys]) } else { (width, 0, [width + keys, width, 0]) };
        let (gates, each, a_at) = gates.map_or((x, stride, channels + width), |(gates, each)| (gates, each, 0));
        let of_keys = [
            ("HEADS", h.heads),
            ("KEY_HEADS", h.key_heads),
            ("KEYS_EACH", if h.tiled { 1 } else { h.heads / h.key_heads }),
            ("KEY", h.key),
            ("Q_AT", q),
            ("K_AT", k),
            ("DELTA", usize::from(delta)),
        ];
        let of_keys = numbers(of_keys);
        let of_values = [&of_keys[..], &numbers([("VALUE", h.value), ("V_AT", v)])].concat();
        let convolution = numbers([
            ("CHANNELS", channels),
            ("TAPS", h.taps),
            ("RING", ring(h.taps)),
            ("STRIDE", stride),
            ("CONV_AT", conv_at),
        ]);
        let flags = [("BIAS", usize::from(kind.conv_bias)), ("A_LOG", usize::from(kind.a_log))];
        let gate_at = [("GATES", each), ("A_AT", a_at), ("B_AT", if delta { a_at + h.heads } else { 0 })];
        let steps: Vec<_> = factor("STEPS", kind.factors.steps).collect();
        let projected = [&of_values[..], &convolution, &numbers(flags), &numbers(gate_at), &steps].concat();
        let scale = vec![("SCALE", if delta { (h.key as f64).powf(-0.5) } else { 1.0 })];
        let channel_count = numbers([("CHANNELS", channels)]);
        let conv = self.recurrent(layer, "conv", ring(h.taps) * channels);
        let s = self.recurrent(layer, "s", h.heads * h.value * h.key);
        let bytes = (h.heads * h.value * h.key * 4) as u64;
        let read: Operands = vec![
            ("x", x.into()),
            ("cw", shape.conv.into()),
            ("gates", gates.into()),
            ("heads", shape.of_heads.into()),
            ("conv", conv.into()),
        ];
        let mixed = self.scratch(Scratch::Mixed, width);
        let columns = |tile: u32| Grid::of(Extent::Fixed(h.heads as u32), Extent::Fixed(h.value as u32 / tile));
        if let Some(rows) = self.step_rows() {
            let several = rows > 1 || self.drafts_for_another();
            let kernel = self.select.choose(if several { "delta_rows" } else { "delta_step" }, &[])?;
            let grid = columns(kernel.variant.tile[0]).deep(rows);
            let mut overrides = [projected, scale].concat();
            overrides.extend(self.apart());
            overrides.extend(self.drafts_for_another().then_some(("DRAFTER", 1.0)));
            let mut bindings: Operands = [&read[..], &[("s", s.into()), ("y", mixed.into())]].concat();
            if several {
                // Two halves, of each row and head: its decay, the change of each column, its key.
                let words = 2 * FEW_ROWS as usize * h.heads * (1 + h.value + h.key);
                let kept = self.layout.reserve(Name::State(layer, "kept"), words as u64 * 4);
                bindings.push(("kept", kept.into()));
                let settle = self.select.choose("delta_settle", &[])?;
                let fours = (h.value * h.key / 4) as u32;
                let of_heads =
                    Grid::of(Extent::Fixed(h.heads as u32), Extent::Fixed(fours.div_ceil(settle.variant.workgroup[0])));
                let sizes = numbers([("HEADS", h.heads), ("KEY", h.key), ("VALUE", h.value)]);
                let state_and_rows: Operands = vec![("s", s.into()), ("kept", kept.into())];
                self.push(&format!("{name}.settle"), settle, sizes, state_and_rows, of_heads, bytes);
                self.settles();
            }
            self.push(name, kernel, overrides, bindings, grid, u64::from(rows) * bytes);
        } else {
            let (convolved, strengths) =
                (self.scratch(Scratch::Convolved, channels), self.scratch(Scratch::Strengths, 2 * h.heads));
            let kernel = self.select.choose("delta_conv", &[])?;
            let grid = Grid::of(Extent::Fixed((2 * h.key_heads + h.heads) as u32), self.per_row(1));
            let outputs = [("y", convolved.into()), ("strengths", strengths.into())];
            self.push(&format!("{name}.conv"), kernel, projected, [&read[..], &outputs].concat(), grid, 0);
            let (convolved, strengths) = (self.made(convolved), self.made(strengths));
            self.keep(name, x, conv, convolution, channels)?;

            let chunks = u64::from(self.sizes.rows.div_ceil(CHUNK));
            let within =
                self.layout.reserve(Scratch::Within, chunks * h.heads as u64 * 2 * u64::from(CHUNK * CHUNK) * 4);
            let kernel = self.select.choose("delta_intra", &[])?;
            let input: Operands = vec![("x", convolved.into()), ("strengths", strengths.into())];
            let overrides = [&of_keys[..], &channel_count, &scale].concat();
            let grid = Grid::of(Extent::Fixed(h.heads as u32), Extent::Rows { per: CHUNK });
            self.push(
                &format!("{name}.intra"),
                kernel,
                overrides,
                [&input[..], &[("within", within.into())]].concat(),
                grid,
                0,
            );

            let within = self.made(within);
            let kernel = self.select.choose("delta_scan", &[("width", wide(h.key))])?;
            let grid = columns(kernel.variant.tile[0]);
            let more =
                [("within", within.into()), ("heads", shape.of_heads.into()), ("s", s.into()), ("y", mixed.into())];
            self.push(
                name,
                kernel,
                [&of_values[..], &channel_count, &scale].concat(),
                [&input[..], &more].concat(),
                grid,
                bytes,
            );
        }
        let mixed = self.made(mixed);
        let group = kind.norm.group(h);
        let sizes = [("WIDTH", width), ("GROUP", group), ("Z_AT", z_at)];
        let mut overrides = [&numbers(sizes)[..], &[("EPS", kind.eps)]].concat();
        overrides.extend(factor("INNER", kind.factors.gates));
        match kind.norm {
            GatedNorm::Heads => {}
            GatedNorm::Groups { gate_first, .. } => {
                overrides.extend([("OWN", 1.0), ("FIRST", f64::from(u8::from(gate_first)))])
            }
            GatedNorm::None => overrides.extend([("NORMED", 0.0), ("OUTER", kind.factors.output)]),
        }
        let mut bindings: Operands =
            vec![("x", mixed.into()), ("z", x.into()), ("nw", shape.norm.unwrap_or(self.zeros).into())];
        if self.fuses_gated_norm(consumer) {
            self.gated_product(consumer, &overrides, &bindings)?;
            return Ok(None);
        }
        let out = self.room(Scratch::Attention, consumer);
        let kernel = self.select.choose("gated_norm", &[("width", wide(group)), ("out", out.axis())])?;
        overrides.push(("STRIDE", stride as f64));
        bindings.extend(out.outputs());
        let grid = Grid::of(Extent::Fixed((width / group) as u32), self.per_row(1));
        self.push(&format!("{name}.norm"), kernel, overrides, bindings, grid, 0);
        Ok(Some(self.filled(out)))
    }
}
