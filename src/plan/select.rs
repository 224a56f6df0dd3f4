//! Kernel choice, in this one place: from the data's types, the lane, the device's capabilities and what was forced from outside. It says why.

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::gpu::Caps;
use crate::kernels::{self, Variant};

/// How activations and the cache are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// f32 activations and cache: for parity with a reference.
    Exact,
    /// f16 activations, where the device has `shader-f16`.
    F16,
    /// int8 activations against quantized weights, packed-half cache.
    #[default]
    Fast,
}

impl Lane {
    /// The lane of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "exact" => Ok(Self::Exact),
            "f16" => Ok(Self::F16),
            "fast" => Ok(Self::Fast),
            other => Err(Error::bad_option(format!("lane {other:?} does not exist; use exact, f16 or fast"))),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::F16 => "f16",
            Self::Fast => "fast",
        }
    }

    /// The `kv` axis: how the cache holds keys and values.
    pub const fn kv(self) -> &'static str {
        match self {
            Self::Exact => "f32",
            Self::F16 | Self::Fast => "f16",
        }
    }

    /// Bytes of one element of the cache.
    pub const fn kv_bytes(self) -> u64 {
        match self {
            Self::Exact => 4,
            Self::F16 | Self::Fast => 2,
        }
    }
}

struct Forced {
    kernel: String,
    variant: String,
    used: Cell<bool>,
}

/// Chooses variants for one device and lane.
pub struct Selector {
    lane: Lane,
    caps: Caps,
    forced: Vec<Forced>,
}

impl Selector {
    /// `forced` holds (kernel, variant) pairs: a variant's name or the value of one of its axes. One that does not exist is an error.
    pub fn new(caps: &Caps, lane: Lane, forced: &[(String, String)]) -> Result<Self> {
        if lane == Lane::F16 {
            let why = if caps.f16() { "its kernels are not in this version" } else { "this GPU does not offer shader-f16" };
            return Err(Error::bad_option(format!("lane f16 cannot be used: {why}; use exact or fast")));
        }
        for (kernel, variant) in forced {
            if !kernels::kernels().contains(&kernel.as_str()) {
                return Err(Error::unknown_kernel(format!("kernel {kernel:?} does not exist; there are: {}", kernels::kernels().join(", "))));
            }
            if !kernels::variants(kernel).any(|v| matches(v, variant)) {
                let names: Vec<_> = kernels::variants(kernel).map(|v| v.name).collect();
                return Err(Error::unknown_kernel(format!("kernel {kernel} has no variant {variant:?}; there are: {}", names.join(", "))));
            }
        }
        let forced = forced.iter().map(|(kernel, variant)| Forced { kernel: kernel.clone(), variant: variant.clone(), used: Cell::new(false) }).collect();
        Ok(Self { lane, caps: caps.clone(), forced })
    }

    /// The lane.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// The variant of `kernel` whose axes are `given`, the others chosen here; and why.
    pub fn choose(&self, kernel: &str, given: &[(&str, &str)]) -> Result<(&'static Variant, String)> {
        let mut fit: Vec<&'static Variant> = kernels::variants(kernel)
            .filter(|v| given.iter().all(|(axis, value)| v.axes.contains(&(*axis, *value))))
            .filter(|v| v.lacks(&self.caps).is_none())
            .collect();
        if fit.is_empty() {
            return Err(Error::unknown_kernel(format!("kernel {kernel} has no variant for {given:?} on this GPU")));
        }
        let mut because: Vec<String> = given.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        if let Some(forced) = self.forced.iter().find(|f| f.kernel == kernel && fit.iter().any(|v| matches(v, &f.variant))) {
            fit.retain(|v| matches(v, &forced.variant));
            forced.used.set(true);
            because.push(format!("forced {}", forced.variant));
        } else if fit.len() > 1 {
            if self.caps.subgroups() {
                because.push(format!("subgroups of {} to {}", self.caps.subgroup[0], self.caps.subgroup[1]));
            }
        } else if kernels::variants(kernel).any(|v| v.subgroups) && !self.caps.subgroups() {
            because.push("no subgroups".into());
        }
        // With subgroups where the device has them, and as many lanes a row as they hold; otherwise the table's order.
        fit.sort_by_key(|v| (!v.subgroups, std::cmp::Reverse(v.lanes)));
        let because = if because.is_empty() { "only variant".into() } else { because.join(", ") };
        Ok((fit[0], because))
    }

    /// An error if a forced variant was never used: it exists, but fits no step of this model in this lane on this GPU.
    pub fn finish(&self) -> Result<()> {
        match self.forced.iter().find(|f| !f.used.get()) {
            Some(f) => {
                Err(Error::unknown_kernel(format!("kernel {}={} fits no step of this model in lane {} on this GPU", f.kernel, f.variant, self.lane.name())))
            }
            None => Ok(()),
        }
    }
}

fn matches(variant: &Variant, wanted: &str) -> bool {
    variant.name == wanted || variant.axes.iter().any(|(_, value)| *value == wanted)
}
