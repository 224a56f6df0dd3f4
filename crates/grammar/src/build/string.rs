//! Strings: any characters with a counter, or an automaton of their characters, each written as JSON writes it.

use std::rc::Rc;

use super::{Builder, Kind};
use crate::chars::{CharSet, MAX_CHAR, PLAIN, short_escape, utf8};
use crate::dfa::Dfa;
use crate::error::Result;
use crate::nfa::{Effect, StateId, UNBOUNDED};
use crate::schema::Flat;

/// Arcs from which on a repeated set of characters has a counter in place of a state for each number of them.
const COUNTED_ARCS: usize = 512;

/// At most five ranges of bytes in one number.
fn tail_name(bytes: &[(u8, u8)]) -> u128 {
    bytes.iter().fold(1, |name, b| name << 16 | u128::from(b.0) << 8 | u128::from(b.1))
}

impl Builder<'_, '_> {
    pub(super) fn string(&mut self, from: StateId, flat: &Flat, end: StateId) -> Result<()> {
        let dfa = if flat.langs.is_empty() { None } else { Some(self.schemas.string(flat)?) };
        match dfa {
            Some(dfa) if !dfa.is_any() => {
                let large = dfa.arcs.iter().map(Vec::len).sum::<usize>() >= COUNTED_ARCS;
                match dfa.as_repeated().filter(|repeated| large && (repeated.1, repeated.2) != (0, None)) {
                    Some((set, min, max)) => {
                        self.call(from, Kind::Class(Rc::new(set)), (min, max.unwrap_or(UNBOUNDED)), end)
                    }
                    None => self.call(from, Kind::String(dfa), (0, UNBOUNDED), end),
                }
            }
            _ => {
                let (min, max) = (flat.min_length, flat.max_length);
                if max.is_some_and(|max| max < min) {
                    return Ok(());
                }
                let counted = min > 0 || max.is_some();
                self.call(from, Kind::AnyString { counted }, (min, max.unwrap_or(UNBOUNDED)), end)
            }
        }
    }

    /// Any characters of a JSON string, escapes of all forms included. A character is counted with its first byte: a
    /// bound that is reached refuses it there, not in its middle.
    pub(super) fn any_string(&mut self, start: StateId, counted: bool) -> Result<StateId> {
        let effect = if counted { Effect::Count } else { Effect::None };
        let at = self.nfa.state()?;
        self.nfa.jump(start, at);
        for (lo, hi) in PLAIN {
            self.chars(at, lo, hi, effect, at)?;
        }
        let escape = self.nfa.byte(at, b'\\', effect)?;
        for b in *b"\"\\/bfnrt" {
            self.nfa.edge(escape, b, b, Effect::None, at);
        }
        // \uXXXX, but surrogates only in pairs: half of one is no character.
        let u = self.nfa.byte(escape, b'u', Effect::None)?;
        let [last, second] = [self.nfa.state()?, self.nfa.state()?];
        self.hex(last, at);
        self.hex(second, last);
        let first = self.nfa.state()?;
        self.hex(first, second);
        for (lo, hi) in [(b'0', b'9'), (b'A', b'C'), (b'a', b'c'), (b'E', b'F'), (b'e', b'f')] {
            self.nfa.edge(u, lo, hi, Effect::None, first);
        }
        let [d, high_second, high_last, backslash] =
            [self.nfa.state()?, self.nfa.state()?, self.nfa.state()?, self.nfa.state()?];
        for b in [b'd', b'D'] {
            self.nfa.edge(u, b, b, Effect::None, d);
        }
        self.nfa.edge(d, b'0', b'7', Effect::None, second);
        for (lo, hi) in [(b'8', b'9'), (b'A', b'B'), (b'a', b'b')] {
            self.nfa.edge(d, lo, hi, Effect::None, high_second);
        }
        self.hex(high_second, high_last);
        self.hex(high_last, backslash);
        let low = self.nfa.literal(backslash, b"\\u")?;
        let low_d = self.nfa.state()?;
        for b in [b'd', b'D'] {
            self.nfa.edge(low, b, b, Effect::None, low_d);
        }
        for (lo, hi) in [(b'C', b'F'), (b'c', b'f')] {
            self.nfa.edge(low_d, lo, hi, Effect::None, second);
        }
        Ok(at)
    }

    fn hex(&mut self, from: StateId, to: StateId) {
        for (lo, hi) in [(b'0', b'9'), (b'A', b'F'), (b'a', b'f')] {
            self.nfa.edge(from, lo, hi, Effect::None, to);
        }
    }

    /// Code points as UTF-8.
    pub fn chars(&mut self, from: StateId, lo: u32, hi: u32, effect: Effect, to: StateId) -> Result<()> {
        let mut sequences = Vec::new();
        utf8(lo, hi, &mut |sequence| sequences.push(sequence));
        for (bytes, len) in sequences {
            let next = self.tail(&bytes[1..len], to)?;
            self.nfa.edge(from, bytes[0].0, bytes[0].1, effect, next);
        }
        Ok(())
    }

