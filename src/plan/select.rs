//! Kernel choice, in this one place: from the data's types, the lane, the device's capabilities and what was forced
//! from outside. It says why.

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use super::tuning::{Known, LaneChoice, Measured};
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::kernels::{self, Caps, Variant};
use crate::layout::Kv;

/// How activations and the cache are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// None yet: what the device is measured to be best at, one of the others.
    #[default]
    Auto,
    /// f32 activations and cache: for parity with a reference.
    Exact,
    /// f32 activations, packed-half cache: for devices that emulate int8 products.
    Float,
    /// f16 activations where the device has `shader-f16`, packed-half cache.
    F16,
    /// int8 activations against quantized weights, packed-half cache.
    Fast,
}

impl Lane {
    /// The lane of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "exact" => Ok(Self::Exact),
            "float" => Ok(Self::Float),
            "f16" => Ok(Self::F16),
            "fast" => Ok(Self::Fast),
            other => {
                Err(Error::bad_option(format!("lane {other:?} does not exist; use auto, exact, float, f16 or fast")))
            }
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Float => "float",
            Self::F16 => "f16",
            Self::Fast => "fast",
        }
    }

    /// What is left to try where a variant of this lane computes wrongly.
    pub const fn next(self, caps_f16: bool) -> Self {
        match self {
            Self::Fast if caps_f16 => Self::F16,
            // What is planned has a lane.
            Self::Auto => Self::Fast,
            Self::Fast | Self::F16 => Self::Float,
            Self::Float | Self::Exact => Self::Exact,
        }
    }

    /// How the cache holds keys and values where nothing else is asked for.
    pub const fn kv(self) -> Kv {
        match self {
            Self::Exact => Kv::F32,
            Self::Auto | Self::Float | Self::F16 | Self::Fast => Kv::F16,
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
    kv: Kv,
    caps: Caps,
    forced: Vec<Forced>,
    hints: Vec<(String, String)>,
    warnings: Vec<String>,
    known: Known,
    lane_choice: Option<LaneChoice>,
    /// Variants that failed the self-test.
    broken: Vec<&'static Variant>,
    /// (operation, variant) that is being measured.
    trial: Option<(String, &'static str)>,
}

/// An operation in a shape, and the variants that compute it on this device: nothing but speed decides among them.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Kernel, axes and shape, as [`super::tuning::Measurements`] names it.
    pub operation: String,
    /// The variants.
    pub variants: Vec<&'static Variant>,
}

/// What was chosen, and why.
pub struct Chosen {
    /// The variant.
    pub variant: &'static Variant,
    /// Why.
    pub reason: String,
    /// What else there was, where the tuner may choose.
    pub choice: Option<Choice>,
}

impl Selector {
    /// `kv`: how the cache is held, where the lane shall not decide. `forced` holds (kernel, variant) pairs: a
    /// variant's name or the value of one of its axes. One that does not exist is an error.
    pub fn new(caps: &Caps, lane: Lane, kv: Option<Kv>, forced: &[(String, String)]) -> Result<Self> {
        if lane == Lane::F16 && !caps.f16() {
            return Err(Error::bad_option(
                "lane f16 cannot be used: this GPU or browser does not offer shader-f16; use exact, float or fast",
            ));
        }
        if lane == Lane::Auto {
            return Err(Error::internal("kernels are chosen for a lane, not for whichever"));
        }
        forced.iter().try_for_each(exists)?;
        let forced = forced
            .iter()
            .map(|(kernel, variant)| Forced {
                kernel: kernel.clone(),
                variant: variant.clone(),
                used: Cell::new(false),
            })
            .collect();
        Ok(Self {
            lane,
            kv: kv.unwrap_or(lane.kv()),
            caps: caps.clone(),
            forced,
            hints: Vec::new(),
            warnings: Vec::new(),
            known: Known::default(),
            lane_choice: None,
            broken: Vec::new(),
            trial: None,
        })
    }

    /// Takes the model's recommendations, (kernel, variant): they decide where the device runs the variant, it has
    /// proved itself, and nothing was forced or measured. A model may be older than today's kernels: what does not
    /// exist is left out, with a warning.
    pub fn hint(&mut self, hints: impl Iterator<Item = (String, String)>) {
        for hint in hints {
            match exists(&hint) {
                Ok(()) => self.hints.push(hint),
                Err(e) => self
                    .warnings
                    .push(format!("the model recommends a kernel that this version does not have: {}", e.message())),
            }
        }
    }

    /// What could not be honoured and need not be, for people.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The lane.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// How the cache is held.
    pub fn kv(&self) -> Kv {
        self.kv
    }

    /// What is known of this device.
    pub fn known(&self) -> &Known {
        &self.known
    }
    /// Takes over what was found out earlier.
    pub fn remember(&mut self, known: Known) {
        self.known = known;
    }
    /// This lane was chosen by what that product says of it.
    pub fn decided(&mut self, product: String, choice: LaneChoice) {
        if choice.rates.is_some() {
            self.known.lanes.insert(product, choice.clone());
        }
        self.lane_choice = Some(choice);
    }
    /// How the lane was chosen, where the caller did not name one.
    pub fn lane_choice(&self) -> Option<&LaneChoice> {
        self.lane_choice.as_ref()
    }
    /// Variants that passed the self-test.
    pub fn prove(&mut self, variants: impl Iterator<Item = String>) {
        self.known.proven.extend(variants);
    }
    /// Leaves these variants out from now on, and forgets how fast they are: what is wrong is not fast.
    pub fn avoid(&mut self, broken: &[&'static Variant]) {
        self.broken.extend(broken);
        broken.iter().for_each(|variant| self.known.forget(variant));
    }
    /// The variants that are left out.
    pub fn avoided(&self) -> &[&'static Variant] {
        &self.broken
    }
    /// Takes over an operation's measurements, the variant to use first.
    pub fn learn(&mut self, operation: String, times: Vec<Measured>) {
        self.known.measurements.insert(operation, times);
    }
    /// Whether an operation was measured.
    pub fn is_measured(&self, operation: &str) -> bool {
        self.known.measurements.contains_key(operation)
    }
    /// Until the next call, `variant` is what this operation gets.
    pub fn try_out(&mut self, trial: Option<(&str, &'static str)>) {
        self.trial = trial.map(|(operation, variant)| (operation.to_owned(), variant));
    }

    /// The variant of `kernel` whose axes are `given`, the others chosen here; and why.
    pub fn choose(&self, kernel: &str, given: &[(&str, &str)]) -> Result<Chosen> {
        let fit = self.fit(kernel, given)?;
        let mut because: Vec<String> = given.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        let mut variant = fit[0];
        if let Some(forced) = self.forced(&fit) {
            variant = forced.0;
            because.push(forced.1);
        } else if let Some(hinted) =
            self.hints.iter().find_map(|(kernel, hint)| fit.iter().find(|v| v.kernel == kernel && matches(v, hint)))
        {
            variant = hinted;
            because.push("recommended by the model".into());
        } else if fit.len() > 1 {
            if self.caps.subgroups() {
                because.push(format!("subgroups of {} to {}", self.caps.subgroup[0], self.caps.subgroup[1]));
            }
        } else if kernels::variants(kernel).any(|v| v.subgroups) && !self.caps.subgroups() {
            because.push("no subgroups".into());
        }
        let reason = if because.is_empty() { "only variant".into() } else { because.join(", ") };
        Ok(Chosen { variant, reason, choice: None })
    }

    /// Whether this device runs a variant of `kernel` with these axes.
    pub fn offers(&self, kernel: &str, given: &[(&str, &str)]) -> bool {
        self.fit(kernel, given).is_ok()
    }

    /// Whether prefill's products may run on matrix units: not in lane exact, whose numbers are f32.
    pub fn matrices(&self) -> bool {
        self.lane != Lane::Exact && self.caps.matrices()
    }

    /// As [`Selector::choose`], for a product with `n` rows of `k`: the fastest, where it was measured.
    pub fn choose_product(&self, kernel: &str, given: &[(&str, &str)], k: usize, n: usize) -> Result<Chosen> {
        let mut chosen = self.choose(kernel, given)?;
        let fit = self.fit(kernel, given)?;
        // A short row has no blocks for most of the lanes of a large subgroup.
        let blocks = k.div_ceil(BLOCK) as u32;
        let snug = |v: &&&'static Variant| v.subgroups == fit[0].subgroups && v.lanes <= blocks;
        if chosen.variant == fit[0]
            && (8..fit[0].lanes / 2).contains(&blocks)
            && self.forced(&fit).is_none()
            && let Some(variant) = fit.iter().find(snug)
        {
            chosen.variant = variant;
            chosen.reason = format!("{}, rows of {blocks} blocks", chosen.reason);
        }
        // A few lanes a row, and none by workgroup memory, where the device has many: not worth the time.
        let likely = |v: &&&'static Variant| v.subgroups && v.lanes * 4 >= fit[0].lanes;
        let mut variants: Vec<_> = fit.iter().filter(likely).copied().collect();
        if variants.len() < 2 {
            variants.clone_from(&fit);
        }
        if variants.len() < 2 || self.forced(&fit).is_some() {
            return Ok(chosen);
        }
        let axes: Vec<&str> = given.iter().map(|(_, value)| *value).collect();
        let operation = format!("{kernel} {} K={k} N={n}", axes.join("-"));
        if let Some((_, name)) = self.trial.as_ref().filter(|t| t.0 == operation) {
            chosen.variant = variants.iter().find(|v| v.name == *name).copied().unwrap_or(chosen.variant);
        } else if let Some(times) = self.known.measurements.get(&operation)
            && let Some(fastest) = times.first().and_then(|best| variants.iter().find(|v| v.name == best.0))
        {
            chosen.variant = fastest;
            let times: Vec<String> = times.iter().map(|(name, us)| format!("{name} {us} us")).collect();
            chosen.reason = format!("measured: {}", times.join(", "));
        }
        chosen.choice = Some(Choice { operation, variants });
        Ok(chosen)
    }

    /// The variants that this device runs, the likely best first: with subgroups where it has them, and as many lanes a
    /// row as they hold.
    fn fit(&self, kernel: &str, given: &[(&str, &str)]) -> Result<Vec<&'static Variant>> {
        let mut fit: Vec<&'static Variant> = kernels::variants(kernel)
            .filter(|v| given.iter().all(|(axis, value)| v.axes.contains(&(*axis, *value))))
            .filter(|v| v.lacks(&self.caps).is_none() && !self.broken.contains(v))
            .collect();
        if fit.is_empty() {
            return Err(Error::unknown_kernel(format!("kernel {kernel} has no variant for {given:?} on this GPU")));
        }
        fit.sort_by_key(|v| (!v.subgroups, std::cmp::Reverse(v.lanes)));
        Ok(fit)
    }

    /// The value of that axis in the variant of `kernel` that was forced, where steps before those that run it go by
    /// it.
    pub fn forced_axis(&self, kernel: &str, axis: &str) -> Option<&'static str> {
        let forced = self.forced.iter().find(|f| f.kernel == kernel)?;
        forced.used.set(true);
        kernels::variants(kernel).find(|v| matches(v, &forced.variant))?.axis(axis)
    }

    fn forced(&self, fit: &[&'static Variant]) -> Option<(&'static Variant, String)> {
        let forced = self
            .forced
            .iter()
            .find_map(|f| Some((f, fit.iter().find(|v| v.kernel == f.kernel && matches(v, &f.variant))?)));
        forced.map(|(f, variant)| {
            f.used.set(true);
            (*variant, format!("forced {}", f.variant))
        })
    }

    /// An error if a forced variant was never used: it exists, but fits no step of this model in this lane on this GPU.
    pub fn finish(&self) -> Result<()> {
        match self.forced.iter().find(|f| !f.used.get()) {
            Some(f) => Err(Error::unknown_kernel(format!(
                "kernel {}={} fits no step of this model in lane {} on this GPU",
                f.kernel,
                f.variant,
                self.lane.name()
            ))),
            None => Ok(()),
        }
    }
}

/// Whether a (kernel, variant) exists; `UNKNOWN_KERNEL` lists those that do.
fn exists((kernel, variant): &(String, String)) -> Result<()> {
    if !kernels::kernels().contains(&kernel.as_str()) {
        return Err(Error::unknown_kernel(format!(
            "kernel {kernel:?} does not exist; there are: {}",
            kernels::kernels().join(", ")
        )));
    }
    if !kernels::variants(kernel).any(|v| matches(v, variant)) {
        let names: Vec<_> = kernels::variants(kernel).map(|v| v.name).collect();
        return Err(Error::unknown_kernel(format!(
            "kernel {kernel} has no variant {variant:?}; there are: {}",
            names.join(", ")
        )));
    }
    Ok(())
}

fn matches(variant: &Variant, wanted: &str) -> bool {
    variant.name == wanted || variant.axes.iter().any(|(_, value)| *value == wanted)
}
