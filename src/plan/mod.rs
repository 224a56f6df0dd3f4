//! The plan: every dispatch of a prefill pass and of a decode step as data. It is printed, run on the GPU
//! ([`crate::decode`]) or run through the CPU twins ([`twins`]), from any step: a wrong token is found by bisection.

mod adapter;
mod attention;
mod builder;
mod experts;
mod grouped;
mod hazards;
mod limited;
mod occupancy;
mod open;
mod operations;
mod per_layer;
mod pooling;
mod product;
mod print;
mod recurrent;
mod sampling;
mod select;
mod stage;
#[cfg(feature = "toy")]
mod toy;
pub mod tuning;
mod vision;

pub use adapter::{Adapted, Adapters};
pub(crate) use attention::width_axis;
pub use builder::Builder;
pub use hazards::{Hazard, hazards};
pub use limited::Limited;
use operations::Room;
pub use operations::{
    Act, Activation, Attention, Axes, AxesOrder, Experts, GatedNorm, Growth, Heads, Keys, Linear, LinearFactors,
    LinearHeads, LinearKind, Mlp, Norm, PerLayer, PictureMask, QK_NORM_ROOM, QkNorms, Rotation, Routing, Rule, Scores,
    ShortConv,
};
pub use print::{PlanRow, rows};
pub use sampling::{Asked, GrammarRoom};
pub use select::{Choice, Chosen, Lane, Selector};
pub use stage::{FEW, Pass, Plans, SHORT, Stage};
pub use vision::PatchShape;

use serde::Serialize;

use crate::kernels::Variant;
use crate::kernels::splits;
use crate::layout::BufferId;

/// One dimension of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Extent {
    /// This many workgroups.
    Fixed(u32),
    /// `ceil(T / per)` workgroups for a pass over T rows.
    Rows {
        /// Rows a workgroup.
        per: u32,
    },
    /// `T * each` workgroups for a pass over T rows.
    Slots {
        /// Workgroups a row.
        each: u32,
    },
    /// As many workgroups for T rows as there can be tiles of `per` of their `T * each` slots, which are of `groups`
    /// groups, each tile of one.
    Tiles {
        /// Slots a row.
        each: u32,
        /// Slots a tile.
        per: u32,
        /// Groups.
        groups: u32,
    },
    /// As many workgroups for each of the T rows as there can be splits of the cache.
    Splits {
        /// Workgroups a split.
        groups: u32,
        /// Keys at most.
        keys: u32,
        /// The rule.
        rule: splits::Rule,
    },
}

/// Workgroups of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Grid(pub Extent, pub Extent, pub u32);

impl Grid {
    /// Most workgroups of a dimension, on every device.
    pub const MOST: u32 = 65_535;

    /// `n` workgroups in one dimension, folded into two where a dimension may not hold them.
    pub fn folded(n: u32) -> Self {
        let x = n.min(Self::MOST);
        Self::of(Extent::Fixed(x), Extent::Fixed(n.div_ceil(x.max(1))))
    }

    /// Workgroups in two dimensions.
    pub fn of(x: Extent, y: Extent) -> Self {
        Self(x, y, 1)
    }

    /// This grid with `rows` workgroups in the third dimension.
    pub fn deep(self, rows: u32) -> Self {
        Self(self.0, self.1, rows)
    }

    /// The grid of a pass over `rows` rows.
    pub fn at(self, rows: u32) -> [u32; 3] {
        let size = |e| match e {
            Extent::Fixed(n) => n,
            Extent::Rows { per } => rows.div_ceil(per),
            Extent::Slots { each } => rows * each,
            Extent::Tiles { each, per, groups } => rows * each / per + groups.min(rows * each),
            Extent::Splits { groups, keys, rule } => rows * rule.most_splits(keys, groups * rows),
        };
        [size(self.0), size(self.1), self.2]
    }
}

/// Constants of a pipeline, by name.
pub type Overrides = Vec<(&'static str, f64)>;
/// Buffers, by the names in the shader.
pub type Bindings = Vec<(&'static str, BufferId)>;

/// What a step has written, for a later one to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// Where it lies.
    pub(crate) buffer: BufferId,
    /// The number of the step that wrote it, or the last part of it, in its plan.
    pub(crate) made: usize,
}

/// One dispatch.
#[derive(Debug, Clone)]
pub struct Step {
    /// What it is part of.
    pub stage: Stage,
    /// Where in the model, e.g. `blk.3.qkv`.
    pub name: String,
    /// The shader.
    pub variant: &'static Variant,
    /// Its constants.
    pub overrides: Overrides,
    /// Its buffers.
    pub bindings: Bindings,
    /// What it reads of other steps.
    pub reads: Vec<Value>,
    /// Its workgroups.
    pub grid: Grid,
    /// Bytes of weights, or of the cache at full capacity, that a run reads.
    pub bytes: u64,
    /// Bytes of the cache that a run reads for each position it holds.
    pub key_bytes: u64,
    /// Why this variant.
    pub reason: String,
    /// What else there was, where the tuner may choose.
    pub choice: Option<Choice>,
}

impl Step {
    /// Whether it reads what an earlier step has written to a buffer.
    pub fn reads_from(&self, buffer: BufferId) -> bool {
        self.reads.iter().any(|value| value.buffer == buffer)
    }
}

/// The dispatches of one pass, in order.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The dispatches.
    pub steps: Vec<Step>,
}
