//! The plan as rows that people and tests read.

use serde::Serialize;

use super::{Pass, Plan, Step};
use crate::layout::Sizes;

/// One dispatch of a plan, as printed by `inspect --plan` and held in `engine.info.plan`.
#[derive(Debug, Clone, Serialize)]
pub struct PlanRow {
    /// `prefill`, `short`, `few`, `decode`, `four` or `eight`.
    pub pass: &'static str,
    /// Where in the model.
    pub step: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Its variant.
    pub variant: &'static str,
    /// Workgroups (for one row in decode, for as many as there can be in the others).
    pub grid: [u32; 3],
    /// Bytes of weights or cache read.
    pub bytes: u64,
    /// Why this variant.
    pub reason: String,
    /// Where it runs; nothing but `gpu` exists.
    #[serde(rename = "where")]
    pub place: &'static str,
}

/// The rows of a pass's plan, with as many rows of text as it can have.
pub fn rows(pass: Pass, plan: &Plan, sizes: Sizes) -> Vec<PlanRow> {
    let row = |s: &Step| PlanRow {
        pass: pass.name(),
        step: s.name.clone(),
        kernel: s.variant.kernel,
        variant: s.variant.name,
        grid: s.grid.at(pass.rows(sizes)),
        bytes: s.bytes,
        reason: s.reason.clone(),
        place: "gpu",
    };
    plan.steps.iter().map(row).collect()
}
