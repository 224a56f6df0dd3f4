//! Numbers for lists of numbers: what the sets and tuples of automata are known by while these are made deterministic.

use crate::hash::{Map, mix};

/// All lists so far, one behind the other.
#[derive(Default)]
pub(crate) struct Interned {
    items: Vec<u32>,
    /// For each list where it ends, and the list before it that has the same hash.
    lists: Vec<(u32, Option<u32>)>,
    /// By hash, the last list that has it.
    ids: Map<u64, u32>,
}

impl Interned {
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    pub fn get(&self, id: u32) -> &[u32] {
        let from = id.checked_sub(1).map_or(0, |before| self.lists[before as usize].0);
        &self.items[from as usize..self.lists[id as usize].0 as usize]
    }

    /// The number of a list: the next one where it is new.
    pub fn add(&mut self, list: &[u32]) -> u32 {
        let hash = list.iter().fold(0, |hash, &x| mix(hash, u64::from(x)));
        let last = self.ids.get(&hash).copied();
        let mut other = last;
        while let Some(id) = other {
            if self.get(id) == list {
                return id;
            }
            other = self.lists[id as usize].1;
        }
        self.items.extend_from_slice(list);
        self.lists.push((self.items.len() as u32, last));
        let id = self.lists.len() as u32 - 1;
        self.ids.insert(hash, id);
        id
    }
}
