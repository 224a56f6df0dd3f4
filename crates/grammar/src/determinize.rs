//! The deterministic automaton: sets of states, and for calls sets of bodies that are read at once. What has been read
//! when they close tells which of them it was (an outcome), so that unions are told apart exactly, however late they
//! differ (Alur and Madhusudan, "Visibly pushdown languages", 2004).

use std::ops::Range;
use std::rc::Rc;

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Map, mix};
use crate::nfa::{BodyId, Call, Effect, Nfa, ROOT, StateId};

/// What a byte does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Move { to: u32, effect: Effect },
    Push { symbol: u32, to: u32 },
    Pop { outcome: u32 },
}

#[derive(Debug)]
pub(crate) struct Row {
    /// Sorted, disjoint: first byte, last byte, what they do.
    pub actions: Vec<(u8, u8, Action)>,
    pub accepts: bool,
}

#[derive(Debug)]
pub(crate) struct Symbol {
    /// Where it goes on, for each outcome.
    pub returns: Vec<u32>,
    pub min: u32,
    pub max: u32,
    calls: Vec<(BodyId, StateId)>,
    group: u32,
}

/// Bodies that are read at once.
struct Group {
    outcomes: Map<Vec<BodyId>, u32>,
    list: Vec<Vec<BodyId>>,
    symbols: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Vpa {
    pub rows: Vec<Row>,
    pub symbols: Vec<Symbol>,
    pub start: u32,
}

/// Why determinizing stops.
pub(crate) enum Stop {
    Error(Error),
    /// The bounds of these calls differ where the calls cannot be told apart: their counters have to become states.
    Unroll(Vec<(BodyId, u32, u32)>),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

pub(crate) fn determinize(nfa: &Nfa, start: StateId, budget: &Rc<Budget>) -> Result<Vpa, Stop> {
    let live = nfa.live()?;
    if !live[start as usize] {
        return Err(Error::new(ErrorKind::Unsatisfiable, "nothing satisfies it").into());
    }
    let mut it = Determinizer {
        nfa,
        live,
        budget,
        marks: vec![0; nfa.len()],
        mark: 0,
        groups: Vec::new(),
        group_ids: Map::default(),
        ids: Map::default(),
        sets: Vec::new(),
        members: Vec::new(),
        stack: Vec::new(),
        edges: Vec::new(),
        rows: Vec::new(),
        symbols: Vec::new(),
        symbol_ids: Map::default(),
    };
    let root = it.group(vec![ROOT]);
    let start = it.state(root, &[start])?;
    let mut next = 0;
    while next < it.sets.len() {
        it.expand(next as u32)?;
        next += 1;
    }
    Ok(Vpa { rows: it.rows, symbols: it.symbols, start })
}

/// The states of the automaton before that a state stands for.
struct Set {
    group: u32,
    from: u32,
    until: u32,
    /// Another state whose set has the same hash.
    other: Option<u32>,
}

/// Edges that are sorted rather than put in a table of bytes.
const FEW: usize = 64;

/// Sorts by insertion: there are few, mostly in order, and the library's sorts are large.
fn sort_few<T: Copy>(list: &mut [T], key: impl Fn(&T) -> u8) {
    for i in 1..list.len() {
        let x = list[i];
        let mut at = i;
        while at > 0 && key(&list[at - 1]) > key(&x) {
            list[at] = list[at - 1];
            at -= 1;
        }
        list[at] = x;
    }
}

/// Appends a transition, or widens the last one.
fn add_move(out: &mut Vec<(u8, u8, Action)>, lo: u8, hi: u8, to: u32, effect: Effect) {
    let action = Action::Move { to, effect };
    match out.last_mut() {
        Some((_, last, known)) if *last + 1 == lo && *known == action => *last = hi,
        _ => out.push((lo, hi, action)),
    }
}

/// A symbol's name: group of the caller, group that is read, where each body returns to, bounds.
type SymbolKey = (u32, u32, Vec<(BodyId, StateId)>, u32, u32);

struct Determinizer<'n> {
    nfa: &'n Nfa,
    live: Vec<bool>,
    budget: &'n Rc<Budget>,
    marks: Vec<u32>,
    mark: u32,
    groups: Vec<Group>,
    group_ids: Map<Vec<BodyId>, u32>,
    /// The last state whose set has this hash; each names the one before it.
    ids: Map<u64, u32>,
    sets: Vec<Set>,
    /// The members of all sets.
    members: Vec<StateId>,
    stack: Vec<StateId>,
    edges: Vec<(u8, u8, StateId, Effect)>,
    rows: Vec<Row>,
    symbols: Vec<Symbol>,
    symbol_ids: Map<SymbolKey, u32>,
}

impl Determinizer<'_> {
    fn group(&mut self, bodies: Vec<BodyId>) -> u32 {
        let fresh = self.groups.len() as u32;
        *self.group_ids.entry(bodies).or_insert_with(|| {
            self.groups.push(Group { outcomes: Map::default(), list: Vec::new(), symbols: Vec::new() });
            fresh
        })
    }

