//! Numbers that each token has for each layer, beside its embedding: Gemma's per-layer embeddings.

use super::builder::Builder;
use super::operations::PerLayer;
use super::product::{Factors, Sums, weight_bindings};
use super::{Act, Extent, Grid, Norm, Room, Value};
use crate::error::{Error, Result};
use crate::layout::{BufferId, Form, Scratch, stride};
use crate::weights::Matrix;

impl Builder<'_> {
    /// Per-layer inputs of this pass's tokens, f32 `[T, L P]`: the norm of each layer's part of `projection` times the
    /// embedding, which the residual stream still is, plus `scale` times the token's row of `table`. `weight`, `[P]`,
    /// and `eps` are the norm's.
    pub fn per_layer_numbers(
        &mut self,
        name: &str,
        table: &Matrix,
        scale: f64,
        projection: &Matrix,
        (weight, eps): (BufferId, f64),
        p: usize,
    ) -> Result<Value> {
        let all = table.k;
        let x = self.unnormed(&format!("{name}.input"), projection)?;
        let y = self.scratch(Scratch::PerLayer, stride(all));
        let kernel = self.linear_kernel(projection);
        let made = self.product(kernel, projection, x, Sums { y, stride: stride(all), add: false, cap: 0.0 })?;
        let chosen = self.select.choose("qk_norm", &[])?;
        let layers = all / p;
        let spans =
            [("QSPANS", layers), ("QWIDTH", p), ("KSPANS", 0), ("KWIDTH", p), ("KAT", 0), ("QSTRIDE", stride(all))];
        let overrides = spans.into_iter().map(|(name, n)| (name, n as f64)).chain([("EPS", eps)]).collect();
        let grid = Grid::of(Extent::Fixed(layers as u32), self.per_row(1));
        self.push(
            &format!("{name}.norm"),
            chosen,
            overrides,
            vec![("qkv", made.into()), ("nw", weight.into())],
            grid,
            0,
        );
        let normed = self.made(y);
        self.gather(name, table, normed.into(), vec![("ADD", 1.0), ("SCALE", scale)])?;
        Ok(self.made(y))
    }

    /// `h += norm(output (act(gate h) * numbers))`. In a step of one row the first half is one dispatch.
    pub fn per_layer(&mut self, name: &str, of: PerLayer<'_>, post: Norm) -> Result<()> {
        let PerLayer { numbers, stride: each, norm, mlp, gate, output } = of;
        let (p, d) = (output.k, gate.k);
        if gate.n != p || mlp.gated {
            return Err(Error::internal(format!("{} has {} rows, the product behind it reads {p}", gate.name, gate.n)));
        }
        let x = if let [part] = &gate.parts[..]
            && self.fuses_norm(norm, gate.kb())
        {
            // So few numbers are not worth int8, and their place among the buffers is what the factors take.
            let room = Room::F32(self.scratch(Scratch::Activation(Form::F32), stride(p)));
            let axes = [("weight", part.kind.axis()), ("act", self.act_axis(part)), ("out", room.axis())];
            let chosen = self.select.choose_product("norm_gated", &axes, gate.k, part.rows)?;
            let mut overrides = vec![("KB", gate.kb() as f64), ("F", p as f64), ("BESIDE", each as f64)];
            overrides.extend(mlp.overrides());
            let (grid, of_each) = self.each_row(Grid::folded((p as u32).div_ceil(32)), 0);
            overrides.extend(of_each.into_iter().filter(|(name, _)| *name == "EACH"));
            let mut bindings = weight_bindings(part);
            bindings.extend(room.outputs());
            bindings.push(("beside", numbers.into()));
            let bytes = part.kind.bytes((part.rows * gate.kb()) as u64);
            self.push_normed(&gate.name, norm, chosen, overrides, bindings, grid, bytes)?;
            self.filled(room)
        } else {
            let x: Act = self.unnormed(&format!("{name}.input"), gate)?;
            let products = self.scratch(Scratch::GateUp, gate.n);
            let made = self.linear_to(gate, x, products, gate.n)?;
            let factors = Factors::Numbers { value: numbers, each, from: (norm.weight, 2 * d) };
            self.activate(&format!("{}.activate", gate.name), made, mlp, Some(factors), output)?
        };
        self.add(output, x, Some(post))
    }
}
