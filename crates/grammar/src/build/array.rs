//! Arrays: a chain of items that differ, then a loop of those that do not. The counter counts commas.

use super::{Builder, Callee, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Map;
use crate::nfa::{Effect, StateId, UNBOUNDED};
use crate::schema::{Choices, Contains, Flat, NONE, SchemaId};

/// Schemas of `contains` that one array may have.
const MAX_CONTAINS: usize = 3;
/// Combinations of how many matches there are of each `contains` of one array.
const MAX_COMBINATIONS: usize = 512;
/// Sets of items that an array without repetition tells apart.
const MAX_SETS: u64 = 512;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ArrayBody {
    prefix: Vec<SchemaId>,
    items: SchemaId,
    contains: Vec<Contains>,
    /// How many items there are at least. Those beyond the prefix are the caller's to count where there is no `exact`.
    min: u32,
    /// States instead of a counter: the most items.
    exact: Option<Option<u32>>,
    counted: bool,
}

/// How far the count of a `contains` matters, and one.
fn levels_of(contains: &Contains) -> usize {
    contains.max.unwrap_or(contains.min) as usize + 1
}

impl ArrayBody {
    /// The array with its items counted by states instead of a counter; `min` and `max` count commas.
    pub fn unrolled(self, min: u32, max: Option<u32>) -> Self {
        let min = if min > 0 { min + 1 } else { self.min };
        Self { min, exact: Some(max.map(|m| m + 1)), counted: false, ..self }
    }
}

/// An array in which no item comes twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct UniqueBody {
    choices: Choices,
    min: u32,
    max: u32,
    /// Up to `free + 1` items come in any order. Those behind them come in that of the values: any order would take 2^n
    /// states.
    free: u32,
}

impl UniqueBody {
    fn new(choices: Choices, min: u32, max: Option<u32>) -> Self {
        let n = choices.values.len() as u32;
        let max = max.map_or(n, |max| max.min(n));
        let (mut free, mut sets, mut own) = (0, 1, 1);
        while free < max && (free == 0 || sets + own * u64::from(n - free) / u64::from(free + 1) <= MAX_SETS) {
            own = own * u64::from(n - free) / u64::from(free + 1);
            sets += own;
            free += 1;
        }
        Self { choices, min, max, free }
    }

    /// The values that may not come any more, once `value` has come behind those of `before`.
    fn behind(&self, before: u64, value: u32) -> u64 {
        let seen = before | 1 << value;
        if seen.count_ones() <= self.free { seen } else { u64::MAX >> seen.leading_zeros() }
    }
}

