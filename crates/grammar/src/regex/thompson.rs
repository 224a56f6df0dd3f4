//! From the syntax tree to a deterministic automaton: Thompson's construction, then sets of its states.

use super::parse::{Ast, words};
use crate::budget::Budget;
use crate::chars::{CharSet, MAX_CHAR};
use crate::dfa::{Arc, Dfa};
use crate::error::{Error, ErrorKind, Result};
use crate::intern::Interned;

/// Times that a group with a lookaround in it is repeated.
const MAX_LOOKS: u32 = 8;

/// What may stand around a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchors {
    /// Any text on both sides.
    Anywhere,
    /// Nothing.
    Whole,
    /// Any text behind it.
    AtStart,
    /// Any text before it.
    AtEnd,
}

pub(crate) fn compile(ast: &Ast, anchors: Anchors, budget: &Budget) -> Result<Dfa> {
    if let Some((set, min, max)) = repeated(ast, anchors) {
        return Dfa::repeated(set, min, max, budget);
    }
    let branches = branches(ast);
    if has(ast, &|ast| matches!(ast, Ast::Boundary(_))) && has_look(ast) {
        return Err(Error::new(ErrorKind::Unsupported, "a word boundary beside a lookaround"));
    }
    if !branches.iter().any(|b| has_look(b)) {
        return Nfa::new(budget).determinised(ast, anchors);
    }
    // Lookaround where a branch begins or ends is another condition on the whole text.
    let parts = branches.into_iter().map(|branch| conditions(branch, anchors, budget)).collect::<Result<Vec<_>>>()?;
    Dfa::union(&parts.iter().collect::<Vec<_>>(), budget)
}

/// The set, the least and the most of a set's repetition that is the whole text: `^[…]{2,50}$`. It may be of many
/// ranges and long, and is an automaton as it stands.
fn repeated(ast: &Ast, anchors: Anchors) -> Option<(&CharSet, u32, Option<u32>)> {
    let Ast::Concat(list) = ast else { return None };
    let repeat = match &list[..] {
        [Ast::Start, repeat, Ast::End] if matches!(anchors, Anchors::Anywhere | Anchors::Whole) => repeat,
        [repeat] if anchors == Anchors::Whole => repeat,
        _ => return None,
    };
    match repeat {
        Ast::Repeat { of, min, max } if max.is_none_or(|max| max >= *min) => match &**of {
            Ast::Set(set) if !set.0.is_empty() => Some((set, *min, *max)),
            _ => None,
        },
        _ => None,
    }
}

/// The outermost alternatives.
fn branches(ast: &Ast) -> Vec<&Ast> {
    match ast {
        Ast::Alternate(list) => list.iter().flat_map(branches).collect(),
        Ast::Concat(list) if list.len() == 1 && matches!(list[0], Ast::Alternate(_) | Ast::Concat(_)) => {
            branches(&list[0])
        }
        _ => vec![ast],
    }
}

/// Whether a part is of a kind.
fn has(ast: &Ast, kind: &dyn Fn(&Ast) -> bool) -> bool {
    kind(ast)
        || match ast {
            Ast::Concat(list) | Ast::Alternate(list) => list.iter().any(|part| has(part, kind)),
            Ast::Repeat { of, .. } | Ast::Look { of, .. } => has(of, kind),
            _ => false,
        }
}

fn has_look(ast: &Ast) -> bool {
    has(ast, &|ast| matches!(ast, Ast::Look { .. }))
}

fn has_start(ast: &Ast) -> bool {
    has(ast, &|ast| *ast == Ast::Start)
}

