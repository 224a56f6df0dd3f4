//! Maps whose hash is a multiplication and a shift a word: sets of states are hashed often, and what an attacker could
//! gain by collisions ends with the budget.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Words>>;

#[derive(Default)]
pub(crate) struct Words(u64);

impl Words {
    fn add(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }
}

/// A hash with one word more. No product of 128 bits: WebAssembly has none.
#[inline]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let x = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 32
}

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, x: u8) {
        self.add(u64::from(x));
    }

    fn write_u32(&mut self, x: u32) {
        self.add(u64::from(x));
    }

    fn write_u64(&mut self, x: u64) {
        self.add(x);
    }

    fn write_usize(&mut self, x: usize) {
        self.add(x as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
