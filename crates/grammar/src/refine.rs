//! Partition refinement: which nodes of a graph behave alike. Minimises the automata of strings and the whole.
//!
//! Nodes begin in one class for each label. A node whose successors have changed their class is looked at again; where the members of a class then
//! differ, the largest part keeps the class's number, so that each node is moved at most log n times (Hopcroft's argument, with signatures as in
//! Valmari and Franceschinis, "Simple O(m log n) time Markov chain lumping", 2010).

use crate::budget::Budget;
use crate::error::Result;
use crate::hash::Map;

/// Numbers of classes, one a node. `signature` appends what a node does, in terms of the classes that it is given; two nodes whose labels and signatures
/// are equal stay together. `successors` calls back with each node that a node's signature depends on.
pub(crate) fn refine(
    labels: &[u32],
    successors: impl Fn(usize, &mut dyn FnMut(usize)),
    signature: impl Fn(usize, &[u32], &mut Vec<u64>),
    budget: &Budget,
) -> Result<(Vec<u32>, usize)> {
    let n = labels.len();
    let predecessors = Predecessors::new(n, &successors);
    let mut class = vec![0u32; n];
    let mut members: Vec<Vec<u32>> = Vec::new();
    let mut ids: Map<u32, u32> = Map::default();
    for (node, label) in labels.iter().enumerate() {
        let id = *ids.entry(*label).or_insert_with(|| {
            members.push(Vec::new());
            members.len() as u32 - 1
        });
        class[node] = id;
        members[id as usize].push(node as u32);
    }
    let mut dirty = vec![true; n];
    let mut queue: Vec<u32> = (0..n as u32).collect();
    let mut key = Vec::new();
    while !queue.is_empty() {
        let mut touched: Vec<u32> = queue.iter().map(|&node| class[node as usize]).collect();
        touched.sort_unstable();
        touched.dedup();
        let round = std::mem::take(&mut queue);
        // Classes are split by what they were at the beginning of the round: what changes within it makes nodes dirty again.
        let mut splits: Vec<(u32, Vec<Vec<u32>>)> = Vec::new();
        for id in touched {
            let list = &members[id as usize];
            budget.spend(list.len())?;
            if list.len() == 1 {
                continue;
            }
            let mut groups: Map<Vec<u64>, usize> = Map::default();
            let mut parts: Vec<Vec<u32>> = Vec::new();
            // Those that nothing has happened to still agree with each other: one speaks for all.
            let mut clean = None;
            for &node in list {
                if let Some(part) = clean.filter(|_| !dirty[node as usize]) {
                    let part: &mut Vec<u32> = &mut parts[part];
                    part.push(node);
                    continue;
                }
                key.clear();
                signature(node as usize, &class, &mut key);
                budget.spend(key.len() / 2 + 1)?;
                let part = match groups.get(&key) {
                    Some(&part) => part,
                    None => {
                        groups.insert(key.clone(), parts.len());
                        parts.push(Vec::new());
                        parts.len() - 1
                    }
                };
                parts[part].push(node);
                if !dirty[node as usize] {
                    clean = Some(part);
                }
            }
            if parts.len() > 1 {
                splits.push((id, parts));
            }
        }
        for node in round {
            dirty[node as usize] = false;
        }
        for (id, mut parts) in splits {
            let largest = (0..parts.len()).max_by_key(|&i| parts[i].len()).unwrap_or(0);
            members[id as usize] = parts.swap_remove(largest);
            for part in parts {
                let fresh = members.len() as u32;
                for &node in &part {
                    class[node as usize] = fresh;
                    for &from in predecessors.of(node as usize) {
                        if !dirty[from as usize] {
                            dirty[from as usize] = true;
                            queue.push(from);
                        }
                    }
                }
                members.push(part);
            }
        }
    }
    Ok((class, members.len()))
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
