//! Partition refinement: which nodes of a graph behave alike. Minimises the automata of strings and the whole.
//!
//! Nodes begin in one class for each label. A node whose successors have changed their class is looked at again; where
//! the members of a class then differ, the largest part keeps the class's number, so that each node is moved at most
//! log n times (Hopcroft's argument, with signatures as in Valmari and Franceschinis, "Simple O(m log n) time Markov
//! chain lumping", 2010). Signatures are compared by their hash; when all is done, they are compared word by word once.

use std::collections::VecDeque;

use crate::budget::Budget;
use crate::error::Result;
use crate::hash::{Map, mix};

/// What a node does: its words as a hash, or as they are.
pub(crate) struct Signature {
    hash: u64,
    len: usize,
    words: Option<Vec<u64>>,
}

impl Signature {
    #[inline]
    pub fn add(&mut self, word: u64) {
        if let Some(words) = &mut self.words {
            words.push(word);
        } else {
            self.hash = mix(self.hash, word);
            self.len += 1;
        }
    }
}

/// Numbers of classes, one a node. `signature` adds what a node does, in terms of the classes that it is given; two
/// nodes whose labels and signatures are equal stay together. `successors` calls back with each node that a node's
/// signature depends on.
pub(crate) fn refine(
    labels: &[u32],
    successors: impl Fn(usize, &mut dyn FnMut(usize)),
    signature: impl Fn(usize, &[u32], &mut Signature),
    budget: &Budget,
) -> Result<(Vec<u32>, usize)> {
    let predecessors = Predecessors::new(labels.len(), &successors);
    let mut seed = 0;
    loop {
        let mut partition = Partition::new(labels);
        partition.refine(&predecessors, &signature, seed, budget)?;
        budget.spend(labels.len())?;
        if partition.agrees(&signature) {
            return Ok((partition.class, partition.parts.len()));
        }
        // Two signatures have had one hash.
        seed += 1;
    }
}

/// A class: a part of the list of nodes, in front of it those that have to be looked at again.
struct Part {
    from: u32,
    until: u32,
    marked: u32,
}

struct Partition {
    /// All nodes, those of a class beside each other.
    nodes: Vec<u32>,
    /// Each node's index in `nodes`.
    place: Vec<u32>,
    class: Vec<u32>,
    parts: Vec<Part>,
    /// Classes that have marked nodes.
    queue: VecDeque<u32>,
}

impl Partition {
    fn new(labels: &[u32]) -> Self {
        let n = labels.len();
        let mut ids: Map<u32, u32> = Map::default();
        let mut parts: Vec<Part> = Vec::new();
        let mut class = vec![0; n];
        for (node, label) in labels.iter().enumerate() {
            let id = *ids.entry(*label).or_insert_with(|| {
                parts.push(Part { from: 0, until: 0, marked: 0 });
                parts.len() as u32 - 1
            });
            class[node] = id;
            parts[id as usize].marked += 1;
        }
        let mut at = 0;
        for part in &mut parts {
            (part.from, part.until) = (at, at);
            at += part.marked;
        }
        let (mut nodes, mut place) = (vec![0; n], vec![0; n]);
        for node in 0..n {
            let part = &mut parts[class[node] as usize];
            nodes[part.until as usize] = node as u32;
            place[node] = part.until;
            part.until += 1;
        }
        let queue = (0..parts.len() as u32).collect();
        Self { nodes, place, class, parts, queue }
    }

