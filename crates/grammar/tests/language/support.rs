//! What the tests share.

use millrace_grammar::{Automaton, Error, Grammar, Options, Report, Walk, compile};
use serde_json::Value;

/// Numbers that are the same in each run (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

pub fn made(grammar: &Grammar) -> Result<(Automaton, Report), Error> {
    compile(grammar, &Options::default())
}

pub fn of(schema: &Value) -> Automaton {
    made(&Grammar::json_schema_value(schema.clone())).unwrap_or_else(|e| panic!("{schema}: {e}")).0
}

pub fn accepts(automaton: &Automaton, text: &[u8]) -> bool {
    let mut walk = Walk::new(automaton);
    text.iter().all(|&b| walk.advance(automaton, b)) && walk.accepting(automaton)
}