    /// The state of a set, with all that jumps reach.
    fn state(&mut self, group: u32, set: &[StateId]) -> Result<u32> {
        self.mark += 1;
        let (mark, from) = (self.mark, self.members.len());
        let mut stack = std::mem::take(&mut self.stack);
        let mut visit = |stack: &mut Vec<StateId>, s: StateId| {
            if self.live[s as usize] && self.marks[s as usize] != mark {
                self.marks[s as usize] = mark;
                stack.push(s);
            }
        };
        set.iter().for_each(|&s| visit(&mut stack, s));
        let mut seen = 0;
        while let Some(s) = stack.pop() {
            seen += 1;
            if !self.nfa.is_passage(s) {
                self.members.push(s);
            }
            self.nfa.jumps_of(s).for_each(|to| visit(&mut stack, to));
        }
        self.stack = stack;
        self.budget.spend(seen + 1)?;
        // The members lie behind all others already: they stay there if the set is new.
        let (before, own) = self.members.split_at_mut(from);
        own.sort_unstable();
        let hash = own.iter().fold(u64::from(group), |hash, &s| mix(hash, u64::from(s)));
        let last = self.ids.get(&hash).copied();
        let mut other = last;
        while let Some(id) = other {
            let known = &self.sets[id as usize];
            if known.group == group && before[known.from as usize..known.until as usize] == *own {
                self.members.truncate(from);
                return Ok(id);
            }
            other = known.other;
        }
        let id = self.sets.len() as u32;
        self.budget.check_states(self.sets.len())?;
        self.sets.push(Set { group, from: from as u32, until: self.members.len() as u32, other: last });
        self.ids.insert(hash, id);
        Ok(id)
    }

    /// Fills the row of a state.
    fn expand(&mut self, id: u32) -> Result<(), Stop> {
        let Set { group, from, until, .. } = self.sets[id as usize];
        let range = from as usize..until as usize;
        let mut actions = self.moves(group, range.clone())?;
        let set = &self.members[range.clone()];
        let mut ends: Vec<BodyId> = set.iter().filter_map(|&s| self.nfa.accepts(s)).collect();
        let mut calls: Vec<Call> =
            set.iter().flat_map(|&s| self.nfa.calls_of(s)).filter(|c| self.useful(c)).copied().collect();
        calls.sort_unstable_by_key(|c| (c.open, c.body, c.to));
        let mut rest = &calls[..];
        while let Some(first) = rest.first() {
            let n = rest.iter().take_while(|c| c.open == first.open).count();
            let (same, others) = rest.split_at(n);
            rest = others;
            let action = self.push(group, same)?;
            actions.push((first.open, first.open, action));
        }
        ends.sort_unstable();
        ends.dedup();
        let accepts = ends == [ROOT];
        if !accepts && !ends.is_empty() {
            let close = self.nfa.bodies[ends[0] as usize].close;
            actions.push((close, close, Action::Pop { outcome: self.outcome(group, ends)? }));
        }
        sort_few(&mut actions, |a| a.0);
        if let Some(pair) = actions.windows(2).find(|w| w[0].1 >= w[1].0) {
            let byte = char::from(pair[1].0);
            return Err(Error::new(
                ErrorKind::Ambiguous,
                format!("`{byte}` may begin a value and be part of another text at the same place"),
            )
            .into());
        }
        self.rows.push(Row { actions, accepts });
        Ok(())
    }

    fn useful(&self, call: &Call) -> bool {
        self.live[call.to as usize] && self.live[self.nfa.bodies[call.body as usize].start as usize]
    }

    /// The transitions of a set that neither push nor pop.
    fn moves(&mut self, group: u32, set: Range<usize>) -> Result<Vec<(u8, u8, Action)>, Stop> {
        let mut edges = std::mem::take(&mut self.edges);
        edges.clear();
        for &s in &self.members[set] {
            edges.extend(
                self.nfa.edges_of(s).filter(|e| self.live[e.to as usize]).map(|e| (e.lo, e.hi, e.to, e.effect)),
            );
        }
        let few = edges.len() <= FEW;
        if few {
            sort_few(&mut edges, |e| e.0);
        }
        let out = if few && edges.windows(2).all(|pair| pair[0].1 < pair[1].0) {
            self.single_moves(group, &edges)
        } else {
            self.shared_moves(group, &edges)
        };
        self.edges = edges;
        out
    }

    /// The transitions of edges that have no byte in common.
    fn single_moves(&mut self, group: u32, edges: &[(u8, u8, StateId, Effect)]) -> Result<Vec<(u8, u8, Action)>, Stop> {
        let mut out: Vec<(u8, u8, Action)> = Vec::new();
        self.budget.spend(edges.len())?;
        let mut last = None;
        for &(lo, hi, target, effect) in edges {
            let state = match last {
                Some((known, state)) if known == target => state,
                _ => self.state(group, &[target])?,
            };
            last = Some((target, state));
            add_move(&mut out, lo, hi, state, effect);
        }
        Ok(out)
    }

