//! Experts, of which each row uses a few.

use super::builder::{Builder, Operand};
use super::product::{Factors, Sums, weight_bindings};
use super::{Act, Experts, Extent, Grid, Lane, Norm, Pass, Room, Scores, Value};
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::layout::{BufferId, Form, Scratch, stride};
use crate::weights::{Matrix, Part};

impl Builder<'_> {
    /// `h +=` the weighted sum of what the experts that each row chooses make of `norm(h)`.
    pub fn experts(&mut self, name: &str, norm: &Norm, experts: Experts<'_>) -> Result<()> {
        self.experts_to(name, norm, experts, None).map(drop)
    }

    /// `h += post(norms[1](down x) + norms[2](experts(norms[0](h))))`: experts beside another feed-forward network,
    /// whose last product is `down`.
    pub fn beside_experts(
        &mut self,
        name: &str,
        (down, x): (&Matrix, Act),
        experts: Experts<'_>,
        norms: [&Norm; 3],
        post: Norm,
    ) -> Result<()> {
        let d = down.n;
        self.complete()?;
        let block = self.scratch(Scratch::Block, stride(d));
        let dense = self.linear_to(down, x, block, stride(d))?;
        let to = self.scratch(Scratch::ExpertsBlock, stride(d));
        let mixed = self.experts_to(name, norms[0], experts, Some(to))?;
        let sum = self.scratch(Scratch::BlocksSum, stride(d));
        self.norm_step(norms[1], dense, d, ("f32", vec![("y", sum.into())]), false)?;
        let first = self.made(sum);
        self.norm_step(norms[2], mixed, d, ("add", vec![("y", first.into())]), false)?;
        let both = self.made(sum);
        self.add_normed(post, both)
    }

    /// The sum that experts give, f32 `[T, stride(D)]`, in a buffer of its own, or added to the residual stream.
    fn experts_to(&mut self, name: &str, norm: &Norm, experts: Experts<'_>, to: Option<BufferId>) -> Result<Value> {
        let Experts { routing, mlp, router, router_norm, bias, up, shared, .. } = experts;
        let used = routing.used as u32;
        // Each row's experts are workgroups of one dimension.
        let most = Grid::MOST / used.max(1);
        if self.sizes.rows > most {
            return Err(Error::bad_option(format!(
                "prefill rows {}: with {used} experts a row, more workgroups than a dispatch may have; use at most {most}",
                self.sizes.rows
            )));
        }
        self.complete()?;
        // The router's weights are small and its choice hard: its input is never quantized, nor halved. So few rows
        // need more than a group of lanes each, which products with a prologue do not have, and of a prompt more
        // workgroups than there are tiles.
        let room = self.scratch(Scratch::Input(Form::F32), up.kb() * BLOCK);
        self.norm_as(router_norm.unwrap_or(norm), Room::F32(room), false)?;
        let mut normed = self.made(room);
        let plain = match self.pass {
            Pass::Decode => "matvec",
            Pass::Few | Pass::Four | Pass::Eight => "matvec_rows",
            Pass::Prefill | Pass::Short => "matmul",
        };
        let logits = self.scratch(Scratch::Router, router.n);
        let few = if self.decode() { "matvec" } else { "matvec_rows" };
        let logits =
            self.product(few, router, Act::F32(normed), Sums { y: logits, stride: router.n, add: false, cap: 0.0 })?;
        let chosen = self.scratch(Scratch::Chosen, routing.used * 2);
        let kernel = self.select.choose("route", &[])?;
        let count = routing.count as f64;
        let mut overrides = vec![
            ("EXPERTS", count),
            ("USED", f64::from(used)),
            ("STRIDE", router.n as f64),
            ("NORMED", f64::from(u8::from(routing.normed))),
        ];
        match routing.scores {
            Scores::Softmax => {}
            Scores::Scaled => overrides.push(("SCALED", 1.0)),
            Scores::Sigmoid { added, factor } => {
                overrides.extend([("SIGMOID", 1.0), ("ADDED", added), ("FACTOR", factor)])
            }
        }
        self.push(
            &format!("{name}.route"),
            kernel,
            overrides,
            vec![("logits", logits.into()), ("bias", bias.unwrap_or(self.zeros).into()), ("chosen", chosen.into())],
            Grid::of(self.per_row(1), Extent::Fixed(1)),
            0,
        );
        let chosen = self.made(chosen);

        let fast = self.select.lane() == Lane::Fast;
        let quantized_in = fast && up.quantized();
        let x = if router_norm.is_some() && quantized_in {
            let out = self.room_q8(Scratch::Input, up.kb(), 1);
            self.norm_as(norm, out, false)?
        } else if router_norm.is_some() {
            self.norm_as(norm, Room::F32(room), false)?;
            normed = self.made(room);
            Act::F32(normed)
        } else if quantized_in {
            let out = self.room_q8(Scratch::Input, up.kb(), 1);
            self.quantize(&format!("{name}.quantize"), normed, up.kb(), out)?
        } else {
            Act::F32(normed)
        };
        let sum = match self.tiles(&experts) {
            Some(span) => self.grouped(name, &experts, span, chosen, x, to)?,
            None => self.by_rows(&experts, chosen, x, to)?,
        };
        let Some((up, down)) = shared else { return Ok(sum) };
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
        let gate = (router.n > routing.count).then_some(Factors::LastOf(logits, router.n));
        let act = self.activate(&format!("{name}.shared_activate"), gate_up, mlp, gate, down)?;
        self.add(down, act, None)?;
        Ok(self.stream()?.h)
    }

    /// What the experts that each row has chosen make of `x`, weighted and added up: each row reads its experts itself.
    fn by_rows(&mut self, experts: &Experts<'_>, chosen: Value, x: Act, to: Option<BufferId>) -> Result<Value> {
        let &Experts { routing, mlp, up, down, biases, interleaved, .. } = experts;
        let (d, f, used) = (up.k, down.k, routing.used as u32);
        let rows = mlp.products() * f;
        let quantized_out = self.select.lane() == Lane::Fast && down.quantized();
        let kb = down.kb();
        let room = if quantized_out {
            self.room_q8(Scratch::Experts, kb, routing.used)
        } else {
            Room::F32(self.scratch(Scratch::Experts(Form::F32), routing.used * kb * BLOCK))
        };
        let slots = if self.decode() { Extent::Fixed(used) } else { Extent::Slots { each: used } };
        // What a row reads of a part: of all experts a few.
        let read =
            |part: &Part, kb: usize| part.kind.bytes((part.rows * kb) as u64) * u64::from(used) / routing.count as u64;
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
            overrides.extend(interleaved.then_some(("INTERLEAVED", 1.0)));
            overrides
                .extend(biases.map(|_| [("BIAS", 1.0), ("UP_AT", (routing.count * f) as f64)]).into_iter().flatten());
            let mut bindings = weight_bindings(part);
            bindings.extend([("chosen", chosen.into()), ("bias", biases.map_or(self.zeros, |(up, _)| up).into())]);
            bindings.extend(x.inputs());
            bindings.extend(room.outputs());
            self.push(
                &up.name,
                kernel,
                overrides,
                bindings,
                Grid::of(Extent::Fixed((f as u32).div_ceil(32)), slots),
                read(part, up.kb()),
            );
        }
        let act = self.filled(room);
        let target = to.unwrap_or(self.stream()?.h.buffer);
        for (i, part) in down.parts.iter().enumerate() {
            let kernel = self.select.choose("experts_down", &[("weight", part.kind.axis()), ("act", act.axis())])?;
            // Groups of lanes deal out the experts.
            let groups = kernel.variant.workgroup[0] / kernel.variant.lanes.max(1);
            let split = (1 << (u32::BITS - 1 - used.leading_zeros())).min(groups);
            let mut overrides = vec![
                ("KB", kb as f64),
                ("N", d as f64),
                ("USED", f64::from(used)),
                ("FIRST", (part.row0 / d) as f64),
                ("COUNT", (part.rows / d) as f64),
                ("SPLIT", f64::from(split)),
                ("NSTRIDE", stride(d) as f64),
            ];
            let mut bindings = weight_bindings(part);
            // Each part adds what it holds to what is there.
            let begins = to.is_some() && i == 0;
            overrides.extend(begins.then_some(("ADD", 0.0)));
            let y: Operand = if begins { target.into() } else { self.experts_so_far(to)?.into() };
            overrides.extend(biases.map(|_| ("BIAS", 1.0)));
            bindings.extend([
                ("chosen", chosen.into()),
                ("y", y),
                ("bias", biases.map_or(self.zeros, |(_, down)| down).into()),
            ]);
            bindings.extend(act.inputs());
            let grid = Grid::of(Extent::Fixed((d as u32).div_ceil(kernel.variant.tile[0] / split)), self.per_row(1));
            self.push(&down.name, kernel, overrides, bindings, grid, read(part, kb));
            if to.is_none() {
                self.streamed(target, d);
            }
        }
        Ok(self.made(target))
    }

    /// What the parts before have left: in that buffer, or in the residual stream.
    fn experts_so_far(&self, to: Option<BufferId>) -> Result<Value> {
        to.map_or_else(|| Ok(self.stream()?.h), |buffer| Ok(self.made(buffer)))
    }
}
