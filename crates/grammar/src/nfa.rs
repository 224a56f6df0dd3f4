//! The automaton before it is deterministic: states with edges on bytes, and calls, which read a body between an
//! opening and a closing byte.

use std::rc::Rc;

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Result};

pub(crate) type StateId = u32;
pub(crate) type BodyId = u32;

/// The whole text, as what ends in a state.
pub(crate) const ROOT: BodyId = u32::MAX - 1;
const NOTHING: BodyId = u32::MAX;
const END: u32 = u32::MAX;
/// No upper bound of a counter.
pub(crate) const UNBOUNDED: u32 = u32::MAX;

/// What an edge does beside leading on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    None,
    /// Adds one to the counter of the body.
    Count,
    /// Is white space that says nothing.
    Space,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub lo: u8,
    pub hi: u8,
    pub effect: Effect,
    pub to: StateId,
    next: u32,
}

/// Reads `open`, then the body, then the body's closing byte, and goes on at `to`. The body's counter ends between
/// `min` and `max`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub open: u8,
    pub body: BodyId,
    pub to: StateId,
    pub min: u32,
    pub max: u32,
    next: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Body {
    pub close: u8,
    pub start: StateId,
}

#[derive(Debug, Clone, Copy)]
struct State {
    jumps: u32,
    edges: u32,
    calls: u32,
    accepts: BodyId,
}

pub(crate) struct Nfa {
    budget: Rc<Budget>,
    states: Vec<State>,
    jumps: Vec<(StateId, u32)>,
    edges: Vec<Edge>,
    calls: Vec<Call>,
    pub bodies: Vec<Body>,
}

impl Nfa {
    pub fn new(budget: Rc<Budget>) -> Self {
        Self { budget, states: Vec::new(), jumps: Vec::new(), edges: Vec::new(), calls: Vec::new(), bodies: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn state(&mut self) -> Result<StateId> {
        self.budget.spend(4)?;
        if self.states.len() >= 3 * self.budget.limits.states {
            return Err(Error::new(ErrorKind::TooLarge, "it needs too many states"));
        }
        self.states.push(State { jumps: END, edges: END, calls: END, accepts: NOTHING });
        Ok(self.states.len() as StateId - 1)
    }

    pub fn jump(&mut self, from: StateId, to: StateId) {
        let head = &mut self.states[from as usize].jumps;
        self.jumps.push((to, *head));
        *head = self.jumps.len() as u32 - 1;
    }

    pub fn edge(&mut self, from: StateId, lo: u8, hi: u8, effect: Effect, to: StateId) {
        let head = &mut self.states[from as usize].edges;
        self.edges.push(Edge { lo, hi, effect, to, next: *head });
        *head = self.edges.len() as u32 - 1;
    }

    /// An edge to a state of its own.
    pub fn byte(&mut self, from: StateId, byte: u8, effect: Effect) -> Result<StateId> {
        let to = self.state()?;
        self.edge(from, byte, byte, effect, to);
        Ok(to)
    }

    /// The bytes in sequence.
    pub fn literal(&mut self, from: StateId, bytes: &[u8]) -> Result<StateId> {
        bytes.iter().try_fold(from, |at, &b| self.byte(at, b, Effect::None))
    }

    pub fn call(&mut self, from: StateId, open: u8, body: BodyId, (min, max): (u32, u32), to: StateId) {
        let head = &mut self.states[from as usize].calls;
        self.calls.push(Call { open, body, to, min, max, next: *head });
        *head = self.calls.len() as u32 - 1;
    }

    pub fn accept(&mut self, state: StateId, body: BodyId) -> Result<()> {
        // A state of its own, since another body may end where this one does.
        let end = self.state()?;
        self.jump(state, end);
        self.states[end as usize].accepts = body;
        Ok(())
    }

    pub fn accepts(&self, state: StateId) -> Option<BodyId> {
        Some(self.states[state as usize].accepts).filter(|&b| b != NOTHING)
    }

    pub fn jumps_of(&self, state: StateId) -> impl Iterator<Item = StateId> {
        let mut at = self.states[state as usize].jumps;
        std::iter::from_fn(move || {
            let &(to, next) = self.jumps.get(at as usize)?;
            at = next;
            Some(to)
        })
    }

    pub fn edges_of(&self, state: StateId) -> impl Iterator<Item = &Edge> {
        let mut at = self.states[state as usize].edges;
        std::iter::from_fn(move || {
            let edge = self.edges.get(at as usize)?;
            at = edge.next;
            Some(edge)
        })
    }

    pub fn calls_of(&self, state: StateId) -> impl Iterator<Item = &Call> {
        let mut at = self.states[state as usize].calls;
        std::iter::from_fn(move || {
            let call = self.calls.get(at as usize)?;
            at = call.next;
            Some(call)
        })
    }

    /// Whether only jumps leave the state, so that a set of states does not need it.
    pub fn is_passage(&self, state: StateId) -> bool {
        let s = &self.states[state as usize];
        s.edges == END && s.calls == END && s.accepts == NOTHING
    }

    /// Which states reach the end of their body. A call helps only where its own body has an end: the least fixpoint,
    /// found from the ends backwards. What is built of these states alone can always be finished.
    pub fn live(&self) -> Result<Vec<bool>> {
        let n = self.states.len();
        // What leads to each state, in one array.
        let ways = |f: &mut dyn FnMut(StateId, StateId, BodyId)| {
            for from in 0..n as StateId {
                self.jumps_of(from).for_each(|to| f(from, to, NOTHING));
                self.edges_of(from).for_each(|e| f(from, e.to, NOTHING));
                self.calls_of(from).for_each(|c| f(from, c.to, c.body));
            }
        };
        let mut first = vec![0u32; n + 2];
        ways(&mut |_, to, _| first[to as usize + 2] += 1);
        for i in 2..n + 2 {
            first[i] += first[i - 1];
        }
        let mut back = vec![(0, NOTHING); first[n + 1] as usize];
        ways(&mut |from, to, body| {
            back[first[to as usize + 1] as usize] = (from, body);
            first[to as usize + 1] += 1;
        });
        self.budget.spend(n + self.edges.len() + self.jumps.len() + self.calls.len())?;
        let mut starts: Vec<(StateId, BodyId)> =
            self.bodies.iter().zip(0..).map(|(body, id)| (body.start, id)).collect();
        starts.sort_unstable();
        let mut live = vec![false; n];
        let mut ends = vec![false; self.bodies.len()];
        let mut waiting: Vec<Vec<StateId>> = vec![Vec::new(); self.bodies.len()];
        let mut queue: Vec<StateId> = (0..n as StateId).filter(|&s| self.accepts(s).is_some()).collect();
        queue.iter().for_each(|&s| live[s as usize] = true);
        let reach = |live: &mut Vec<bool>, queue: &mut Vec<StateId>, s: StateId| {
            if !std::mem::replace(&mut live[s as usize], true) {
                queue.push(s);
            }
        };
        while let Some(state) = queue.pop() {
            for &(from, body) in &back[first[state as usize] as usize..first[state as usize + 1] as usize] {
                if body == NOTHING || ends[body as usize] {
                    reach(&mut live, &mut queue, from);
                } else {
                    waiting[body as usize].push(from);
                }
            }
            let own = starts.partition_point(|s| s.0 < state);
            for &(_, body) in starts[own..].iter().take_while(|s| s.0 == state) {
                ends[body as usize] = true;
                for from in std::mem::take(&mut waiting[body as usize]) {
                    reach(&mut live, &mut queue, from);
                }
            }
        }
        Ok(live)
    }
}