    /// The state before these bytes, behind which comes `to`. Equal ends of characters are shared by all that lead to
    /// one state.
    fn tail(&mut self, bytes: &[(u8, u8)], to: StateId) -> Result<StateId> {
        let Some((first, rest)) = bytes.split_first() else { return Ok(to) };
        let name = (tail_name(bytes), to);
        if let Some(&known) = self.tails.get(&name) {
            return Ok(known);
        }
        let next = self.tail(rest, to)?;
        let state = self.nfa.state()?;
        self.nfa.edge(state, first.0, first.1, Effect::None, next);
        self.tails.insert(name, state);
        Ok(state)
    }

    /// Code points as they stand in a JSON string: as they are where JSON allows it, else escaped.
    /// `effect` is that of a character's first byte.
    fn json_chars(&mut self, from: StateId, lo: u32, hi: u32, effect: Effect, to: StateId) -> Result<()> {
        for (first, last) in PLAIN {
            let (a, b) = (lo.max(first), hi.min(last));
            if a <= b {
                self.chars(from, a, b, effect, to)?;
            }
        }
        for c in [b'"', b'\\'].into_iter().filter(|&c| (lo..=hi).contains(&u32::from(c))) {
            let at = self.tail(&[(c, c)], to)?;
            self.nfa.edge(from, b'\\', b'\\', effect, at);
        }
        if lo == 0 && hi >= 0x1f {
            let at = self.controls(to)?;
            self.nfa.edge(from, b'\\', b'\\', effect, at);
            return Ok(());
        }
        for c in lo..=hi.min(0x1f) {
            let digit = char::from_digit(c & 15, 16).unwrap_or('0') as u8;
            for last in [digit, digit.to_ascii_uppercase()] {
                let bytes = [b'u', b'0', b'0', b'0' + (c >> 4) as u8, last].map(|b| (b, b));
                let at = self.tail(&bytes, to)?;
                self.nfa.edge(from, b'\\', b'\\', effect, at);
            }
            if let Some(letter) = short_escape(c) {
                let at = self.tail(&[(letter, letter)], to)?;
                self.nfa.edge(from, b'\\', b'\\', effect, at);
            }
        }
        Ok(())
    }

    /// The state behind a backslash from which every control character leads on.
    fn controls(&mut self, to: StateId) -> Result<StateId> {
        // A name that no bytes have.
        let name = (tail_name(&[(u8::MAX, 0)]), to);
        if let Some(&known) = self.tails.get(&name) {
            return Ok(known);
        }
        let at = self.nfa.state()?;
        for letter in (0..0x20).filter_map(short_escape) {
            self.nfa.edge(at, letter, letter, Effect::None, to);
        }
        let zeros = self.nfa.literal(at, b"u00")?;
        let last = self.nfa.state()?;
        self.nfa.edge(zeros, b'0', b'1', Effect::None, last);
        self.hex(last, to);
        self.tails.insert(name, at);
        Ok(at)
    }

    /// Puts an automaton of characters behind a state. `accept` is called with each state that accepts and its tag.
    pub fn embed(
        &mut self,
        from: StateId,
        dfa: &Dfa,
        json: bool,
        accept: &mut dyn FnMut(&mut Self, StateId, u32) -> Result<()>,
    ) -> Result<()> {
        let states = (0..dfa.arcs.len()).map(|_| self.nfa.state()).collect::<Result<Vec<_>>>()?;
        self.nfa.jump(from, states[0]);
        for (i, arcs) in dfa.arcs.iter().enumerate() {
            for arc in arcs {
                let to = states[arc.to as usize];
                if json {
                    self.json_chars(states[i], arc.lo, arc.hi.min(MAX_CHAR), Effect::None, to)?;
                } else {
                    self.chars(states[i], arc.lo, arc.hi.min(MAX_CHAR), Effect::None, to)?;
                }
            }
            if dfa.tags[i] != 0 {
                accept(self, states[i], dfa.tags[i])?;
            }
        }
        Ok(())
    }

    /// Any number of characters of a set. A character is counted with its first byte.
    pub(super) fn class_body(&mut self, start: StateId, set: &CharSet) -> Result<StateId> {
        let at = self.nfa.state()?;
        self.nfa.jump(start, at);
        for &(lo, hi) in &set.0 {
            self.json_chars(at, lo, hi, Effect::Count, at)?;
        }
        Ok(at)
    }

    pub(super) fn string_body(&mut self, start: StateId, dfa: &Dfa) -> Result<StateId> {
        let end = self.nfa.state()?;
        self.embed(start, dfa, true, &mut |builder, state, _| {
            builder.nfa.jump(state, end);
            Ok(())
        })?;
        Ok(end)
    }
}