    fn refine(
        &mut self,
        predecessors: &Predecessors,
        signature: &impl Fn(usize, &[u32], &mut Signature),
        seed: u64,
        budget: &Budget,
    ) -> Result<()> {
        let mut found: Vec<(u64, u32)> = Vec::new();
        while let Some(id) = self.queue.pop_front() {
            let Part { from, until, marked } = self.parts[id as usize];
            self.parts[id as usize].marked = 0;
            if until - from == 1 {
                budget.spend(1)?;
                continue;
            }
            let mut work = 1;
            let mut hash = |node: u32, class: &[u32]| {
                let mut key = Signature { hash: seed, len: 0, words: None };
                signature(node as usize, class, &mut key);
                work += key.len / 2 + 1;
                key.hash
            };
            found.clear();
            found.extend(
                self.nodes[from as usize..(from + marked) as usize].iter().map(|&node| (hash(node, &self.class), node)),
            );
            // Unmarked members still agree with each other: one signature stands for all.
            let rest = self
                .nodes
                .get((from + marked) as usize)
                .filter(|_| from + marked < until)
                .map(|&node| hash(node, &self.class));
            budget.spend(work)?;
            let first = rest.unwrap_or(found[0].0);
            if found.iter().all(|f| f.0 == first) {
                continue;
            }
            // Unmarked members come last, beside the marked ones that agree with them.
            found.sort_unstable_by_key(|f| (Some(f.0) == rest, f.0));
            for (&(_, node), at) in found.iter().zip(from..) {
                self.nodes[at as usize] = node;
                self.place[node as usize] = at;
            }
            let mut cuts: Vec<u32> = vec![from];
            cuts.extend(found.windows(2).zip(from + 1..).filter(|(pair, _)| pair[0].0 != pair[1].0).map(|(_, at)| at));
            if rest.is_some_and(|rest| found.last().is_some_and(|f| f.0 != rest)) {
                cuts.push(from + marked);
            }
            cuts.push(until);
            let largest = (0..cuts.len() - 1).max_by_key(|&i| cuts[i + 1] - cuts[i]).unwrap_or(0);
            (self.parts[id as usize].from, self.parts[id as usize].until) = (cuts[largest], cuts[largest + 1]);
            let before = self.parts.len() as u32;
            for (_, cut) in cuts.windows(2).enumerate().filter(|c| c.0 != largest) {
                let fresh = self.parts.len() as u32;
                self.parts.push(Part { from: cut[0], until: cut[1], marked: 0 });
                for at in cut[0]..cut[1] {
                    self.class[self.nodes[at as usize] as usize] = fresh;
                }
            }
            for fresh in before..self.parts.len() as u32 {
                // Marking moves nodes within their classes: they are found by their number in a list of its own.
                let Part { from, until, .. } = self.parts[fresh as usize];
                found.clear();
                found.extend(self.nodes[from as usize..until as usize].iter().map(|&node| (0, node)));
                for &(_, node) in &found {
                    for &to in predecessors.of(node as usize) {
                        self.mark(to);
                    }
                }
            }
        }
        Ok(())
    }

    fn mark(&mut self, node: u32) {
        let id = self.class[node as usize];
        let part = &mut self.parts[id as usize];
        let (at, to) = (self.place[node as usize], part.from + part.marked);
        if at < to {
            return;
        }
        if part.marked == 0 {
            self.queue.push_back(id);
        }
        part.marked += 1;
        let other = self.nodes[to as usize];
        self.nodes.swap(at as usize, to as usize);
        self.place[other as usize] = at;
        self.place[node as usize] = to;
    }

    /// Whether the members of each class do exactly the same.
    fn agrees(&self, signature: &impl Fn(usize, &[u32], &mut Signature)) -> bool {
        let words = |node: u32, words: Vec<u64>| {
            let mut key = Signature { hash: 0, len: 0, words: Some(words) };
            signature(node as usize, &self.class, &mut key);
            key.words.unwrap_or_default()
        };
        let (mut first, mut other) = (Vec::new(), Vec::new());
        self.parts.iter().filter(|part| part.until - part.from > 1).all(|part| {
            let members = &self.nodes[part.from as usize..part.until as usize];
            first.clear();
            first = words(members[0], std::mem::take(&mut first));
            members[1..].iter().all(|&node| {
                other.clear();
                other = words(node, std::mem::take(&mut other));
                first == other
            })
        })
    }
}

/// The edges backwards, in one array.
struct Predecessors {
    start: Vec<u32>,
    list: Vec<u32>,
}

impl Predecessors {
    fn new(n: usize, successors: &impl Fn(usize, &mut dyn FnMut(usize))) -> Self {
        let mut start = vec![0u32; n + 1];
        for node in 0..n {
            successors(node, &mut |to| start[to + 1] += 1);
        }
        for i in 0..n {
            start[i + 1] += start[i];
        }
        let mut at = start.clone();
        let mut list = vec![0; start[n] as usize];
        for node in 0..n {
            successors(node, &mut |to| {
                list[at[to] as usize] = node as u32;
                at[to] += 1;
            });
        }
        Self { start, list }
    }

    fn of(&self, node: usize) -> &[u32] {
        &self.list[self.start[node] as usize..self.start[node + 1] as usize]
    }
}