fn conditions(branch: &Ast, anchors: Anchors, budget: &Budget) -> Result<Dfa> {
    let one = std::slice::from_ref(branch);
    let mut list = if let Ast::Concat(list) = branch { &list[..] } else { one };
    let (mut start, mut end) =
        (matches!(anchors, Anchors::Whole | Anchors::AtStart), matches!(anchors, Anchors::Whole | Anchors::AtEnd));
    let mut parts = Vec::new();
    loop {
        match list {
            [Ast::Start, rest @ ..] => (start, list) = (true, rest),
            // What stands at the beginning of the text knows where that is.
            [Ast::Look { of, ahead: true, negative }, rest @ ..] if start => {
                parts.push(looked(of, Anchors::AtStart, *negative, budget)?);
                list = rest;
            }
            _ => break,
        }
    }
    loop {
        match list {
            [rest @ .., Ast::End] => (end, list) = (true, rest),
            [rest @ .., Ast::Look { of, ahead: false, negative }] if end => {
                parts.push(looked(of, Anchors::AtEnd, *negative, budget)?);
                list = rest;
            }
            _ => break,
        }
    }
    if list.iter().any(has_look) && list.iter().any(has_start) {
        return Err(Error::new(ErrorKind::Unsupported, "`^` in or behind a lookaround"));
    }
    let text = Ast::Repeat { of: Box::new(Ast::Set(CharSet::any())), min: 0, max: None };
    let mut kept = list.to_vec();
    if !start {
        kept.insert(0, text);
    }
    let rest = if end { Dfa::strings(std::iter::once(""), budget)? } else { Dfa::any() };
    parts.push(ahead(&kept, rest, budget)?);
    Dfa::intersection(&parts.iter().collect::<Vec<_>>(), budget)
}

fn looked(of: &Ast, anchors: Anchors, negative: bool, budget: &Budget) -> Result<Dfa> {
    let dfa = compile(of, anchors, budget)?;
    if negative { dfa.complement(budget) } else { Ok(dfa) }
}

/// What `list` matches from its beginning, with a text of `rest` behind: from the end to the beginning, so that a
/// lookahead is another condition on what stands behind it.
fn ahead(list: &[Ast], rest: Dfa, budget: &Budget) -> Result<Dfa> {
    let Some(at) = list.iter().rposition(has_look) else { return Nfa::new(budget).before(list, &rest) };
    let rest = Nfa::new(budget).before(&list[at + 1..], &rest)?;
    let rest = match &list[at] {
        Ast::Look { of, ahead: true, negative } => {
            let look = looked(of, Anchors::AtStart, *negative, budget)?;
            Dfa::intersection(&[&rest, &look], budget)?
        }
        Ast::Concat(inner) => ahead(inner, rest, budget)?,
        Ast::Alternate(branches) => {
            let mut all = Dfa::empty();
            for branch in branches {
                let part = ahead(std::slice::from_ref(branch), rest.clone(), budget)?;
                all = Dfa::union(&[&all, &part], budget)?;
            }
            all
        }
        Ast::Repeat { of, min, max: Some(max) } if *max <= MAX_LOOKS => {
            let (mut all, mut part) = (if *min == 0 { rest.clone() } else { Dfa::empty() }, rest);
            for n in 1..=*max {
                part = ahead(std::slice::from_ref(of), part, budget)?;
                if n >= *min {
                    all = Dfa::union(&[&all, &part], budget)?;
                }
            }
            all
        }
        _ => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a lookbehind elsewhere than before `$`, or a repeated lookaround",
            ));
        }
    };
    ahead(&list[..at], rest, budget)
}

/// A way on without a character: always, only before the first one, only behind the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    AtStart,
    AtEnd,
    /// Where one of the characters before and behind is in a word and the other is not, or where that is not so.
    Boundary(bool),
}

#[derive(Default)]
struct State {
    jumps: Vec<(When, u32)>,
    chars: Option<(CharSet, u32)>,
}

struct Nfa<'a> {
    states: Vec<State>,
    budget: &'a Budget,
    boundaries: bool,
}

impl<'a> Nfa<'a> {
    fn new(budget: &'a Budget) -> Self {
        Self { states: Vec::new(), budget, boundaries: false }
    }

    fn state(&mut self) -> Result<u32> {
        self.budget.spend(1)?;
        if self.states.len() >= 4 * self.budget.limits.states {
            return Err(Error::new(ErrorKind::TooLarge, "the regular expression has too many repetitions"));
        }
        self.states.push(State::default());
        Ok(self.states.len() as u32 - 1)
    }

