//! How the cache is cut for attention of few rows (shaders/common/splits.wgsl): many workgroups while it is short, so
//! that the GPU is full; many keys a workgroup when it is long, so that there is less to merge. It depends on positions
//! and rows only, so that a cache that has grown gives the same numbers.

use crate::numbers::{DECODE_FILL, DECODE_MOST_KEYS};
use serde::Serialize;

/// The rule of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Keys of the smallest split, a power of two.
    pub least: u32,
    /// Keys of the largest.
    pub most: u32,
    /// Workgroups that fill a GPU.
    pub fill: u32,
}

impl Rule {
    /// The rule of one row: workgroups that have enough to do, and in a long cache as many as there are.
    pub const fn decode(least: u32) -> Self {
        Self { least, most: DECODE_MOST_KEYS, fill: DECODE_FILL }
    }

    /// The rule of several rows, each with workgroups of its own.
    pub const fn rows(least: u32) -> Self {
        Self { least, most: 1 << 30, fill: 1024 }
    }

    /// Keys a workgroup reads, with `keys` in the cache and `groups` workgroups for each split.
    pub fn keys_a_split(self, keys: u32, groups: u32) -> u32 {
        let mut split = self.least;
        while split < self.most && u64::from(keys) * u64::from(groups) > u64::from(split) * u64::from(self.fill) {
            split *= 2;
        }
        split
    }

    /// Splits of `keys`.
    pub fn count(self, keys: u32, groups: u32) -> u32 {
        keys.div_ceil(self.keys_a_split(keys, groups))
    }

    /// Most splits of any position below `capacity`.
    pub fn most_splits(self, capacity: u32, groups: u32) -> u32 {
        // The number drops where the split doubles: just before, or at the end.
        let mut most = self.count(capacity, groups);
        let mut split = self.least;
        while split < self.most && split < capacity {
            let last = (u64::from(split) * u64::from(self.fill) / u64::from(groups)).clamp(1, u64::from(capacity));
            most = most.max(self.count(last as u32, groups));
            split *= 2;
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_position_has_more_splits_than_there_is_room_for() {
        for rule in [Rule::decode, Rule::rows] {
            for (capacity, groups, least) in [
                (64, 1, 64),
                (1200, 8, 64),
                (9000, 8, 64),
                (5000, 1, 32),
                (4096, 2, 64),
                (700, 40, 32),
                (300, 200, 64),
                (3000, 2000, 64),
            ] {
                let room = rule(least).most_splits(capacity, groups);
                let most = (1..=capacity).map(|keys| rule(least).count(keys, groups)).max();
                assert_eq!(most, Some(room), "{capacity} {groups} {least}");
            }
        }
    }
}
