//! What was found out about a device: for each operation in a shape, how fast each of its variants is, so that the
//! planner takes the fastest; and which variants were seen to compute what they should.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Lane;
use crate::gpu::Rates;
use crate::kernels::{Caps, EDITION, Variant};

/// A variant's name and how long a dispatch of it takes, microseconds.
pub type Measured = (String, f64);

/// Measurements of one device, by operation: `matvec q4_0-q8 K=2048 N=2048` -> variants, the one to use first.
pub type Measurements = BTreeMap<String, Vec<Measured>>;

/// What is known of every device that was met, as they are kept between loads.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tuning {
    /// [`EDITION`]: what is known of other kernels says nothing about these.
    kernels: String,
    devices: BTreeMap<String, Known>,
}

/// What is known of a device.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Known {
    /// How fast it runs what.
    pub measurements: Measurements,
    /// Variants that passed the self-test there, `KERNEL=VARIANT`.
    pub proven: BTreeSet<String>,
    /// The lanes that were chosen, by the product that decided: a model's saved conversations are of one.
    #[serde(default)]
    pub lanes: BTreeMap<String, LaneChoice>,
}

/// A lane that was chosen automatically.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneChoice {
    /// Which.
    pub lane: Lane,
    /// Why, for people.
    pub reason: String,
    /// What the device's arithmetic is worth, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Rates>,
    /// How long a product of the model takes in the lanes that were compared, microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<LaneTime>,
}

/// A product in a lane, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LaneTime {
    /// The lane.
    pub lane: Lane,
    /// With one row of activations, as in decode.
    pub decode_us: f64,
    /// With many, as of a prompt, by row.
    pub prompt_us: f64,
}

/// The file in which they are kept.
pub const FILE: &str = "tuning.json";

impl Tuning {
    /// What `text` holds; nothing where it is of other kernels or damaged: it is measured again.
    pub fn parse(text: &str) -> Self {
        let parsed: Self = serde_json::from_str(text).unwrap_or_default();
        if parsed.kernels == EDITION { parsed } else { Self::default() }
    }

    /// As [`Tuning::parse`] reads it.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What is known of a device.
    pub fn of(&self, caps: &Caps) -> Known {
        self.devices.get(&name(caps)).cloned().unwrap_or_default()
    }

    /// Adds what is known of a device: of what was measured twice this holds.
    pub fn set(&mut self, caps: &Caps, known: Known) {
        EDITION.clone_into(&mut self.kernels);
        self.devices.entry(name(caps)).or_default().add(known);
    }

    /// Adds what another has found out: of what both have measured that holds.
    pub fn add(&mut self, other: Self) {
        if other.kernels != EDITION {
            return;
        }
        EDITION.clone_into(&mut self.kernels);
        for (name, known) in other.devices {
            self.devices.entry(name).or_default().add(known);
        }
    }
}

impl Known {
    fn add(&mut self, other: Self) {
        self.measurements.extend(other.measurements);
        self.proven.extend(other.proven);
        self.lanes.extend(other.lanes);
    }

    /// Forgets how fast a variant is.
    pub fn forget(&mut self, variant: &Variant) {
        for (operation, times) in &mut self.measurements {
            if operation.split(' ').next() == Some(variant.kernel) {
                times.retain(|(name, _)| name != variant.name);
            }
        }
        self.measurements.retain(|_, times| !times.is_empty());
    }
}

/// What tells devices apart: their name, and what kernels may use of them.
fn name(caps: &Caps) -> String {
    format!("{} {} {} {} {}", caps.backend, caps.vendor, caps.name, caps.features.join("+"), caps.max_invocations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tabs_keep_what_each_has_found_out() {
        let caps = Caps::least();
        let known = |operation: &str, us: f64, variant: &str| Known {
            measurements: Measurements::from([(operation.to_owned(), vec![("q4_0-q8-wg".to_owned(), us)])]),
            proven: BTreeSet::from([variant.to_owned()]),
            ..Known::default()
        };
        let of = |known: &[Known]| {
            let mut tuning = Tuning::default();
            known.iter().for_each(|known| tuning.set(&caps, known.clone()));
            tuning
        };
        let one = of(&[known("matvec q4_0-q8 K=64 N=32", 2.5, "a"), known("matvec q4_0-q8 K=64 N=64", 3.5, "b")]);
        let mut stored =
            of(&[known("matvec q4_0-q8 K=64 N=96", 4.5, "c"), known("matvec q4_0-q8 K=64 N=32", 9.5, "a")]);
        stored.add(one.clone());
        let both = stored.of(&caps);
        assert_eq!(both.measurements.values().map(|times| times[0].1).collect::<Vec<_>>(), [2.5, 3.5, 4.5], "{both:?}");
        assert_eq!(both.proven.len(), 3);
        let before = stored.clone();
        stored.add(Tuning { kernels: "0".into(), ..one });
        assert_eq!(stored, before, "of other kernels nothing is taken over");
    }

    #[test]
    fn measurements_come_back_for_the_same_device_and_kernels_only() {
        let (one, other) = (Caps::least(), Caps { name: "another".into(), ..Caps::least() });
        let measurements =
            Measurements::from([("matvec q4_0-q8 K=64 N=32".to_owned(), vec![("q4_0-q8-wg".to_owned(), 2.5)])]);
        let known =
            Known { measurements, proven: BTreeSet::from(["matvec=q4_0-q8-wg".to_owned()]), ..Known::default() };
        let mut tuning = Tuning::default();
        tuning.set(&one, known.clone());
        let again = Tuning::parse(&tuning.text());
        assert_eq!(again.of(&one), known);
        assert_eq!(again.of(&other), Known::default());
        assert_eq!(Tuning::parse(&tuning.text().replace(EDITION, "0")), Tuning::default());
        assert_eq!(Tuning::parse("nonsense"), Tuning::default());
    }
}
