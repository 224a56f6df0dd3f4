//! Experts, of which each row uses a few.

use super::builder::{Builder, Sums, weight_bindings};
use super::{Act, Experts, Extent, Grid, Lane, Norm, Pass, Room, Scores};
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::layout::{Form, Scratch, stride};
use crate::weights::Part;

impl Builder<'_> {
    /// `h +=` the weighted sum of what the experts that each row chooses make of `norm(h)`.
    pub fn experts(&mut self, name: &str, norm: &Norm, experts: Experts<'_>) -> Result<()> {
        let Experts { routing, mlp, router, bias, up, down, shared } = experts;
        let (d, f, used) = (up.k, down.k, routing.used as u32);
        let rows = mlp.products() * f;
        // Each row's experts are workgroups of one dimension.
        let most = Grid::MOST / used.max(1);
        if self.sizes.rows > most {
            return Err(Error::bad_option(format!(
                "prefill rows {}: with {used} experts a row, more workgroups than a dispatch may have; use at most {most}",
                self.sizes.rows
            )));
        }
        self.complete()?;
        // The router's weights are small and its choice hard: its input is never quantized, nor halved. So few rows need more than a group of
        // lanes each, which products with a prologue do not have.
        let room = self.scratch(Scratch::Input(Form::F32), up.kb() * BLOCK);
        self.norm_as(norm, Room::F32(room), false)?;
        let normed = self.made(room);
        let plain = match self.pass {
            Pass::Decode => "matvec",
            Pass::Few => "matvec_rows",
            Pass::Prefill | Pass::Short => "matmul",
        };
        let logits = self.scratch(Scratch::Router, router.n);
        let logits = self.product(plain, router, Act::F32(normed), Sums { y: logits, stride: router.n, add: false, cap: 0.0 })?;
        let chosen = self.scratch(Scratch::Chosen, routing.used * 2);
        let kernel = self.select.choose("route", &[])?;
        let count = routing.count as f64;
        let mut overrides = vec![("EXPERTS", count), ("USED", f64::from(used)), ("STRIDE", router.n as f64), ("NORMED", f64::from(u8::from(routing.normed)))];
        if let Scores::Sigmoid { added, factor } = routing.scores {
            overrides.extend([("SIGMOID", 1.0), ("ADDED", added), ("FACTOR", factor)]);
        }
        self.push(
            &format!("{name}.route"),
            kernel,
            overrides,
            vec![("logits", logits.into()), ("bias", bias.unwrap_or(self.zeros).into()), ("chosen", chosen.into())],
            Grid(self.per_row(1), Extent::Fixed(1)),
            0,
        );
        let chosen = self.made(chosen);

        let fast = self.select.lane() == Lane::Fast;
        let (quantized_in, quantized_out) = (fast && up.quantized(), fast && down.quantized());
        let x = if quantized_in {
            let out = self.room_q8(Scratch::Input, up.kb(), 1);
            self.quantize(&format!("{name}.quantize"), normed, up.kb(), out)?
        } else {
            Act::F32(normed)
        };
        let kb = down.kb();
        let room = if quantized_out {
            self.room_q8(Scratch::Experts, kb, routing.used)
        } else {
            Room::F32(self.scratch(Scratch::Experts(Form::F32), routing.used * kb * BLOCK))
        };
        let slots = if self.decode() { Extent::Fixed(used) } else { Extent::Slots { each: used } };
        // What a row reads of a part: of all experts a few.
        let read = |part: &Part, kb: usize| part.kind.bytes((part.rows * kb) as u64) * u64::from(used) / routing.count as u64;
        for part in &up.parts {
            let axes = [("weight", part.kind.axis()), ("act", x.axis()), ("out", room.axis())];
            let kernel = self.select.choose("experts_gated", &axes)?;
            let mut overrides = vec![
                ("KB", up.kb() as f64),
                ("F", f as f64),
                ("USED", f64::from(used)),
                ("FIRST", (part.row0 / rows) as f64),
                ("COUNT", (part.rows / rows) as f64),
            ];
            overrides.extend(mlp.overrides());
            let mut bindings = weight_bindings(part);
            bindings.push(("chosen", chosen.into()));
            bindings.extend(x.inputs());
            bindings.extend(room.outputs());
            self.push(&up.name, kernel, overrides, bindings, Grid(Extent::Fixed((f as u32).div_ceil(32)), slots), read(part, up.kb()));
        }
        let act = self.filled(room);
        for part in &down.parts {
            let h = self.stream()?.h;
            let kernel = self.select.choose("experts_down", &[("weight", part.kind.axis()), ("act", act.axis())])?;
            // Groups of lanes deal out the experts.
            let groups = kernel.variant.workgroup[0] / kernel.variant.lanes.max(1);
            let split = (1 << (u32::BITS - 1 - used.leading_zeros())).min(groups);
            let overrides = vec![
                ("KB", kb as f64),
                ("N", d as f64),
                ("USED", f64::from(used)),
                ("FIRST", (part.row0 / d) as f64),
                ("COUNT", (part.rows / d) as f64),
                ("SPLIT", f64::from(split)),
                ("NSTRIDE", stride(d) as f64),
            ];
            let mut bindings = weight_bindings(part);
            bindings.extend([("chosen", chosen.into()), ("y", h.into())]);
            bindings.extend(act.inputs());
            let grid = Grid(Extent::Fixed((d as u32).div_ceil(kernel.variant.tile[0] / split)), self.per_row(1));
            self.push(&down.name, kernel, overrides, bindings, grid, read(part, kb));
            self.streamed(h.buffer, d);
        }
        let Some((up, down)) = shared else { return Ok(()) };
        // What all rows use is products like any others, which read what is there in their form.
        let units = self.on_matrices(up);
        let x = match x {
            Act::Q8(..) if units || !up.quantized() => Act::F32(normed),
            Act::F32(_) if !units && fast && up.quantized() => {
                let out = self.room_q8(Scratch::Input, up.kb(), 1);
                self.quantize(&format!("{name}.shared_quantize"), normed, up.kb(), out)?
            }
            x => x,
        };
        let products = self.scratch(Scratch::GateUp, up.n);
        let kernel = if units { "matmul_subgroup" } else { plain };
        let gate_up = self.product(kernel, up, x, Sums { y: products, stride: up.n, add: false, cap: 0.0 })?;
        let gate = (router.n > routing.count).then_some((logits, router.n));
        let act = self.activate(&format!("{name}.shared_activate"), gate_up, mlp, gate, down)?;
        self.add(down, act, None)
    }
}
