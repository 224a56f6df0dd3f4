//! Which variants stand for all where a device compiles slowly: those that between them have every value of every axis.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernels::Variant;

/// What the chosen variants have between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// Of each kernel every value of each axis; of all together every type of weights with every type of activations.
    Values,
    /// Of each kernel every value of each axis with every value of each other axis.
    Pairs,
}

/// (axis, value) of two axes; of a single one the second is empty.
type Part = [(&'static str, &'static str); 2];

impl Cover {
    fn parts(self, variant: &Variant) -> Vec<Part> {
        let mut parts: Vec<Part> = variant.axes.iter().map(|axis| [*axis, ("", "")]).collect();
        if self == Self::Pairs {
            for (i, first) in variant.axes.iter().enumerate() {
                parts.extend(variant.axes[i + 1..].iter().map(|second| [*first, *second]));
            }
        }
        parts
    }

    /// The part that one variant of any kernel stands for: a type of weights with a type of activations. Pairs have it of
    /// each kernel.
    fn common(self, variant: &Variant) -> Option<Part> {
        let axis = |name| variant.axes.iter().find(|axis| axis.0 == name).copied();
        if self == Self::Pairs { None } else { Some([axis("weight")?, axis("act")?]) }
    }

    /// The chosen variants, in the order of `variants`. A kernel without axes has one variant, which is chosen.
    pub fn of(self, variants: &[&'static Variant]) -> Vec<&'static Variant> {
        let mut kernels: BTreeMap<&str, Vec<&'static Variant>> = BTreeMap::new();
        for variant in variants {
            kernels.entry(variant.kernel).or_default().push(variant);
        }
        let mut chosen: BTreeSet<String> =
            kernels.into_values().flat_map(|variants| self.of_kernel(variants)).map(ToString::to_string).collect();
        let mut met: BTreeSet<Part> =
            variants.iter().filter(|v| chosen.contains(&v.to_string())).filter_map(|v| self.common(v)).collect();
        for variant in variants {
            if self.common(variant).is_some_and(|part| met.insert(part)) {
                chosen.insert(variant.to_string());
            }
        }
        variants.iter().filter(|v| chosen.contains(&v.to_string())).copied().collect()
    }

    /// Greedy cover: each time the variant with the most new parts; among equals the one whose parts were met least, so
    /// that each comes with various others.
    fn of_kernel(self, mut left: Vec<&'static Variant>) -> Vec<&'static Variant> {
        let mut met: BTreeMap<Part, usize> = BTreeMap::new();
        let mut chosen = Vec::new();
        loop {
            let worth = |v: &Variant| {
                let counts: Vec<usize> = self.parts(v).iter().map(|part| met.get(part).copied().unwrap_or(0)).collect();
                (counts.iter().filter(|n| **n == 0).count(), std::cmp::Reverse(counts.iter().sum::<usize>()))
            };
            // The first of the best.
            let best = (0..left.len()).rev().max_by_key(|i| worth(left[*i]));
            let Some(best) = best.filter(|i| chosen.is_empty() || worth(left[*i]).0 > 0) else { break };
            let variant = left.remove(best);
            self.parts(variant).into_iter().for_each(|part| *met.entry(part).or_default() += 1);
            chosen.push(variant);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels;

    #[test]
    fn every_value_and_pair_is_met() {
        let all: Vec<_> = kernels::all().iter().collect();
        for cover in [Cover::Values, Cover::Pairs] {
            let chosen = cover.of(&all);
            let parts = |variants: &[&'static Variant]| -> BTreeSet<(&str, Part)> {
                variants.iter().flat_map(|v| cover.parts(v).into_iter().map(|part| (v.kernel, part))).collect()
            };
            assert_eq!(parts(&chosen), parts(&all));
            let common = |variants: &[&'static Variant]| -> BTreeSet<Part> {
                variants.iter().filter_map(|v| cover.common(v)).collect()
            };
            assert_eq!(common(&chosen), common(&all));
            assert!(chosen.len() < all.len(), "{} of {}", chosen.len(), all.len());
            let kernels = |variants: &[&'static Variant]| variants.iter().map(|v| v.kernel).collect::<BTreeSet<_>>();
            assert_eq!(kernels(&chosen), kernels(&all));
        }
    }
}