    fn jump(&mut self, from: u32, when: When, to: u32) {
        self.states[from as usize].jumps.push((when, to));
    }

    /// Appends `ast` behind `from`; returns where it ends.
    fn add(&mut self, from: u32, ast: &Ast) -> Result<u32> {
        match ast {
            Ast::Set(set) => {
                // A state has one way on by characters.
                let (own, to) = (self.state()?, self.state()?);
                self.jump(from, When::Always, own);
                self.states[own as usize].chars = Some((set.clone(), to));
                Ok(to)
            }
            Ast::Concat(list) => list.iter().try_fold(from, |at, part| self.add(at, part)),
            Ast::Alternate(list) => {
                let end = self.state()?;
                for part in list {
                    let at = self.add(from, part)?;
                    self.jump(at, When::Always, end);
                }
                Ok(end)
            }
            Ast::Repeat { of, min, max } => {
                let mut at = from;
                for _ in 0..*min {
                    at = self.add(at, of)?;
                }
                let end = self.state()?;
                match max {
                    None => {
                        self.jump(at, When::Always, end);
                        let again = self.state()?;
                        self.jump(end, When::Always, again);
                        let back = self.add(again, of)?;
                        self.jump(back, When::Always, end);
                    }
                    Some(max) => {
                        for _ in *min..*max {
                            self.jump(at, When::Always, end);
                            at = self.add(at, of)?;
                        }
                        self.jump(at, When::Always, end);
                    }
                }
                Ok(end)
            }
            Ast::Start | Ast::End | Ast::Boundary(_) => {
                let to = self.state()?;
                let when = match ast {
                    Ast::Start => When::AtStart,
                    Ast::End => When::AtEnd,
                    _ => When::Boundary(*ast == Ast::Boundary(true)),
                };
                self.boundaries |= matches!(ast, Ast::Boundary(_));
                self.jump(from, when, to);
                Ok(to)
            }
            Ast::Look { .. } => Err(Error::new(ErrorKind::Unsupported, "a lookaround")),
        }
    }

    fn determinised(mut self, ast: &Ast, anchors: Anchors) -> Result<Dfa> {
        let any = Ast::Repeat { of: Box::new(Ast::Set(CharSet::any())), min: 0, max: None };
        let mut from = self.state()?;
        let start = from;
        if matches!(anchors, Anchors::Anywhere | Anchors::AtEnd) {
            from = self.add(from, &any)?;
        }
        let mut end = self.add(from, ast)?;
        if matches!(anchors, Anchors::Anywhere | Anchors::AtStart) {
            end = self.add(end, &any)?;
        }
        self.sets(start, end)
    }

    /// What `list` matches, with a text of `rest` behind.
    fn before(mut self, list: &[Ast], rest: &Dfa) -> Result<Dfa> {
        if list.is_empty() {
            return Ok(rest.clone());
        }
        let start = self.state()?;
        let mut at = start;
        for part in list {
            at = self.add(at, part)?;
        }
        let end = self.state()?;
        // One state for each of the automaton's, behind each other.
        let first = self.state()?;
        for _ in 1..rest.arcs.len() {
            self.state()?;
        }
        self.jump(at, When::Always, first);
        for (i, arcs) in rest.arcs.iter().enumerate() {
            let from = first + i as u32;
            for arc in arcs {
                let own = self.state()?;
                self.jump(from, When::Always, own);
                self.states[own as usize].chars = Some((CharSet(vec![(arc.lo, arc.hi)]), first + arc.to));
            }
            if rest.tags[i] != 0 {
                self.jump(from, When::Always, end);
            }
        }
        self.sets(start, end)
    }

