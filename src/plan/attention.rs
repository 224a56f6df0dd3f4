//! Attention, from the queries, keys and values to what the output product reads.

use super::builder::{Builder, Operand, Operands};
use super::{Act, Attention, Axes, Extent, FEW, Grid, Heads, Keys, Overrides, Pass, Room, SHORT, Value};
use crate::base::numbers::HEADS_A_READ;
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::kernels::splits::Rule;
use crate::layout::{Control, Form, Name, Rows, Scratch, StateShape};
use crate::weights::Matrix;

/// Query heads that share a workgroup of decode attention, and with it each read of the cache.
const HEADS: usize = HEADS_A_READ as usize;

/// The `width` axis of attention for heads of `e` elements.
pub(crate) const fn width_axis(e: usize) -> &'static str {
    match e {
        0..=64 => "e64",
        65..=128 => "e128",
        129..=256 => "e256",
        _ => "e512",
    }
}

impl Builder<'_> {
    /// Keys and values, by their bindings, and the shape of both together.
    fn cache(&mut self, keys: Keys, heads: Heads, window: Option<u32>) -> Result<(Operands, Rows)> {
        let mut whole = Rows { heads: heads.g as u32, positions: Rows::positions(self.sizes, window), row: 0, window };
        let mut buffers = Vec::new();
        for (part, row) in self.select.kv().buffers(heads.e) {
            let shape = StateShape::Rows(Rows { row, ..whole });
            let id = match keys {
                Keys::Own(layer) => self.layout.state(layer, part, shape, self.sizes.slots),
                Keys::Of(layer) => {
                    let id = self
                        .layout
                        .find(&Name::State(layer, part))
                        .filter(|id| self.layout.spec(*id).state == Some(shape));
                    id.ok_or_else(|| {
                        Error::internal(format!("layer {layer} has no keys and values of the shape that another reads"))
                    })?
                }
            };
            buffers.push((part, id.into()));
            whole.row += row;
        }
        Ok((buffers, whole))
    }

    /// RoPE of the queries and keys in `qkv` (`[T, (H + 2 G) E]`), keys and values appended to the layer's state, and
    /// causal attention of the queries over it, in the form that `consumer` (the output product) reads. In decode one
    /// dispatch, and one that joins the state's splits.
    pub fn attention(&mut self, name: &str, qkv: Value, shape: Attention, consumer: &Matrix) -> Result<Act> {
        let Attention { keys, heads, rope, qk_norm, scale, window, softcap, gated, factor, sinks, as_f32, pictures } =
            shape;
        let kv = self.select.kv().name();
        let kb = consumer.kb();
        let width = heads.h * heads.e;
        if consumer.k != width {
            return Err(Error::internal(format!(
                "{name}: the output product has K = {}, the heads give {width}",
                consumer.k
            )));
        }
        let (cache, cached) = self.cache(keys, heads, window)?;
        // A row has queries, and keys and values of its own where it does not read another layer's.
        let (row, own) = match keys {
            Keys::Own(_) => (heads.qkv(), heads.g),
            Keys::Of(_) => (width, 0),
        };
        // Gates stand behind what else a row has.
        let (gate_at, row) = if gated { (row, row + width) } else { (0, row) };
        let rot = match rope {
            Some(rope) => {
                self.layout.reserve(Name::Rotations(rope.table), u64::from(self.sizes.capacity) * rope.dims as u64 * 4)
            }
            None => self.zeros,
        };
        let key_bytes = u64::from(cached.heads) * cached.row;
        let seen: Vec<_> = window.map(|w| ("WINDOW", f64::from(w))).into_iter().collect();
        let mut sizes =
            vec![("H", heads.h as f64), ("G", heads.g as f64), ("E", heads.e as f64), ("QSTRIDE", row as f64)];
        sizes.extend((self.sizes.slots > 1).then_some(("SLOTS", f64::from(self.sizes.slots))));
        let spans: Operand = self.spans.map_or(self.zeros, |(spans, _)| spans).into();
        let several: Vec<_> = self.spans.map(|(_, both)| ("SPANS", if both { 2.0 } else { 1.0 })).into_iter().collect();
        // Passes over prompts that may have pictures: `rope` need not know.
        let (spans_seen, seen_ahead): (Operand, Vec<_>) = if let Some(mode) =
            pictures.filter(|_| self.has_rows() && self.pass == Pass::Prefill)
        {
            (self.layout.reserve(Control::Spans, u64::from(self.sizes.rows) * 8).into(), vec![("SPANS", mode.number())])
        } else {
            (spans, several.clone())
        };
        let mut rotation = vec![
            ("ROT", rope.map_or(0.0, |r| r.dims as f64)),
            ("INTERLEAVED", f64::from(u8::from(rope.is_some_and(|r| r.interleaved)))),
        ];
        if let Some(growth) = rope.and_then(|r| r.growth) {
            rotation.extend([("GROWTH", growth.factor), ("GROWS_AT", f64::from(growth.every))]);
        }
        let late = qk_norm.filter(|norm| norm.late);
        rotation.extend(late.map(|_| ("LATE", 1.0)));
        let mut scores = vec![("SCALE", scale)];
        scores.extend((softcap != 0.0).then_some(("SOFTCAP", softcap)));
        scores.extend(&seen);
        let with = |more: &[&[(&'static str, f64)]]| sizes.iter().copied().chain(more.concat()).collect::<Overrides>();
        let bound = |qkv: Value, more: &[(&'static str, Operand)]| [&[("qkv", qkv.into())], &cache[..], more].concat();
        let mut qkv = qkv;
        let step = self.step_rows();
        // Heads are normed where they are rotated; a norm of all heads needs to see them all.
        if let Some(norm) = qk_norm.filter(|norm| norm.all) {
            let chosen = self.select.choose("qk_norm", &[])?;
            let Heads { h, g, e } = heads;
            let (q, q_width) = (1, h * e);
            let (k, k_width, at) = if own == 0 { (0, e, 0) } else { (1, g * e, h * e) };
            let spans =
                [("QSPANS", q), ("QWIDTH", q_width), ("KSPANS", k), ("KWIDTH", k_width), ("KAT", at), ("QSTRIDE", row)];
            let overrides = spans.iter().map(|(name, n)| (*name, *n as f64)).chain([("EPS", norm.eps)]).collect();
            let grid = Grid::of(Extent::Fixed((q + k) as u32), self.per_row(1));
            self.push(
                &format!("{name}.qk_norm"),
                chosen,
                overrides,
                vec![("qkv", qkv.into()), ("nw", norm.weight.into())],
                grid,
                0,
            );
            qkv = self.made(qkv.buffer);
        }
        let each = qk_norm.filter(|norm| !norm.all);
        let mut norms: Vec<_> = each.map(|norm| [("QK_NORM", 1.0), ("EPS", norm.eps)]).into_iter().flatten().collect();
        norms.extend(each.filter(|norm| norm.values && own > 0).map(|_| ("V_NORM", 1.0)));
        let norm_weights = each.map_or(self.zeros, |norm| norm.weight).into();
        // The heads of a step's rows are normed and rotated by attention itself, but the widest.
        let fused = step.is_some() && width_axis(heads.e) != "e512";
        if !fused {
            let chosen = self.select.choose("rope", &[("kv", kv)])?;
            let grid = Grid::of(self.per_row(1), Extent::Fixed((heads.h + 2 * own) as u32));
            let (spans, several) = match rope.and_then(|r| r.axes).filter(|_| self.axes && step.is_none()) {
                Some(Axes { rows, columns, order }) => {
                    let places = self.layout.reserve(Control::Axes, u64::from(self.sizes.rows) * 16);
                    (
                        places.into(),
                        vec![("AXES", order.number()), ("ROW_PAIRS", rows as f64), ("COLUMN_PAIRS", columns as f64)],
                    )
                }
                None => (spans, several.clone()),
            };
            let bindings = bound(qkv, &[("rot", rot.into()), ("nw", norm_weights), ("spans", spans)]);
            let apart: Vec<_> = self.apart().into_iter().collect();
            self.push(&format!("{name}.rope"), chosen, with(&[&rotation, &norms, &several, &apart]), bindings, grid, 0);
            qkv = self.made(qkv.buffer);
        }
        let given = [
            gated.then_some(("GATE", gate_at as f64)),
            (factor != 1.0).then_some(("FACTOR", factor)),
            sinks.map(|_| ("SINKS", 1.0)),
        ];
        let given: Vec<_> = given.into_iter().flatten().collect();
        let sinks: Operand = sinks.unwrap_or(self.zeros).into();
        if self.pass == Pass::Prefill {
            let room = self.scratch(Scratch::Attention(Form::F32), kb * BLOCK);
            let chosen = self.select.choose("attention_prefill", &[("kv", kv), ("width", width_axis(heads.e))])?;
            let per = chosen.variant.tile[1].max(1);
            let grid = Grid::of(Extent::Fixed(heads.h as u32), Extent::Rows { per });
            self.push(
                name,
                chosen,
                with(&[&scores, &given, &seen_ahead, &[("KB", kb as f64)]]),
                bound(qkv, &[("y", room.into()), ("sinks", sinks), ("spans", spans_seen)]),
                grid,
                key_bytes * u64::from(cached.positions),
            );
            let y = self.made(room);
            if as_f32 || self.on_matrices(consumer) {
                return Ok(Act::F32(y));
            }
            return match self.room(Scratch::Attention, consumer) {
                out @ Room::Q8(..) => self.quantize(&format!("{name}.quantize"), y, kb, out),
                _ => Ok(Act::F32(y)),
            };
        }
        if as_f32 {
            return Err(Error::internal(format!("{name}: outputs of a step as f32")));
        }
        let groups = (heads.g * (heads.h / heads.g).div_ceil(HEADS)) as u32;
        let most_keys = cached.positions.min(window.unwrap_or(u32::MAX));
        let attention =
            |tiles| self.select.choose("attention", &[("kv", kv), ("width", width_axis(heads.e)), ("tiles", tiles)]);
        let mut chosen = attention("one")?;
        let least = chosen.variant.tile[0];
        let rule = if step.is_some() { Rule::decode(least) } else { Rule::rows(least) };
        if step.is_none() || rule.keys_a_split(most_keys, groups) > least {
            chosen = attention("many")?;
        }
        let most_rows = match self.pass {
            Pass::Decode => 1,
            Pass::Few | Pass::Four | Pass::Eight => FEW,
            _ => SHORT.min(self.sizes.rows),
        };
        // Rows of a step are cut as if each were alone.
        let room = rule.most_splits(most_keys, groups);
        let apart = step.filter(|rows| *rows > 1).map(|_| ("ROOM", f64::from(room)));
        let splits =
            (1..=most_rows).map(|rows| u64::from(rows * rule.most_splits(most_keys, groups * rows))).max().unwrap_or(1);
        let splits = step.map_or(splits, |rows| u64::from(rows * room));
        let po = self.layout.reserve(Scratch::Partial, splits * width as u64 * 4);
        let ml = self.layout.reserve(Scratch::PartialWeights, splits * heads.h as u64 * 8);
        // For several rows, `rope` has rotated the queries and appended the keys.
        let unrotated = [("ROT", 0.0), ("INTERLEAVED", 0.0), ("APPENDS", 0.0)];
        let widest = width_axis(heads.e) == "e512";
        let rotated: &[_] = if fused { &rotation } else { &unrotated[if widest { 3 } else { 0 }..] };
        let appends: &[_] = match apart {
            _ if fused && own == 0 => &[("APPENDS", 0.0)],
            Some(_) if fused => &[("APPENDS", 2.0)],
            _ => &[],
        };
        let norms: &[_] = if fused { &norms } else { &[] };
        let mut operands = vec![("po", po.into()), ("ml", ml.into())];
        if !widest {
            operands.extend([("rot", rot.into()), ("qkn", if fused { norm_weights } else { self.zeros.into() })]);
        }
        let mut cut = vec![("LEAST", f64::from(least))];
        if step.is_none() {
            cut.extend([("MOST", f64::from(rule.most)), ("FILL", f64::from(rule.fill))]);
        }
        cut.extend(apart);
        cut.extend(self.apart());
        let grid = match step {
            Some(rows) => Extent::Fixed(rows * room),
            None => Extent::Splits { groups, keys: most_keys, rule },
        };
        let grid = Grid::of(Extent::Fixed(groups), grid);
        self.push(name, chosen, with(&[rotated, appends, &scores, &cut, norms]), bound(qkv, &operands), grid, 0);
        let (po, ml) = (self.made(po), self.made(ml));
        if let Some(step) = self.plan.steps.last_mut() {
            step.bytes = key_bytes * u64::from(cached.positions);
            step.key_bytes = key_bytes;
        }

        let out = self.room(Scratch::Attention, consumer);
        let chosen = self.select.choose("merge", &[("out", out.axis())])?;
        let mut overrides =
            vec![("H", heads.h as f64), ("E", heads.e as f64), ("GROUPS", f64::from(groups)), ("KB", kb as f64)];
        overrides.extend(cut);
        overrides.extend(&seen);
        overrides.extend(given);
        overrides.push(("QSTRIDE", row as f64));
        let gates: Operand = if gated { qkv.into() } else { self.zeros.into() };
        let mut bindings: Operands = vec![("po", po.into()), ("ml", ml.into()), ("gate", gates), ("sinks", sinks)];
        bindings.extend(out.outputs());
        self.push(
            &format!("{name}.merge"),
            chosen,
            overrides,
            bindings,
            Grid::of(Extent::Fixed(kb as u32), self.per_row(1)),
            0,
        );
        Ok(self.filled(out))
    }
}
