//! A debug pass over a plan: scratch buffers hold what was written last, and steps say which step's result they want.

use std::collections::HashMap;
use std::fmt;

use super::{Plan, Step, Value};
use crate::kernels::BindingKind;
use crate::layout::{BufferId, Layout, Name, Role};

/// Why a plan computes something else than what was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hazard {
    /// A step reads what another has overwritten.
    Overwritten {
        /// The reading step, `blk.3.attention`.
        reader: String,
        /// The buffer that it reads.
        buffer: Name,
        /// The step whose result it wants.
        wanted: String,
        /// The step whose result the buffer holds.
        found: String,
    },
    /// A step reads what no step before it has written.
    Unwritten {
        /// The reading step.
        reader: String,
        /// The buffer that it reads.
        buffer: Name,
    },
    /// A step reads a scratch buffer without naming the step whose result it wants.
    Unsaid {
        /// The reading step.
        reader: String,
        /// The buffer that it reads.
        buffer: Name,
    },
    /// A step has a buffer bound twice, and writes to it.
    Bound {
        /// Which step.
        step: String,
        /// Which buffer.
        buffer: Name,
    },
    /// A step comes before one whose stage is earlier.
    Order {
        /// Which step.
        step: String,
    },
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overwritten { reader, buffer, wanted, found } => {
                write!(f, "{reader} reads {buffer} as {wanted} has left it, but {found} has written to it since")
            }
            Self::Unwritten { reader, buffer } => write!(f, "{reader} reads {buffer}, which nothing has written"),
            Self::Unsaid { reader, buffer } => {
                write!(f, "{reader} reads {buffer} and does not say whose result it wants")
            }
            Self::Bound { step, buffer } => write!(f, "{step} has {buffer} bound twice and writes to it"),
            Self::Order { step } => write!(f, "{step} comes after a later stage"),
        }
    }
}

/// What is wrong with a plan; nothing, as a rule.
pub fn hazards(plan: &Plan, layout: &Layout) -> Vec<Hazard> {
    let mut found = Vec::new();
    let mut written: HashMap<BufferId, usize> = HashMap::new();
    let name = |id: BufferId| layout.spec(id).name.clone();
    let scratch = |id: BufferId| layout.spec(id).role() == Role::Scratch;
    for (i, step) in plan.steps.iter().enumerate() {
        if i > 0 && plan.steps[i - 1].stage > step.stage {
            found.push(Hazard::Order { step: step.name.clone() });
        }
        for Value { buffer, made } in &step.reads {
            match written.get(buffer) {
                Some(last) if last == made => {}
                Some(last) => found.push(Hazard::Overwritten {
                    reader: step.name.clone(),
                    buffer: name(*buffer),
                    wanted: plan.steps.get(*made).map_or_else(|| format!("step {made}"), |s| s.name.clone()),
                    found: plan.steps[*last].name.clone(),
                }),
                None => found.push(Hazard::Unwritten { reader: step.name.clone(), buffer: name(*buffer) }),
            }
        }
        for (j, (binding, id)) in step.bindings.iter().enumerate() {
            let writes = writes(step, binding);
            if !writes && scratch(*id) && step.reads.iter().all(|v| v.buffer != *id) {
                found.push(Hazard::Unsaid { reader: step.name.clone(), buffer: name(*id) });
            }
            let others = || step.bindings.iter().enumerate().filter(|(k, (_, other))| *k != j && other == id);
            if writes && others().next().is_some() {
                found.push(Hazard::Bound { step: step.name.clone(), buffer: name(*id) });
            }
        }
        for (binding, id) in &step.bindings {
            if writes(step, binding) {
                written.insert(*id, i);
            }
        }
    }
    found
}

fn writes(step: &Step, binding: &str) -> bool {
    step.variant.binding(binding).is_some_and(|b| b.kind == BindingKind::ReadWrite)
}