    /// The deterministic automaton of what leads from `start` to `end`.
    fn sets(self, start: u32, end: u32) -> Result<Dfa> {
        let mut marks = vec![0u32; self.states.len()];
        let mut mark = 0;
        // `boundary`: whether there is one; not known before the next character is.
        let mut closure = |set: &[u32], start: bool, ending: bool, boundary| -> Result<(Vec<u32>, bool)> {
            mark += 1;
            let mut stack = set.to_vec();
            let mut out = Vec::new();
            let mut accepts = false;
            stack.iter().for_each(|&s| marks[s as usize] = mark);
            while let Some(s) = stack.pop() {
                self.budget.spend(1)?;
                accepts |= s == end;
                let state = &self.states[s as usize];
                let waits = |j: &(When, u32)| matches!(j.0, When::AtEnd | When::Boundary(_));
                if state.chars.is_some() || s == end || state.jumps.iter().any(waits) {
                    out.push(s);
                }
                for &(when, to) in &state.jumps {
                    let open = match when {
                        When::Always => true,
                        When::AtStart => start,
                        When::AtEnd => ending,
                        When::Boundary(is) => boundary == Some(is),
                    };
                    if open && marks[to as usize] != mark {
                        marks[to as usize] = mark;
                        stack.push(to);
                    }
                }
            }
            out.sort_unstable();
            Ok((out, accepts))
        };
        let mut dfa = Dfa { arcs: Vec::new(), tags: Vec::new() };
        // Nothing comes back to where a text begins: a set that is that of the beginning is another state.
        let begin = closure(&[start], true, false, None)?.0;
        // What a character may be, which is told apart only for boundaries, and whether that is in a word.
        let kinds = match self.boundaries {
            true => vec![(words(), true), (words().negated(), false)],
            false => vec![(CharSet::any(), false)],
        };
        let mut sets = Interned::default();
        while dfa.arcs.len() <= sets.len() {
            let next = dfa.arcs.len() as u32;
            let mut set = if next == 0 { &begin[..] } else { sets.get(next - 1) };
            // Whether the character before is in a word is the last entry.
            let mut inside = false;
            if let ([rest @ .., last], true) = (set, self.boundaries && next > 0) {
                (set, inside) = (rest, *last == 1);
            }
            dfa.tags.push(u32::from(if next == 0 {
                closure(&[start], true, true, Some(false))?.1
            } else {
                closure(set, false, true, Some(inside))?.1
            }));
            let mut edges: Vec<(u32, u32, u32)> = Vec::new();
            for (kind, word) in &kinds {
                let resolved;
                let mut known = set;
                if self.boundaries {
                    resolved = closure(set, next == 0, false, Some(inside != *word))?.0;
                    known = &resolved;
                }
                for (chars, to) in known.iter().filter_map(|&s| self.states[s as usize].chars.as_ref()) {
                    for &(lo, hi) in &chars.0 {
                        let parts = kind.0.iter().map(|k| (lo.max(k.0), hi.min(k.1), *to));
                        edges.extend(parts.filter(|part| part.0 <= part.1));
                    }
                }
            }
            let mut cuts: Vec<u32> = edges.iter().flat_map(|e| [e.0, e.1 + 1]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let mut to: Vec<Vec<u32>> = vec![Vec::new(); cuts.len()];
            for (lo, hi, target) in edges {
                let from = cuts.partition_point(|&c| c < lo);
                for (cut, list) in cuts.iter().zip(&mut to).skip(from) {
                    if *cut > hi {
                        break;
                    }
                    self.budget.spend(1)?;
                    list.push(target);
                }
            }
            let mut arcs: Vec<Arc> = Vec::new();
            for (k, list) in to.iter_mut().enumerate().filter(|(_, list)| !list.is_empty()) {
                list.sort_unstable();
                list.dedup();
                let (lo, hi) = (cuts[k], cuts.get(k + 1).map_or(MAX_CHAR, |c| c - 1));
                let (mut set, _) = closure(list, false, false, None)?;
                if self.boundaries {
                    set.push(u32::from(kinds[0].0.0.iter().any(|r| (r.0..=r.1).contains(&lo))));
                }
                let id = sets.add(&set) + 1;
                self.budget.check_states(sets.len())?;
                match arcs.last_mut() {
                    Some(last) if last.hi + 1 == lo && last.to == id => last.hi = hi,
                    _ => arcs.push(Arc { lo, hi, to: id }),
                }
            }
            dfa.arcs.push(arcs);
        }
        dfa.minimised(self.budget)
    }
}
