//! Deterministic automata over code points: the languages of strings and of numbers' text. Small, so that they are
//! intersected, complemented and compared exactly before anything becomes bytes.

use crate::budget::Budget;
use crate::chars::{CharSet, MAX_CHAR};
use crate::error::Result;
use crate::hash::Map;
use crate::intern::Interned;
use crate::refine::refine;

/// A transition on the code points from `lo` to `hi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Arc {
    pub lo: u32,
    pub hi: u32,
    pub to: u32,
}

/// State 0 is the start. Arcs of a state are sorted and disjoint; a code point without one is refused. A tag says what
/// is accepted in a state: 0 nothing, 1 where there is only one language.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dfa {
    pub arcs: Vec<Vec<Arc>>,
    pub tags: Vec<u32>,
}

impl Dfa {
    /// No string at all.
    pub fn empty() -> Self {
        Self { arcs: vec![Vec::new()], tags: vec![0] }
    }

    /// Every string.
    pub fn any() -> Self {
        Self { arcs: vec![vec![Arc { lo: 0, hi: MAX_CHAR, to: 0 }]], tags: vec![1] }
    }

    pub fn is_empty(&self) -> bool {
        self.tags.iter().all(|&t| t == 0)
    }

    pub fn is_any(&self) -> bool {
        *self == Self::any()
    }