impl Builder<'_, '_> {
    /// The body of an array and the bounds of its counter; none where there is no such array.
    pub(super) fn array(&mut self, flat: &Flat) -> Result<Option<Callee>> {
        let (min, max) = (flat.min_items, flat.max_items);
        let never = |c: &Contains| c.max.is_some_and(|max| max < c.min);
        if max.is_some_and(|max| max < min) || flat.contains.iter().any(never) {
            return Ok(None);
        }
        if flat.unique {
            let choices = if flat.contains.is_empty() { self.schemas.choices(flat)? } else { None };
            let choices = choices.ok_or_else(|| {
                Error::new(ErrorKind::Unsupported, "an automaton cannot compare items")
                    .at((0, String::new()), "uniqueItems")
            })?;
            return Ok(Some((Kind::Unique(UniqueBody::new(choices, min, max)), (0, UNBOUNDED))));
        }
        if flat.contains.len() > MAX_CONTAINS {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("more than {MAX_CONTAINS} conditions of `contains` on one array"),
            ));
        }
        if flat.contains.iter().map(levels_of).product::<usize>() > MAX_COMBINATIONS {
            let reason = format!("more than {MAX_COMBINATIONS} combinations of how many items match");
            return Err(Error::new(ErrorKind::TooLarge, reason).at((0, String::new()), "contains"));
        }
        let mut prefix = flat.prefix.clone();
        let mut items = flat.items;
        // A maximum within the prefix ends the chain.
        if let Some(max) = max.filter(|&max| max as usize <= prefix.len()) {
            prefix.truncate(max as usize);
            items = NONE;
        }
        let n = prefix.len() as u32;
        // The counter is needed only for the loop.
        let low = if items != NONE && min > n + 1 { min - 1 } else { 0 };
        let high = max.filter(|_| items != NONE).map_or(UNBOUNDED, |max| max - 1);
        let counted = low > 0 || high != UNBOUNDED;
        let body =
            ArrayBody { prefix, items, contains: flat.contains.clone(), min: min.min(n + 1), exact: None, counted };
        if counted && !body.contains.is_empty() {
            // What has to be there could come too late for the bound: their number goes into the states.
            let kind = self.unroll(Kind::Array(body), low, if high == UNBOUNDED { UNBOUNDED } else { high })?;
            return Ok(Some((kind, (0, UNBOUNDED))));
        }
        Ok(Some((Kind::Array(body), (low, high))))
    }

    pub(super) fn array_body(&mut self, start: StateId, body: &ArrayBody) -> Result<StateId> {
        let end = self.nfa.state()?;
        let effect = if body.counted { Effect::Count } else { Effect::None };
        let combinations: usize = body.contains.iter().map(levels_of).product();
        // Before the item with a number, for each combination of how many items have matched each `contains`, as far
        // as that matters. The last level is repeated by all further items.
        let levels = match body.exact {
            Some(Some(max)) => max as usize,
            Some(None) => (body.min as usize).max(body.prefix.len()),
            None => body.prefix.len().max(body.min as usize),
        };
        self.budget.spend(levels * combinations)?;
        let begin = self.space(start)?;
        let mut before = vec![StateId::MAX; combinations];
        before[0] = begin;
        if body.min == 0 && body.contains.iter().all(|c| c.min == 0) {
            self.nfa.jump(begin, end);
        }
        let bounded = matches!(body.exact, Some(Some(_)));
        for i in 0..=levels {
            if bounded && i == levels {
                break;
            }
            let item = body.prefix.get(i).copied().unwrap_or(body.items);
            if item == NONE {
                break;
            }
            let mut next = vec![StateId::MAX; combinations];
            if i == levels {
                // A loop has states of its own: what may stand before the first item does not come back.
                for (set, state) in next.iter_mut().enumerate() {
                    *state = self.nfa.state()?;
                    if before[set] != StateId::MAX {
                        self.nfa.jump(before[set], *state);
                    }
                }
                before.clone_from(&next);
            }
            for (met, &begin) in before.iter().enumerate().filter(|(_, state)| **state != StateId::MAX) {
                for now in 0..1usize << body.contains.len() {
                    let (mut schema, mut set, mut enough) = (item, met, i + 1 >= body.min as usize);
                    let mut stride = 1;
                    for (k, contains) in body.contains.iter().enumerate() {
                        let levels = levels_of(contains);
                        let mut matches = met / stride % levels;
                        if now >> k & 1 == 1 {
                            // Where no more are counted, there are none or they do not matter.
                            matches += 1;
                            set += stride;
                            schema = if matches < levels { self.schemas.both(schema, contains.schema) } else { NONE };
                        } else if contains.max.is_some() {
                            let not = self.schemas.not(contains.schema);
                            schema = self.schemas.both(schema, not);
                        }
                        enough &= matches >= contains.min as usize;
                        stride *= levels;
                    }
                    if schema == NONE {
                        continue;
                    }
                    let value = self.value(begin, schema)?;
                    let after = self.space(value)?;
                    if enough {
                        self.nfa.jump(after, end);
                    }
                    let comma = self.nfa.byte(after, b',', effect)?;
                    let comma = self.space(comma)?;
                    if next[set] == StateId::MAX {
                        next[set] = self.nfa.state()?;
                    }
                    self.nfa.jump(comma, next[set]);
                }
            }
            before = next;
        }
        Ok(end)
    }

    pub(super) fn unique_body(&mut self, start: StateId, body: &UniqueBody) -> Result<StateId> {
        let end = self.nfa.state()?;
        let begin = self.space(start)?;
        if body.min == 0 {
            self.nfa.jump(begin, end);
        }
        let all = body.choices.values.len() as u32;
        // How many items there are matters only up to here.
        let top = if body.max < all { body.max } else { body.min.max(body.choices.prefix.len() as u32) };
        let mut known: Map<(u128, u32), StateId> = Map::default();
        let mut queue = Vec::new();
        if body.max > 0 {
            queue.push((0, 0, begin));
        }
        while let Some((seen, n, before)) = queue.pop() {
            let allowed = body.choices.prefix.get(n as usize).copied().unwrap_or(body.choices.rest) & !seen;
            for value in (0..all).filter(|v| allowed >> v & 1 == 1) {
                self.budget.spend(8)?;
                let last = self.value(before, body.choices.values[value as usize])?;
                let to = (body.behind(seen, value), (n + 1).min(top));
                if let Some(&after) = known.get(&(to.0.into(), to.1)) {
                    self.nfa.jump(last, after);
                    continue;
                }
                let after = self.space(last)?;
                known.insert((to.0.into(), to.1), after);
                if to.1 >= body.min {
                    self.nfa.jump(after, end);
                }
                if to.1 < body.max || body.max == all {
                    let comma = self.nfa.byte(after, b',', Effect::None)?;
                    queue.push((to.0, to.1, self.space(comma)?));
                }
            }
        }
        Ok(end)
    }
}