    /// The transitions of edges some of which are taken at once.
    fn shared_moves(&mut self, group: u32, edges: &[(u8, u8, StateId, Effect)]) -> Result<Vec<(u8, u8, Action)>, Stop> {
        let mut out: Vec<(u8, u8, Action)> = Vec::new();
        // Byte ranges within which all edges agree.
        let mut begins = [false; 257];
        for &(lo, hi, ..) in edges {
            begins[usize::from(lo)] = true;
            begins[usize::from(hi) + 1] = true;
        }
        let cuts: Vec<u16> = (0..257u16).filter(|&b| begins[usize::from(b)]).collect();
        let mut at = [0u16; 257];
        for (k, &cut) in cuts.iter().enumerate() {
            at[usize::from(cut)] = k as u16;
        }
        let mut to: Vec<(Vec<StateId>, [bool; 3])> = vec![(Vec::new(), [false; 3]); cuts.len()];
        for &(lo, hi, target, effect) in edges {
            let (from, until) = (usize::from(at[usize::from(lo)]), usize::from(at[usize::from(hi) + 1]));
            self.budget.spend(until - from)?;
            for (list, effects) in &mut to[from..until] {
                list.push(target);
                effects[effect as usize] = true;
            }
        }
        for (k, (mut targets, effects)) in to.into_iter().enumerate() {
            if targets.is_empty() {
                continue;
            }
            let effect = match effects {
                // White space that is also part of a text counts as text: only padding is bounded.
                [true, false, _] => Effect::None,
                [false, true, false] => Effect::Count,
                [false, false, true] => Effect::Space,
                _ => {
                    return Err(Error::new(
                        ErrorKind::Ambiguous,
                        "a byte is counted by one alternative and not by another",
                    )
                    .into());
                }
            };
            targets.sort_unstable();
            targets.dedup();
            let state = self.state(group, &targets)?;
            let (lo, hi) = (cuts[k] as u8, (cuts[k + 1] - 1) as u8);
            add_move(&mut out, lo, hi, state, effect);
        }
        Ok(out)
    }

    fn push(&mut self, caller: u32, calls: &[Call]) -> Result<Action, Stop> {
        let (min, max) = (calls[0].min, calls[0].max);
        if calls.iter().any(|c| (c.min, c.max) != (min, max)) {
            let bounded = calls.iter().filter(|c| (c.min, c.max) != (0, crate::nfa::UNBOUNDED));
            return Err(Stop::Unroll(bounded.map(|c| (c.body, c.min, c.max)).collect()));
        }
        let mut bodies: Vec<BodyId> = calls.iter().map(|c| c.body).collect();
        bodies.dedup();
        let starts: Vec<StateId> = bodies.iter().map(|&b| self.nfa.bodies[b as usize].start).collect();
        let into = self.group(bodies);
        let to = self.state(into, &starts)?;
        let mut returns: Vec<(BodyId, StateId)> = calls.iter().map(|c| (c.body, c.to)).collect();
        returns.dedup();
        let key = (caller, into, returns.clone(), min, max);
        if let Some(&symbol) = self.symbol_ids.get(&key) {
            return Ok(Action::Push { symbol, to });
        }
        let symbol = self.symbols.len() as u32;
        self.symbol_ids.insert(key, symbol);
        self.symbols.push(Symbol { returns: Vec::new(), min, max, calls: returns, group: caller });
        self.groups[into as usize].symbols.push(symbol);
        for outcome in self.groups[into as usize].list.clone() {
            self.link(symbol, &outcome)?;
        }
        Ok(Action::Push { symbol, to })
    }

    /// The number of an outcome; new ones are added to all symbols that may see them.
    fn outcome(&mut self, group: u32, bodies: Vec<BodyId>) -> Result<u32> {
        let own = &mut self.groups[group as usize];
        if let Some(&known) = own.outcomes.get(&bodies) {
            return Ok(known);
        }
        let fresh = own.list.len() as u32;
        own.outcomes.insert(bodies.clone(), fresh);
        own.list.push(bodies.clone());
        for symbol in own.symbols.clone() {
            self.link(symbol, &bodies)?;
        }
        Ok(fresh)
    }

    fn link(&mut self, symbol: u32, outcome: &[BodyId]) -> Result<()> {
        let Symbol { calls, group, .. } = &self.symbols[symbol as usize];
        let set: Vec<StateId> = calls.iter().filter(|c| outcome.binary_search(&c.0).is_ok()).map(|c| c.1).collect();
        let group = *group;
        let to = self.state(group, &set)?;
        self.symbols[symbol as usize].returns.push(to);
        Ok(())
    }
}
