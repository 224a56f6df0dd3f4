//! The twins: for each kernel the same operation in plain loops that accumulate in f64, with the same binding names and
//! the same overrides. A twin does a whole dispatch; a plan runs on the GPU or through them, step by step.
//! Beside them, what the checks of kernels are made of: random inputs, and how a device's outputs are compared.

mod accept;
mod activate;
mod advance;
pub mod attention;
mod attention_prefill;
mod clamp;
pub mod compare;
mod constrain;
mod conv;
mod delta;
mod embed;
mod group;
pub mod inputs;
pub mod kv;
mod logit_stats;
mod logprobs;
mod lora;
mod merge;
mod norm;
pub mod numbers;
mod parameters;
mod penalize;
mod pick;
mod pixels;
mod pool;
mod product;
mod qk_norm;
pub mod quantize;
mod random;
mod rope;
mod route;
#[cfg(feature = "toy")]
mod running_sum;
pub mod sampling;
pub mod splits;
mod state;
mod stream_read;
pub mod threshold;

use std::cell::{Ref, RefCell, RefMut};

use bytemuck::Pod;

pub use accept::place;
pub use parameters::Sampling;
pub use state::State;

/// What a machine that runs kernels on the CPU can be told, as words: one of these, then what it names.
pub mod op {
    /// Program, workgroups in x, y, z.
    pub const DISPATCH: u32 = 0;
    /// Source buffer and word, destination buffer and word, number of words.
    pub const COPY: u32 = 1;
    /// Zeros: buffer, first word, number of words.
    pub const CLEAR: u32 = 2;
    /// Buffer, first word, number of words, and the words.
    pub const WRITE: u32 = 3;
    /// A buffer goes.
    pub const FREE: u32 = 4;
    /// A program goes.
    pub const UNBIND: u32 = 5;
}

/// A twin. It may panic where the call breaks the kernel's contract (a missing override, a buffer too short): plans are
/// made by the engine, not read from outside.
type Twin = fn(&Call);

/// Kernel -> twin.
const TWINS: &[(&str, Twin)] = &[
    ("embed", embed::run),
    ("norm", norm::run),
    ("matvec", product::matvec),
    ("norm_matvec", product::norm_matvec),
    ("gated_matvec", product::gated_matvec),
    ("norm_gated", product::norm_gated),
    ("matvec_rows", product::matmul),
    ("gated_rows", product::gated_rows),
    ("residual_rows", product::residual_rows),
    ("norm_rows", product::norm_matvec),
    ("norm_gated_rows", product::norm_gated),
    ("matmul", product::matmul),
    ("matmul_subgroup", product::matmul_subgroup),
    ("route", route::run),
    ("experts_gated", product::experts_gated),
    ("experts_down", product::experts_down),
    ("group", group::run),
    ("experts_matmul", product::experts_matmul),
    ("experts_sum", product::experts_sum),
    ("lora_a", lora::a),
    ("lora_b", lora::b),
    ("pool", pool::run),
    ("pixels", pixels::run),
    ("quantize", quantize::run),
    ("activate", activate::run),
    ("clamp", clamp::run),
    ("qk_norm", qk_norm::run),
    ("rope", rope::run),
    ("attention", attention::run),
    ("merge", merge::run),
    ("attention_prefill", attention_prefill::run),
    ("short_conv", conv::short),
    ("conv_keep", conv::keep),
    ("delta_step", delta::step),
    ("delta_rows", delta::rows),
    ("delta_settle", delta::settle),
    ("delta_conv", delta::conv),
    ("delta_intra", delta::intra),
    ("delta_scan", delta::scan),
    ("gated_norm", norm::gated),
    ("logit_stats", logit_stats::run),
    ("tally", threshold::tally),
    ("narrow", threshold::narrow),
    ("threshold", threshold::run),
    ("pick", pick::run),
    ("advance", advance::run),
    ("draft", accept::draft),
    ("accept", accept::run),
    ("drafter_begin", accept::drafter_begin),
    ("drafter_end", accept::drafter_end),
    ("constrain", constrain::run),
    ("walk", constrain::walk),
    ("penalize", penalize::run),
    ("logprobs", logprobs::run),
    ("logprobs_append", logprobs::append),
    ("stream_read", stream_read::run),
    ("random", random::run),
    #[cfg(feature = "toy")]
    ("running_sum", running_sum::run),
    #[cfg(feature = "toy")]
    ("sum_settle", running_sum::settle),
];

/// What a twin knows of the variant that it stands for.
#[derive(Debug, Clone, Copy)]
pub struct Variant<'a> {
    pub kernel: &'a str,
    pub name: &'a str,
    /// (axis, value)
    pub axes: &'a [(&'a str, &'a str)],
    pub workgroup: [u32; 3],
    /// What one workgroup covers.
    pub tile: [u32; 2],
    /// Names of its buffers.
    pub bindings: &'a [&'a str],
}

