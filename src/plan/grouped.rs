//! Experts in passes of many rows: rows are grouped by the expert they have chosen, so that an expert's matrices are
//! read once for all of its rows.

use super::builder::{Builder, Operand};
use super::product::weight_bindings;
use super::{Act, Experts, Extent, Grid, Lane, Pass, Room, Value};
use crate::blocks::BLOCK;
use crate::error::Result;
use crate::layout::{BufferId, Form, Scratch, stride};
use crate::weights::Matrix;

/// Rows of an expert, on average, from which on tiles of so many are the best, and those of floats; with fewer each row
/// reads its experts itself. A tile that is not full costs its weights, not its arithmetic: better one with room for
/// more than two.
const TILES: [(&str, &str, f64); 4] =
    [("r64", "r64", 40.0), ("r48", "r64", 28.0), ("r32", "r32", 12.0), ("r16", "r32", 4.0)];

/// Bytes that a buffer may have on every device: passes of more rows than fit do not group them.
const MOST_BYTES: usize = 128 << 20;

/// The rows of a pass by experts.
#[derive(Clone, Copy)]
struct Groups {
    /// The `span` axis of products.
    span: &'static str,
    /// Experts of a row.
    used: u32,
    /// Tiles.
    most: Extent,
    order: Value,
    tiles: Value,
}

/// A product of all experts with the rows of each.
struct Tiled<'m> {
    matrix: &'m Matrix,
    /// Rows of an expert.
    rows: usize,
    /// Where they go, and f32 between rows there.
    to: (BufferId, usize),
    /// Whether activations are of slots, not of rows.
    of_slots: bool,
    /// Whether gates and up rows are neighbours.
    interleaved: bool,
    /// Biases; the second is where those of up rows begin, and how many gates an expert has before them, if they do not
    /// take turns.
    bias: Option<(BufferId, Option<(usize, usize)>)>,
}