    /// Exactly these strings, as a tree of their beginnings.
    pub fn strings<'a>(mut list: impl Iterator<Item = &'a str>, budget: &Budget) -> Result<Self> {
        Self::tree(&mut list, budget)
    }

    fn tree(list: &mut dyn Iterator<Item = &str>, budget: &Budget) -> Result<Self> {
        let mut dfa = Self::empty();
        for text in list {
            let mut at = 0;
            for c in text.chars() {
                let c = c as u32;
                at = match dfa.arcs[at].binary_search_by_key(&c, |a| a.lo) {
                    Ok(i) => dfa.arcs[at][i].to as usize,
                    Err(i) => {
                        let to = dfa.arcs.len();
                        dfa.arcs[at].insert(i, Arc { lo: c, hi: c, to: to as u32 });
                        dfa.arcs.push(Vec::new());
                        dfa.tags.push(0);
                        budget.spend(4)?;
                        to
                    }
                };
            }
            budget.check_states(dfa.arcs.len())?;
            dfa.tags[at] = 1;
        }
        dfa.minimised(budget)
    }

    /// Every string of `min` to `max` code points, up to any length where `max` is `None`.
    pub fn lengths(min: u32, max: Option<u32>, budget: &Budget) -> Result<Self> {
        Self::repeated(&CharSet::any(), min, max, budget)
    }

    /// Every string of `min` to `max` code points of a set, up to any length where `max` is `None`.
    pub fn repeated(set: &CharSet, min: u32, max: Option<u32>, budget: &Budget) -> Result<Self> {
        let last = max.unwrap_or(min) as usize;
        budget.check_states(last)?;
        budget.spend((last + 1) * set.0.len())?;
        let mut dfa = Self { arcs: Vec::with_capacity(last + 1), tags: Vec::with_capacity(last + 1) };
        for n in 0..=last {
            let to = if n < last { Some(n + 1) } else { max.is_none().then_some(n) };
            let arcs = to.map(|to| set.0.iter().map(move |&(lo, hi)| Arc { lo, hi, to: to as u32 }));
            dfa.arcs.push(arcs.into_iter().flatten().collect());
            dfa.tags.push(u32::from(n >= min as usize));
        }
        Ok(dfa)
    }

    /// What [`Dfa::repeated`] made it of, where it is such an automaton and minimised: the set, the least and the most.
    pub fn as_repeated(&self) -> Option<(CharSet, u32, Option<u32>)> {
        let set: Vec<(u32, u32)> = self.arcs[0].iter().map(|a| (a.lo, a.hi)).collect();
        let last = self.arcs.len() - 1;
        let leads = |arcs: &[Arc], to: usize| {
            arcs.len() == set.len() && arcs.iter().zip(&set).all(|(a, &c)| (a.lo, a.hi) == c && a.to as usize == to)
        };
        let chain = (0..last).all(|n| leads(&self.arcs[n], n + 1));
        let ends = self.arcs[last].is_empty();
        let min = self.tags.iter().position(|&tag| tag != 0)?;
        let right = chain && (ends || leads(&self.arcs[last], last)) && !self.tags[min..].contains(&0);
        right.then(|| (CharSet(set), min as u32, ends.then_some(last as u32)))
    }

    /// The state behind a code point.
    pub fn step(&self, state: u32, c: u32) -> Option<u32> {
        let row = &self.arcs[state as usize];
        let i = row.partition_point(|a| a.hi < c);
        row.get(i).filter(|a| a.lo <= c).map(|a| a.to)
    }

    /// The tag of a string.
    pub fn tag(&self, text: &str) -> u32 {
        let mut at = 0;
        for c in text.chars() {
            match self.step(at, c as u32) {
                Some(to) => at = to,
                None => return 0,
            }
        }
        self.tags[at as usize]
    }

    pub fn accepts(&self, text: &str) -> bool {
        self.tag(text) != 0
    }

    /// Strings that all of `list` accept.
    pub fn intersection(list: &[&Self], budget: &Budget) -> Result<Self> {
        match list {
            [] => Ok(Self::any()),
            [one] => Ok((*one).clone()),
            _ => Self::product(list, true, &mut |tags| u32::from(tags.iter().all(|&t| t != 0)), budget),
        }
    }

    /// Strings that any of `list` accepts.
    pub fn union(list: &[&Self], budget: &Budget) -> Result<Self> {
        match list {
            [] => Ok(Self::empty()),
            [one] => Ok((*one).clone()),
            _ => Self::product(list, false, &mut |tags| u32::from(tags.iter().any(|&t| t != 0)), budget),
        }
    }

    /// Strings that it does not accept.
    pub fn complement(&self, budget: &Budget) -> Result<Self> {
        Self::product(&[self], false, &mut |tags| u32::from(tags[0] == 0), budget)
    }

    /// Runs all of `list` side by side. `tag` says what a tuple of their tags is; `all` leaves out what one of them
    /// refuses for good.
    pub fn product(list: &[&Self], all: bool, tag: &mut dyn FnMut(&[u32]) -> u32, budget: &Budget) -> Result<Self> {
        const DEAD: u32 = u32::MAX;
        let mut tuples = Interned::default();
        tuples.add(&vec![0; list.len()]);
        let mut out = Self { arcs: Vec::new(), tags: Vec::new() };
        let mut tags = vec![0; list.len()];
        let mut to = vec![0; list.len()];
        while out.arcs.len() < tuples.len() {
            let tuple = tuples.get(out.arcs.len() as u32);
            let mut rows: Vec<&[Arc]> = Vec::with_capacity(list.len());
            for ((&s, d), tag) in tuple.iter().zip(list).zip(&mut tags) {
                *tag = if s == DEAD { 0 } else { d.tags[s as usize] };
                rows.push(if s == DEAD { &[] } else { &d.arcs[s as usize] });
            }
            out.tags.push(tag(&tags));
            let mut arcs: Vec<Arc> = Vec::new();
            let mut lo = 0;
            // Up to the next code point from which one of them does something else.
            while lo <= MAX_CHAR {
                let mut hi = MAX_CHAR;
                for (row, to) in rows.iter_mut().zip(&mut to) {
                    while row.first().is_some_and(|a| a.hi < lo) {
                        *row = &row[1..];
                    }
                    *to = match row.first() {
                        Some(a) if a.lo <= lo => {
                            hi = hi.min(a.hi);
                            a.to
                        }
                        Some(a) => {
                            hi = hi.min(a.lo - 1);
                            DEAD
                        }
                        None => DEAD,
                    };
                }
                budget.spend(list.len())?;
                if !all || !to.contains(&DEAD) {
                    let id = tuples.add(&to);
                    push(&mut arcs, Arc { lo, hi, to: id });
                }
                lo = hi + 1;
            }
            budget.spend(4)?;
            budget.check_states(tuples.len())?;
            out.arcs.push(arcs);
        }
        out.minimised(budget)
    }

    /// The smallest automaton of the same tags: what reaches no tag goes, what behaves alike becomes one.
    pub fn minimised(&self, budget: &Budget) -> Result<Self> {
        let n = self.arcs.len();
        let live = self.live();
        if !live[0] {
            return Ok(Self::empty());
        }
        // Node n stands for every state that leads nowhere.
        let (class, _) = refine(
            &self.tags,
            |node, f| self.arcs[node].iter().filter(|a| live[a.to as usize]).for_each(|a| f(a.to as usize)),
            |node, class, key| {
                let mut last: Option<(u32, u32, u32)> = None;
                let mut add = |(lo, hi, to): (u32, u32, u32)| {
                    key.add(u64::from(lo) << 32 | u64::from(hi));
                    key.add(u64::from(to));
                };
                for a in self.arcs[node].iter().filter(|a| live[a.to as usize]) {
                    let to = class[a.to as usize];
                    match &mut last {
                        Some(l) if l.1 + 1 == a.lo && l.2 == to => l.1 = a.hi,
                        _ => last.replace((a.lo, a.hi, to)).into_iter().for_each(&mut add),
                    }
                }
                last.into_iter().for_each(add);
            },
            budget,
        )?;
        // Numbered in the order in which they are reached, so that equal languages are equal values.
        let mut number: Map<u32, u32> = Map::default();
        number.insert(class[0], 0);
        let mut order = vec![0usize];
        let mut out = Self { arcs: Vec::new(), tags: Vec::new() };
        let mut next = 0;
        debug_assert!(n > 0);
        while next < order.len() {
            let state = order[next];
            next += 1;
            let mut arcs = Vec::new();
            for a in self.arcs[state].iter().filter(|a| live[a.to as usize]) {
                let fresh = number.len() as u32;
                let to = *number.entry(class[a.to as usize]).or_insert_with(|| {
                    order.push(a.to as usize);
                    fresh
                });
                push(&mut arcs, Arc { to, ..*a });
            }
            out.arcs.push(arcs);
            out.tags.push(self.tags[state]);
        }
        Ok(out)
    }

    /// Which states reach a tag.
    fn live(&self) -> Vec<bool> {
        let n = self.arcs.len();
        let mut back = vec![Vec::new(); n];
        for (from, arcs) in self.arcs.iter().enumerate() {
            for a in arcs {
                back[a.to as usize].push(from);
            }
        }
        let mut live: Vec<bool> = self.tags.iter().map(|&t| t != 0).collect();
        let mut queue: Vec<usize> = (0..n).filter(|&i| live[i]).collect();
        while let Some(state) = queue.pop() {
            for &from in &back[state] {
                if !live[from] {
                    live[from] = true;
                    queue.push(from);
                }
            }
        }
        live
    }

    /// All accepted strings; `None` where there are more than `most`. Of an automaton that is minimised.
    pub fn words(&self, most: usize) -> Option<Vec<String>> {
        if self.is_empty() {
            return Some(Vec::new());
        }
        self.span().1?;
        let mut out = Vec::new();
        let mut stack = vec![(0, String::new())];
        while let Some((state, text)) = stack.pop() {
            if self.tags[state as usize] != 0 {
                out.push(text.clone());
            }
            // Every state is live: what waits will be a string or more.
            for arc in self.arcs[state as usize].iter().rev() {
                if out.len() + stack.len() + (arc.hi - arc.lo) as usize > most {
                    return None;
                }
                for c in (arc.lo..=arc.hi).rev().filter_map(char::from_u32) {
                    let mut longer = text.clone();
                    longer.push(c);
                    stack.push((arc.to, longer));
                }
            }
        }
        (out.len() <= most).then_some(out)
    }

    /// The least and the greatest number of code points in an accepted string; `None` where there is no greatest. Of an
    /// automaton that is minimised and not empty.
    pub fn span(&self) -> (u32, Option<u32>) {
        let n = self.arcs.len();
        let mut depth = vec![u32::MAX; n];
        depth[0] = 0;
        let mut queue = vec![0usize];
        let mut next = 0;
        let mut least = u32::MAX;
        while next < queue.len() {
            let state = queue[next];
            next += 1;
            if self.tags[state] != 0 {
                least = least.min(depth[state]);
            }
            for a in &self.arcs[state] {
                if depth[a.to as usize] == u32::MAX {
                    depth[a.to as usize] = depth[state] + 1;
                    queue.push(a.to as usize);
                }
            }
        }
        // Every state is live, so a cycle means that there is no longest string: the order of Kahn then does not come
        // to its end.
        let mut incoming = vec![0u32; n];
        self.arcs.iter().flatten().for_each(|a| incoming[a.to as usize] += 1);
        let mut longest = vec![0u32; n];
        let mut ready: Vec<usize> = (0..n).filter(|&i| incoming[i] == 0).collect();
        let mut done = 0;
        let mut most = 0;
        while let Some(state) = ready.pop() {
            done += 1;
            if self.tags[state] != 0 {
                most = most.max(longest[state]);
            }
            for a in &self.arcs[state] {
                let to = a.to as usize;
                longest[to] = longest[to].max(longest[state] + 1);
                incoming[to] -= 1;
                if incoming[to] == 0 {
                    ready.push(to);
                }
            }
        }
        (least, (done == n).then_some(most))
    }
}

/// Appends an arc, or widens the last one.
fn push(arcs: &mut Vec<Arc>, arc: Arc) {
    match arcs.last_mut() {
        Some(last) if last.hi + 1 == arc.lo && last.to == arc.to => last.hi = arc.hi,
        _ => arcs.push(arc),
    }
}