impl<'a> Variant<'a> {
    /// The value of an axis.
    pub fn axis(&self, name: &str) -> Option<&'a str> {
        self.axes.iter().find(|a| a.0 == name).map(|a| a.1)
    }

    /// Whether it has a buffer of that name.
    pub fn binds(&self, name: &str) -> bool {
        self.bindings.contains(&name)
    }
}

impl std::fmt::Display for Variant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.kernel, self.name)
    }
}

/// One dispatch: what the GPU gets, with buffers as words on the host.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub variant: Variant<'a>,
    /// Every override of the variant.
    pub overrides: &'a [(&'a str, f64)],
    /// Workgroups.
    pub grid: [u32; 3],
    /// Binding name -> words. Two bindings may share one buffer only where both read.
    pub buffers: &'a [(&'a str, &'a RefCell<Vec<u32>>)],
}

impl<'a> Call<'a> {
    /// An override's value.
    pub fn f64(&self, name: &str) -> f64 {
        let given = self.overrides.iter().find(|o| o.0 == name);
        given.map(|o| o.1).unwrap_or_else(|| panic!("{}: no override {name}", self.variant))
    }

    /// The workgroup that looks at number `i` of many: runs as long as a workgroup are dealt out in turn.
    pub fn slice(&self, i: usize) -> usize {
        i / self.variant.workgroup[0] as usize % self.grid[0] as usize
    }

    /// Logits of a row, with those of no token behind them.
    pub fn stride(&self) -> usize {
        self.usize("V") + self.usize("PADDING")
    }

    /// Rows of a step that have workgroups of their own, without those whose sequence has ended; row 0 without BESIDE.
    pub fn beside(&self) -> impl Iterator<Item = usize> + use<> {
        let (state, beside) = (self.state(), self.u32("BESIDE") == 1);
        (0..if beside { state.rows as usize } else { 1 }).filter(move |t| !(beside && state.rests(*t)))
    }

    /// An override of type u32.
    pub fn u32(&self, name: &str) -> u32 {
        self.f64(name) as u32
    }

    /// An override of type u32, to index with.
    pub fn usize(&self, name: &str) -> usize {
        self.f64(name) as usize
    }

    /// As [`Call::usize`], for an override that not every kernel of a family has; 0 where it is missing.
    pub fn given(&self, name: &str) -> usize {
        self.overrides.iter().find(|o| o.0 == name).map_or(0, |o| o.1 as usize)
    }

    /// An override of type f32, as rounded for the GPU.
    pub fn f32(&self, name: &str) -> f32 {
        self.f64(name) as f32
    }

    /// The variant's value of an axis.
    pub fn axis(&self, name: &str) -> &'a str {
        self.variant.axis(name).unwrap_or_else(|| panic!("{}: no axis {name}", self.variant))
    }

    /// The words of a binding.
    pub fn read(&self, name: &str) -> Ref<'_, Vec<u32>> {
        self.buffer(name).borrow()
    }

    /// The words of a binding, to write.
    pub fn write(&self, name: &str) -> RefMut<'_, Vec<u32>> {
        self.buffer(name).borrow_mut()
    }

    /// The elements of a binding.
    pub fn view<T: Pod>(&self, name: &str) -> Ref<'_, [T]> {
        Ref::map(self.read(name), |words| bytemuck::cast_slice(words))
    }

    /// The elements of a binding, to write.
    pub fn view_mut<T: Pod>(&self, name: &str) -> RefMut<'_, [T]> {
        RefMut::map(self.write(name), |words| bytemuck::cast_slice_mut(words))
    }

    /// The state.
    pub fn state(&self) -> State {
        State::from_words(&self.read("state"))
            .unwrap_or_else(|| panic!("{}: the state is {} bytes", self.variant, State::BYTES))
    }

    /// The scales of a weight: empty for types without any.
    pub fn scales(&self) -> Vec<u32> {
        if self.variant.binds("ws") { self.read("ws").clone() } else { Vec::new() }
    }

    fn buffer(&self, name: &str) -> &RefCell<Vec<u32>> {
        self.buffers
            .iter()
            .find(|b| b.0 == name)
            .map(|b| b.1)
            .unwrap_or_else(|| panic!("{}: no buffer {name}", self.variant))
    }
}

/// The kernels that run when the done flag is set: they mark the ring's slots after the end, pass the flag on, or take
/// over what counts of the last step.
pub const PAST_THE_END: [&str; 5] = ["advance", "accept", "drafter_begin", "delta_settle", "sum_settle"];

/// The kernels that have a twin.
pub fn kernels() -> impl Iterator<Item = &'static str> {
    TWINS.iter().map(|twin| twin.0)
}

/// Runs the kernel's twin; false where it has none.
pub fn run(call: &Call) -> bool {
    let Some((_, twin)) = TWINS.iter().find(|t| t.0 == call.variant.kernel) else { return false };
    // The flag that every kernel returns on, so in one place.
    if call.state().done == 0 || PAST_THE_END.contains(&call.variant.kernel) {
        twin(call);
    }
    true
}
