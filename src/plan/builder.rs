//! The operations of which an architecture's forward pass is made: each appends the steps of one operation, for a prefill pass or a decode step.

use super::{BufferId, Extent, Grid, Layout, Plan, Role, Selector, Step};
use crate::error::{Error, Result};
use crate::kernels::{State, Variant};
use crate::sample::{SLICES, Sampling};
use crate::weights::{BLOCK, Matrix};

/// Sizes that the plan is made for.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Most rows of a pass: the prefill chunk; 1 in decode.
    pub rows: u32,
    /// Positions that the cache holds, C.
    pub capacity: u32,
    /// Token ids that the ring holds between two readbacks.
    pub ring: u32,
}

/// Activations as the next product reads them.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// `[T, KB * 32]` f32.
    F32(BufferId),
    /// int8 and (scale, scale * sum) a block of 32.
    Q8(BufferId, BufferId),
}

impl Act {
    const fn axis(self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::Q8(..) => "q8",
        }
    }
    fn inputs(self) -> Vec<(&'static str, BufferId)> {
        match self {
            Self::F32(x) => vec![("x", x)],
            Self::Q8(xq, xs) => vec![("xq", xq), ("xs", xs)],
        }
    }
    fn outputs(self) -> Vec<(&'static str, BufferId)> {
        match self {
            Self::F32(y) => vec![("y", y)],
            Self::Q8(yq, ys) => vec![("yq", yq), ("ys", ys)],
        }
    }
}

/// Shape of an attention block.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads, H.
    pub h: usize,
    /// Key/value heads, G.
    pub g: usize,
    /// Head width, E.
    pub e: usize,
}

impl Heads {
    /// Elements of a row of queries, keys and values: `(H + 2 G) E`.
    pub const fn qkv(self) -> usize {
        (self.h + 2 * self.g) * self.e
    }
}

/// Buffers that every architecture shares, by their labels in the layout.
pub mod labels {
    /// State of the decode loop.
    pub const STATE: &str = "state";
    /// State of a prefill pass.
    pub const PREFILL: &str = "prefill.state";
    /// Token ids of a prefill pass.
    pub const TOKENS: &str = "tokens";
    /// Sampling parameters.
    pub const SAMPLING: &str = "sampling";
    /// Sampled token ids between two readbacks.
    pub const RING: &str = "ring";
    /// Logits of the last row.
    pub const LOGITS: &str = "logits";
    /// cos and sin by position.
    pub const ROTATIONS: &str = "rotations";
}

/// Builds the plan of one pass.
pub struct Builder<'a> {
    layout: &'a mut Layout,
    select: &'a Selector,
    sizes: Sizes,
    decode: bool,
    state: BufferId,
    plan: Plan,
}

/// Keys of the cache that one workgroup of decode attention reads.
const SPLIT: u32 = 64;

const STATE_BYTES: u64 = State::BYTES as u64;

impl<'a> Builder<'a> {
    /// A builder for a decode step, or for a prefill pass of up to `sizes.rows` rows.
    pub fn new(layout: &'a mut Layout, select: &'a Selector, sizes: Sizes, decode: bool) -> Self {
        let state = layout.shared(if decode { labels::STATE } else { labels::PREFILL }, STATE_BYTES, Role::State);
        Self { layout, select, sizes, decode, state, plan: Plan::default() }
    }

    /// The finished plan.
    pub fn finish(self) -> Plan {
        self.plan
    }

    /// A scratch buffer of `rows` rows of `row` words, shared by all layers and by both plans.
    pub fn scratch(&mut self, label: &str, row: usize) -> BufferId {
        self.layout.shared(label, u64::from(self.sizes.rows) * row as u64 * 4, Role::Activation)
    }

    /// The residual stream: f32 `[T, stride(D)]`.
    pub fn residual(&mut self, d: usize) -> BufferId {
        self.scratch("residual", stride(d))
    }

    fn per_row(&self, per: u32) -> Extent {
        if self.decode { Extent::Fixed(1) } else { Extent::Rows { per } }
    }

    /// Where the producer of `matrix`'s input writes: int8 if every part of the matrix is quantized and the lane is fast, f32 otherwise.
    fn act(&mut self, label: &str, matrix: &Matrix) -> Act {
        let kb = matrix.kb();
        if self.select.lane() == super::Lane::Fast && matrix.quantized() {
            Act::Q8(self.scratch(&format!("{label}.q8"), kb * BLOCK / 4), self.scratch(&format!("{label}.scales"), kb * 2))
        } else {
            Act::F32(self.scratch(&format!("{label}.f32"), kb * BLOCK))
        }
    }

