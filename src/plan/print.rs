//! The plan as rows that people and tests read.

use serde::Serialize;

use super::{Plan, Step};

/// One dispatch of a plan, as printed by `inspect --plan` and held in `engine.info.plan`.
#[derive(Debug, Clone, Serialize)]
pub struct PlanRow {
    /// `prefill` or `decode`.
    pub pass: &'static str,
    /// Where in the model.
    pub step: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Its variant.
    pub variant: &'static str,
    /// Workgroups (for one row in decode, for a full chunk in prefill).
    pub grid: [u32; 3],
    /// Bytes of weights or cache read.
    pub bytes: u64,
    /// Why this variant.
    pub reason: String,
    /// Where it runs; nothing but `gpu` exists.
    #[serde(rename = "where")]
    pub place: &'static str,
}

/// The rows of a plan for a pass over `rows_a_pass` rows.
pub fn rows(pass: &'static str, plan: &Plan, rows_a_pass: u32) -> Vec<PlanRow> {
    let row = |s: &Step| PlanRow {
        pass,
        step: s.name.clone(),
        kernel: s.variant.kernel,
        variant: s.variant.name,
        grid: s.grid.at(rows_a_pass),
        bytes: s.bytes,
        reason: s.reason.clone(),
        place: "gpu",
    };
    plan.steps.iter().map(row).collect()
}
