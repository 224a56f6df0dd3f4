//! The plan: every dispatch of a prefill pass and of a decode step as data. It is printed, run on the GPU ([`crate::decode`]) or run through
//! the CPU twins ([`twins`]), from any step: a wrong token is found by bisection.

mod attention;
mod builder;
mod experts;
mod occupancy;
mod operations;
mod print;
mod select;
pub mod tuning;
pub mod twins;

pub(crate) use attention::width_axis;
pub use builder::{Builder, FEW, Pass, SHORT, Sizes, labels, stride};
pub use operations::{Act, Activation, Attention, Experts, Heads, Mlp, Norm, QK_NORM_ROOM, QkNorms, Rotation, Routing};
pub use print::{PlanRow, rows};
pub use select::{Choice, Chosen, Kv, Lane, Selector};

use std::collections::HashMap;

use serde::Serialize;

use crate::kernels::Variant;
use crate::kernels::splits::Rule;

/// A buffer of a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct BufferId(pub u32);

/// What a buffer is for, which decides its usage and in which sum of the memory report it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Matrices, vectors and tables that never change after loading.
    Weight,
    /// The KV cache.
    Cache,
    /// Everything between two kernels.
    Activation,
    /// Position, token, done flag and counters; sampling parameters.
    State,
}

/// One buffer, before it exists.
#[derive(Debug, Clone)]
pub struct BufferSpec {
    /// Unique name.
    pub label: String,
    /// Length in bytes.
    pub bytes: u64,
    /// What it is for.
    pub role: Role,
    /// How a part of the cache is laid out.
    pub cache: Option<CacheShape>,
}

/// A part of the KV cache: `[heads][positions]` rows, position p in slot p % positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Key/value heads.
    pub heads: u32,
    /// Positions that it holds.
    pub positions: u32,
    /// Bytes of a row: what one head has of one position.
    pub row: u64,
    /// Positions that the model needs at one time; `None`: all.
    pub window: Option<u32>,
}

impl CacheShape {
    /// Positions that a cache of `sizes` holds for a layer with a window: the window's and those of a pass beside it.
    pub(crate) fn positions(sizes: Sizes, window: Option<u32>) -> u32 {
        window.map_or(sizes.capacity, |w| w.saturating_add(sizes.rows).next_multiple_of(64).min(sizes.capacity))
    }

    /// The same part in a cache of other sizes.
    pub(crate) fn grown(self, sizes: Sizes) -> Self {
        Self { positions: Self::positions(sizes, self.window), ..self }
    }

    /// Its bytes.
    pub const fn bytes(&self) -> u64 {
        self.heads as u64 * self.positions as u64 * self.row
    }

    /// Rows that hold something when `n` positions from 0 on are used.
    pub const fn used(&self, n: u32) -> u32 {
        if n < self.positions { n } else { self.positions }
    }
}

/// All buffers of an engine. Weights come first and keep their ids when the cache grows and the rest is laid out again.
#[derive(Debug, Default, Clone)]
pub struct Layout {
    specs: Vec<BufferSpec>,
    by_label: HashMap<String, BufferId>,
    /// What the plan says of steps that read a buffer.
    notes: HashMap<BufferId, String>,
}

impl Layout {
    /// Reserves a buffer.
    pub fn add(&mut self, label: impl Into<String>, bytes: u64, role: Role) -> BufferId {
        let (label, id) = (label.into(), BufferId(self.specs.len() as u32));
        self.by_label.insert(label.clone(), id);
        self.specs.push(BufferSpec { label, bytes, role, cache: None });
        id
    }

    /// The buffer of that name, reserved on first use, as large as its largest user wants it: layers and plans share their activations.
    pub fn shared(&mut self, label: &str, bytes: u64, role: Role) -> BufferId {
        match self.find(label) {
            Some(id) => {
                let spec = &mut self.specs[id.0 as usize];
                spec.bytes = spec.bytes.max(bytes);
                id
            }
            None => self.add(label, bytes, role),
        }
    }

    /// Has the plan say something about each step that reads the buffer as its weights.
    pub fn note(&mut self, buffer: BufferId, text: String) {
        self.notes.insert(buffer, text);
    }

    /// What was noted of a buffer.
    pub fn note_of(&self, buffer: BufferId) -> Option<&str> {
        self.notes.get(&buffer).map(String::as_str)
    }

    /// A part of the KV cache, reserved on first use.
    pub fn cache(&mut self, label: &str, shape: CacheShape) -> BufferId {
        let id = self.shared(label, shape.bytes(), Role::Cache);
        self.specs[id.0 as usize].cache = Some(shape);
        id
    }

    /// The buffer of that name.
    pub fn find(&self, label: &str) -> Option<BufferId> {
        self.by_label.get(label).copied()
    }

    /// All buffers, in the order of their ids.
    pub fn specs(&self) -> &[BufferSpec] {
        &self.specs
    }

    /// Forgets every buffer after the first `n`.
    pub fn truncate(&mut self, n: usize) {
        self.specs.truncate(n);
        self.by_label.retain(|_, id| (id.0 as usize) < n);
    }

    /// Bytes of all buffers of a role.
    pub fn bytes(&self, role: Role) -> u64 {
        self.specs.iter().filter(|s| s.role == role).map(|s| s.bytes).sum()
    }
}

/// One dimension of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Extent {
    /// So many workgroups.
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
    /// As many workgroups for each of the T rows as there can be splits of the cache.
    Splits {
        /// Workgroups a split.
        groups: u32,
        /// Keys at most.
        keys: u32,
        /// The rule.
        rule: Rule,
    },
}

/// Workgroups of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Grid(pub Extent, pub Extent);

impl Grid {
    /// Most workgroups of a dimension, on every device.
    pub const MOST: u32 = 65_535;

    /// `n` workgroups in one dimension, folded into two where a dimension may not hold them.
    pub fn folded(n: u32) -> Self {
        let x = n.min(Self::MOST);
        Self(Extent::Fixed(x), Extent::Fixed(n.div_ceil(x.max(1))))
    }

    /// The grid of a pass over `rows` rows.
    pub fn at(self, rows: u32) -> [u32; 3] {
        let size = |e| match e {
            Extent::Fixed(n) => n,
            Extent::Rows { per } => rows.div_ceil(per),
            Extent::Slots { each } => rows * each,
            Extent::Splits { groups, keys, rule } => rows * rule.most_splits(keys, groups * rows),
        };
        [size(self.0), size(self.1), 1]
    }
}

/// Constants of a pipeline, by name.
pub type Overrides = Vec<(&'static str, f64)>;
/// Buffers, by the names in the shader.
pub type Bindings = Vec<(&'static str, BufferId)>;

/// One dispatch.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where in the model, e.g. `blk.3.qkv`.
    pub name: String,
    /// The shader.
    pub variant: &'static Variant,
    /// Its constants.
    pub overrides: Overrides,
    /// Its buffers.
    pub bindings: Bindings,
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

/// The dispatches of one pass, in order.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The dispatches.
    pub steps: Vec<Step>,
}