impl Builder<'_> {
    /// The tiles in which this pass groups its rows by experts, as the `span` axis calls them; none: each row reads its
    /// experts itself.
    pub(super) fn tiles(&self, experts: &Experts<'_>) -> Option<&'static str> {
        let Experts { routing, up, down, mlp, .. } = experts;
        let widest = (mlp.products() * down.k).max(stride(up.k));
        if !matches!(self.pass, Pass::Prefill | Pass::Short)
            || self.sizes.rows as usize * routing.used * widest * 4 > MOST_BYTES
        {
            return None;
        }
        let floats = self.select.lane() != Lane::Fast || !up.quantized() || !down.quantized();
        let rows = f64::from(self.pass.rows(self.sizes)) * routing.used as f64 / routing.count as f64;
        let (span, of_floats, _) = TILES.iter().find(|(.., least)| rows >= *least)?;
        Some(self.select.forced_axis("experts_matmul", "span").unwrap_or(if floats { of_floats } else { span }))
    }

    /// What the experts that rows have chosen make of `x`, weighted and added up in the order of each row's choice, in
    /// a buffer of its own, or added to the residual stream.
    pub(super) fn grouped(
        &mut self,
        name: &str,
        experts: &Experts<'_>,
        span: &'static str,
        chosen: Value,
        x: Act,
        to: Option<BufferId>,
    ) -> Result<Value> {
        let &Experts { routing, mlp, up, down, biases, interleaved, .. } = experts;
        let (d, f, count, used) = (up.k, down.k, routing.count, routing.used as u32);
        let rows = mlp.products() * f;
        // Tiles are as high in all products: what they have of columns is the weight type's.
        let high = self
            .select
            .choose("experts_matmul", &[("weight", up.parts[0].kind.axis()), ("act", x.axis()), ("span", span)])?
            .variant
            .tile[1];
        let order = self.scratch(Scratch::Order, routing.used);
        let most = Extent::Tiles { each: used, per: high, groups: count as u32 };
        let tiles = self
            .layout
            .reserve(Scratch::Tiles, u64::from(Grid::of(Extent::Fixed(1), most).at(self.sizes.rows)[1]) * 16);
        let kernel = self.select.choose("group", &[])?;
        let overrides = vec![("EXPERTS", count as f64), ("USED", f64::from(used)), ("TILE", f64::from(high))];
        let operands = vec![("chosen", chosen.into()), ("order", order.into()), ("tiles", tiles.into())];
        self.push(&format!("{name}.group"), kernel, overrides, operands, Grid::folded(count as u32), 0);
        let groups = Groups { span, used, most, order: self.made(order), tiles: self.made(tiles) };

        let made = self.scratch(Scratch::ExpertsMade, routing.used * rows.max(stride(d)));
        let bias = biases.map(|(up, _)| (up, (!interleaved).then_some((count * f, f))));
        let gate_up =
            self.tiled(&Tiled { matrix: up, rows, to: (made, rows), of_slots: false, interleaved, bias }, x, groups)?;
        // Slots are rows here.
        let kb = down.kb();
        let room = if self.select.lane() == Lane::Fast && down.quantized() {
            self.room_q8(Scratch::Experts, kb, routing.used)
        } else {
            Room::F32(self.scratch(Scratch::Experts(Form::F32), routing.used * kb * BLOCK))
        };
        let kernel = self.select.choose("activate", &[("out", room.axis())])?;
        let mut overrides =
            vec![("F", f as f64), ("KB", kb as f64), ("GSTRIDE", rows as f64), ("EACH", f64::from(used))];
        overrides.extend(mlp.overrides());
        let mut operands: Vec<(&'static str, Operand)> =
            vec![("gu", gate_up.into()), ("factors", self.zeros.into()), ("at", self.zeros.into())];
        operands.extend(room.outputs());
        self.push(
            &format!("{name}.activate"),
            kernel,
            overrides,
            operands,
            Grid::of(Extent::Fixed((kb as u32).div_ceil(8)), Extent::Slots { each: used }),
            0,
        );
        let x = self.filled(room);
        let bias = biases.map(|(_, down)| (down, None));
        let sums = self.tiled(
            &Tiled { matrix: down, rows: d, to: (made, stride(d)), of_slots: true, interleaved: false, bias },
            x,
            groups,
        )?;

        let kernel = self.select.choose("experts_sum", &[])?;
        let target = to.map_or_else(|| Ok(self.stream()?.h.buffer), Ok)?;
        let y: Operand = if to.is_some() { target.into() } else { self.stream()?.h.into() };
        let mut overrides = vec![("N", d as f64), ("USED", f64::from(used)), ("NSTRIDE", stride(d) as f64)];
        overrides.extend(to.map(|_| ("ADD", 0.0)));
        let grid = Grid::of(Extent::Fixed((d as u32).div_ceil(kernel.variant.workgroup[0])), self.per_row(1));
        self.push(
            &format!("{name}.sum"),
            kernel,
            overrides,
            vec![("chosen", chosen.into()), ("made", sums.into()), ("y", y)],
            grid,
            0,
        );
        if to.is_none() {
            self.streamed(target, d);
        }
        Ok(self.made(target))
    }

    /// The products of each expert with its rows, f32 `[T, used]` of rows.
    fn tiled(&mut self, product: &Tiled<'_>, x: Act, groups: Groups) -> Result<Value> {
        let &Tiled { matrix, rows, to: (y, y_stride), of_slots, interleaved, bias } = product;
        for part in &matrix.parts {
            let kernel = self
                .select
                .choose("experts_matmul", &[("weight", part.kind.axis()), ("act", x.axis()), ("span", groups.span)])?;
            let mut overrides = vec![
                ("KB", matrix.kb() as f64),
                ("N", rows as f64),
                ("NSTRIDE", y_stride as f64),
                ("USED", f64::from(groups.used)),
                ("FIRST", (part.row0 / rows) as f64),
                ("COUNT", (part.rows / rows) as f64),
                ("OF_SLOTS", f64::from(u8::from(of_slots))),
            ];
            overrides.extend(interleaved.then_some(("INTERLEAVED", 1.0)));
            overrides.extend(bias.map(|_| ("BIAS", 1.0)));
            overrides.extend(
                bias.and_then(|(_, gates)| gates)
                    .map(|(at, f)| [("UP_AT", at as f64), ("SPAN_AT", f as f64)])
                    .into_iter()
                    .flatten(),
            );
            let mut operands = weight_bindings(part);
            operands.extend(x.inputs());
            operands.extend([("y", y.into()), ("bias", bias.map_or(self.zeros, |(bias, _)| bias).into())]);
            operands.extend([("order", groups.order.into()), ("tiles", groups.tiles.into())]);
            let grid = Grid::of(Extent::Fixed((rows as u32).div_ceil(kernel.variant.tile[0])), groups.most);
            self.push(
                &matrix.name,
                kernel,
                overrides,
                operands,
                grid,
                part.kind.bytes((part.rows * matrix.kb()) as u64),
            );
        }
        Ok(self.made(y))
    }
}
