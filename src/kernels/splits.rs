//! How the cache is cut for decode attention (shaders/common/splits.wgsl): many workgroups while it is short, so that the GPU is full;
//! many keys a workgroup when it is long, so that there is less to merge. It depends on the position only, so that a cache that has
//! grown gives the same numbers.

/// Most keys of a split.
const MOST: u32 = 128;
/// Workgroups that fill a GPU.
const FILL: u64 = 160;

/// Keys a workgroup reads, with `keys` in the cache and `groups` workgroups for each split. `least` is the smallest split.
pub fn keys_a_split(keys: u32, groups: u32, least: u32) -> u32 {
    let mut split = least;
    while split < MOST && u64::from(keys) * u64::from(groups) > u64::from(split) * FILL {
        split *= 2;
    }
    split
}

/// Most splits of any position below `capacity`.
pub fn most_splits(capacity: u32, groups: u32, least: u32) -> u32 {
    let at = |keys: u32| keys.div_ceil(keys_a_split(keys, groups, least));
    // The number drops where the split doubles: just before, or at the end.
    let mut most = at(capacity);
    let mut split = least;
    while split < MOST {
        let last = (u64::from(split) * FILL / u64::from(groups)).clamp(1, u64::from(capacity));
        most = most.max(at(last as u32));
        split *= 2;
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_position_has_more_splits_than_there_is_room_for() {
        for (capacity, groups, least) in [(64, 1, 64), (1200, 8, 64), (9000, 8, 64), (5000, 1, 32), (4096, 2, 64), (700, 40, 32), (300, 200, 64)] {
            let room = most_splits(capacity, groups, least);
            let most = (1..=capacity).map(|keys| keys.div_ceil(keys_a_split(keys, groups, least))).max();
            assert_eq!(most, Some(room), "{capacity} {groups} {least}");
        }
    }
}