    fn push(
        &mut self,
        name: &str,
        chosen: (&'static Variant, String),
        overrides: Vec<(&'static str, f64)>,
        bindings: Vec<(&'static str, BufferId)>,
        grid: Grid,
        bytes: u64,
    ) {
        let (variant, reason) = chosen;
        let mut bindings = bindings;
        if variant.bindings.iter().any(|b| b.name == "state") && bindings.iter().all(|(n, _)| *n != "state") {
            bindings.push(("state", self.state));
        }
        self.plan.steps.push(Step { name: name.to_owned(), variant, overrides, bindings, grid, bytes, reason });
    }

    /// Gathers the embeddings of this pass's tokens into `h`, `[T, stride(D)]`.
    pub fn embed(&mut self, name: &str, table: &Matrix, h: BufferId) -> Result<()> {
        // In decode the token id is word 1 of the state, where the sampler put it.
        let (tokens, at) = if self.decode { (self.state, 1.0) } else { (self.layout.shared(labels::TOKENS, u64::from(self.sizes.rows) * 4, Role::State), 0.0) };
        for part in &table.parts {
            let chosen = self.select.choose("embed", &[("weight", part.kind.axis())])?;
            let mut bindings = vec![("tokens", tokens), ("wq", part.wq), ("h", h)];
            bindings.extend(part.ws.map(|ws| ("ws", ws)));
            let kb = table.kb();
            let overrides = vec![
                ("D", table.k as f64),
                ("KB", kb as f64),
                ("STRIDE", stride(table.k) as f64),
                ("ROW0", part.row0 as f64),
                ("ROWS", part.rows as f64),
                ("TOKEN_AT", at),
            ];
            let grid = Grid(self.per_row(1), Extent::Fixed(1));
            self.push(name, chosen, overrides, bindings, grid, part.kind.bytes(kb as u64));
        }
        Ok(())
    }

    /// RMSNorm of `h` with `weight` `[D]`, in the form that `consumer` reads. With `last`, only the pass's last row, as row 0.
    pub fn norm(&mut self, name: &str, h: BufferId, weight: BufferId, eps: f64, consumer: &Matrix, last: bool) -> Result<Act> {
        let out = self.act("x", consumer);
        let chosen = self.select.choose("norm", &[("out", out.axis())])?;
        let d = consumer.k;
        let mut bindings = vec![("h", h), ("nw", weight)];
        bindings.extend(out.outputs());
        let overrides = vec![
            ("D", d as f64),
            ("KB", d.div_ceil(BLOCK) as f64),
            ("STRIDE", stride(d) as f64),
            ("EPS", eps),
            ("LAST", f64::from(u8::from(last && !self.decode))),
        ];
        let grid = if last { Grid::folded(1) } else { Grid(self.per_row(1), Extent::Fixed(1)) };
        self.push(name, chosen, overrides, bindings, grid, d as u64 * 4);
        Ok(out)
    }

    /// `y = W x`, or `y += W x`. `y` has rows of `y_stride` f32. `one_row` computes row 0 only.
    pub fn linear(&mut self, matrix: &Matrix, x: Act, y: BufferId, y_stride: usize, add: bool, one_row: bool) -> Result<()> {
        let vector = self.decode || one_row;
        let kernel = if vector { "matvec" } else { "matmul" };
        for part in &matrix.parts {
            let chosen = self.select.choose(kernel, &[("weight", part.kind.axis()), ("act", x.axis())])?;
            let tile = chosen.0.tile;
            let kb = matrix.kb();
            let mut overrides = vec![("KB", kb as f64), ("N", part.rows as f64), ("ROW0", part.row0 as f64), ("ADD", f64::from(u8::from(add)))];
            let across = (part.rows as u32).div_ceil(tile[0].max(1));
            let grid = if vector {
                Grid::folded(across)
            } else {
                overrides.push(("NSTRIDE", y_stride as f64));
                Grid(Extent::Fixed(across), Extent::Rows { per: tile[1].max(1) })
            };
            let mut bindings = vec![("wq", part.wq), ("y", y)];
            bindings.extend(part.ws.map(|ws| ("ws", ws)));
            bindings.extend(x.inputs());
            self.push(&matrix.name, chosen, overrides, bindings, grid, part.kind.bytes((part.rows * kb) as u64));
        }
        Ok(())
    }

    /// RoPE of queries and keys in `qkv` (`[T, (H + 2 G) E]`), and keys and values appended to layer `layer`'s cache. Returns the cache.
    pub fn rope(&mut self, name: &str, layer: usize, qkv: BufferId, heads: Heads, rotated: usize, interleaved: bool) -> Result<(BufferId, BufferId)> {
        let lane = self.select.lane();
        let bytes = heads.g as u64 * u64::from(self.sizes.capacity) * heads.e as u64 * lane.kv_bytes();
        let k = self.layout.shared(&format!("cache.{layer}.k"), bytes, Role::Cache);
        let v = self.layout.shared(&format!("cache.{layer}.v"), bytes, Role::Cache);
        let rot = self.layout.shared(labels::ROTATIONS, u64::from(self.sizes.capacity) * rotated as u64 * 4, Role::Weight);
        let chosen = self.select.choose("rope", &[("kv", lane.kv())])?;
        let overrides = vec![
            ("H", heads.h as f64),
            ("G", heads.g as f64),
            ("E", heads.e as f64),
            ("ROT", rotated as f64),
            ("INTERLEAVED", f64::from(u8::from(interleaved))),
            ("QSTRIDE", heads.qkv() as f64),
            ("CAP", f64::from(self.sizes.capacity)),
        ];
        let grid = Grid(self.per_row(1), Extent::Fixed((heads.h + 2 * heads.g) as u32));
        self.push(name, chosen, overrides, vec![("qkv", qkv), ("rot", rot), ("kc", k), ("vc", v)], grid, 0);
        Ok((k, v))
    }

    /// Causal attention of this pass's queries over the cache, in the form that `consumer` (the output product) reads.
    pub fn attention(&mut self, name: &str, qkv: BufferId, cache: (BufferId, BufferId), heads: Heads, scale: f64, consumer: &Matrix) -> Result<Act> {
        let kv = self.select.lane().kv();
        let kb = consumer.kb();
        let width = heads.h * heads.e;
        if consumer.k != width {
            return Err(Error::internal(format!("{name}: the output product has K = {}, the heads give {width}", consumer.k)));
        }
        let capacity = self.sizes.capacity;
        let shape = |more: &[(&'static str, f64)]| {
            let mut o = vec![("H", heads.h as f64), ("G", heads.g as f64), ("E", heads.e as f64), ("CAP", f64::from(capacity)), ("SCALE", scale)];
            o.extend_from_slice(more);
            o
        };
        let cache_bytes = 2 * heads.g as u64 * u64::from(self.sizes.capacity) * heads.e as u64 * self.select.lane().kv_bytes();
        if !self.decode {
            let y = self.scratch("attention.f32", kb * BLOCK);
            let chosen = self.select.choose("attention_prefill", &[("kv", kv)])?;
            let per = chosen.0.tile[1].max(1);
            let overrides = shape(&[("QSTRIDE", heads.qkv() as f64), ("KB", kb as f64)]);
            let bindings = vec![("qkv", qkv), ("kc", cache.0), ("vc", cache.1), ("y", y)];
            self.push(name, chosen, overrides, bindings, Grid(Extent::Fixed(heads.h as u32), Extent::Rows { per }), cache_bytes);
            let out = self.act("attention", consumer);
            if let Act::Q8(..) = out {
                let chosen = self.select.choose("quantize", &[])?;
                let mut bindings = vec![("x", y)];
                bindings.extend(out.outputs());
                self.push(
                    &format!("{name}.quantize"),
                    chosen,
                    vec![("KB", kb as f64)],
                    bindings,
                    Grid(Extent::Fixed((kb as u32).div_ceil(8)), Extent::Rows { per: 1 }),
                    0,
                );
            }
            return Ok(out);
        }
        let chosen = self.select.choose("attention", &[("kv", kv)])?;
        let splits = self.sizes.capacity.div_ceil(SPLIT);
        let po = self.layout.shared("attention.partial", u64::from(splits) * width as u64 * 4, Role::Activation);
        let ml = self.layout.shared("attention.weights", u64::from(splits) * heads.h as u64 * 8, Role::Activation);
        let overrides = shape(&[("SPLIT", f64::from(SPLIT))]);
        let bindings = vec![("qkv", qkv), ("kc", cache.0), ("vc", cache.1), ("po", po), ("ml", ml)];
        self.push(name, chosen, overrides, bindings, Grid(Extent::Fixed(heads.g as u32), Extent::Fixed(splits)), cache_bytes);

        let out = self.act("attention", consumer);
        let chosen = self.select.choose("merge", &[("out", out.axis())])?;
        let overrides = vec![("H", heads.h as f64), ("E", heads.e as f64), ("SPLIT", f64::from(SPLIT)), ("KB", kb as f64)];
        let mut bindings = vec![("po", po), ("ml", ml)];
        bindings.extend(out.outputs());
        self.push(&format!("{name}.merge"), chosen, overrides, bindings, Grid(Extent::Fixed((kb as u32).div_ceil(8)), Extent::Fixed(1)), 0);
        Ok(out)
    }

    /// `silu(gate) * up` of `gate_up` (`[T, 2 F]`, gates first), in the form that `consumer` (the down product) reads.
    pub fn swiglu(&mut self, name: &str, gate_up: BufferId, consumer: &Matrix) -> Result<Act> {
        let out = self.act("act", consumer);
        let chosen = self.select.choose("swiglu", &[("out", out.axis())])?;
        let kb = consumer.kb();
        let overrides = vec![("F", consumer.k as f64), ("KB", kb as f64), ("GSTRIDE", 2.0 * consumer.k as f64)];
        let mut bindings = vec![("gu", gate_up)];
        bindings.extend(out.outputs());
        let grid = Grid(Extent::Fixed((kb as u32).div_ceil(8)), self.per_row(1));
        self.push(name, chosen, overrides, bindings, grid, 0);
        Ok(out)
    }

    /// The logits of the last row, `[V]` f32, which stay on the GPU.
    pub fn head(&mut self, head: &Matrix, x: Act) -> Result<()> {
        let logits = self.layout.shared(labels::LOGITS, head.n as u64 * 4, Role::Activation);
        self.linear(head, x, logits, head.n, false, true)
    }

    /// Samples from the logits, appends the token to the ring and advances the decode loop's state.
    pub fn sample(&mut self, vocab: usize) -> Result<()> {
        let logits = self.layout.shared(labels::LOGITS, vocab as u64 * 4, Role::Activation);
        let state = self.layout.shared(labels::STATE, STATE_BYTES, Role::State);
        let params = self.layout.shared(labels::SAMPLING, Sampling::BYTES as u64, Role::State);
        let ring = self.layout.shared(labels::RING, u64::from(self.sizes.ring) * 4, Role::State);
        let part = self.layout.shared("sample.max", u64::from(SLICES) * 4, Role::Activation);
        let thr = self.layout.shared("sample.threshold", 16, Role::Activation);
        let cand = self.layout.shared("sample.candidates", u64::from(SLICES) * 8, Role::Activation);
        let v = vec![("V", vocab as f64)];
        let wide = Grid(Extent::Fixed(SLICES), Extent::Fixed(1));
        let one = Grid::folded(1);
        let bytes = vocab as u64 * 4;
        let chosen = self.select.choose("logit_stats", &[])?;
        self.push("sample.stats", chosen, v.clone(), vec![("state", state), ("params", params), ("logits", logits), ("part", part)], wide, bytes);
        let chosen = self.select.choose("threshold", &[])?;
        self.push(
            "sample.threshold",
            chosen,
            v.clone(),
            vec![("state", state), ("params", params), ("logits", logits), ("part", part), ("thr", thr)],
            one,
            bytes,
        );
        let chosen = self.select.choose("pick", &[])?;
        self.push("sample.pick", chosen, v, vec![("state", state), ("params", params), ("logits", logits), ("thr", thr), ("cand", cand)], wide, bytes);
        let chosen = self.select.choose("advance", &[])?;
        self.push("sample.advance", chosen, vec![], vec![("state", state), ("params", params), ("cand", cand), ("ring", ring)], one, 0);
        Ok(())
    }
}

/// Elements of an f32 row of width `d`: padded to whole blocks.
pub const fn stride(d: usize) -> usize {
    d.div_ceil(BLOCK) * BLOCK
}
