//! The walk of a text through the automaton, as the GPU's kernels do it: the twin of `constrain` and `advance`.

use crate::automaton::{Automaton, CLASS_WORDS, SYMBOL_WORDS, entry};
use crate::category::COUNTS;
use crate::vocabulary::Vocabulary;

/// Bytes of white space in a row that say nothing: a model cannot pad for ever.
pub const MAX_SPACE: u32 = 64;
/// Symbols that one token may push: the kernel keeps them in registers. A token that pushes more is refused; shorter
/// ones lead there too.
pub const MAX_TOKEN_PUSHES: usize = 16;
/// Symbols on the stack: a text that nests deeper is refused.
pub const MAX_STACK: usize = 1000;
/// Words of [`Walk::words`]: state, depth of the stack, counter, run of white space, then two words a symbol.
pub const WALK_WORDS: usize = 4 + 2 * MAX_STACK;

/// Where a text stands in an [`Automaton`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    state: u32,
    count: u32,
    run: u32,
    stack: Vec<(u32, u32)>,
}

/// A token's own view of the top: what it pushes is not on the stack yet, and what it pops is still there.
struct Top<'a> {
    state: u32,
    count: u32,
    run: u32,
    /// How many symbols of the stack below are left.
    depth: usize,
    below: &'a [(u32, u32)],
    own: [(u32, u32); MAX_TOKEN_PUSHES],
    pushed: usize,
}

impl Walk {
    /// The beginning of a text.
    pub fn new(automaton: &Automaton) -> Self {
        Self { state: automaton.start, count: 0, run: 0, stack: Vec::new() }
    }

    /// The state that it is in; 0 never is.
    pub fn state(&self) -> u32 {
        self.state
    }

    /// Symbols on the stack.
    pub fn depth(&self) -> usize {
        self.stack.len()
    }

    /// Whether the text may end here.
    pub fn accepting(&self, automaton: &Automaton) -> bool {
        self.stack.is_empty() && automaton.accepts(self.state)
    }

    /// Takes one byte. False, and nothing has changed, where it leaves the language.
    pub fn advance(&mut self, automaton: &Automaton, byte: u8) -> bool {
        self.advance_token(automaton, &[byte])
    }

    /// Takes all bytes of a token. False, and nothing has changed, where they leave the language or there are none.
    pub fn advance_token(&mut self, automaton: &Automaton, token: &[u8]) -> bool {
        let Some(top) = self.try_token(automaton, token) else { return false };
        let Top { state, count, run, depth, own, pushed, .. } = top;
        (self.state, self.count, self.run) = (state, count, run);
        self.stack.truncate(depth);
        self.stack.extend_from_slice(&own[..pushed]);
        true
    }

    /// Whether all bytes of a token stay in the language.
    pub fn allowed(&self, automaton: &Automaton, token: &[u8]) -> bool {
        self.try_token(automaton, token).is_some()
    }

    /// One bit a token of a vocabulary, the lowest of a word first: those that may come next. Tokens that end a text
    /// are allowed where it may end.
    pub fn mask(&self, automaton: &Automaton, vocabulary: &Vocabulary) -> Vec<u32> {
        let mut mask = vec![0; vocabulary.len().div_ceil(32)];
        let ends = self.accepting(automaton);
        let categories = automaton.states_info[self.state as usize];
        let room = self.room(automaton);
        for id in 0..vocabulary.len() {
            let token = vocabulary.token(id);
            let kinds = vocabulary.categories(id);
            // Kinds that all loop are decided without a walk, as in the kernel.
            let loops = !token.is_empty() && (kinds & 0x1_ffff) & !(categories & 0xffff) == 0;
            let fits = loops && (categories & COUNTS == 0 || kinds >> 17 <= room);
            if (vocabulary.is_stop(id) && ends)
                || (!vocabulary.is_stop(id) && (fits || (!loops && self.allowed(automaton, token))))
            {
                mask[id / 32] |= 1 << (id % 32);
            }
        }
        mask
    }

    /// The walk as the kernels hold it: state, depth, counter, run, then symbol and counter of each frame, the lowest
    /// first.
    pub fn words(&self) -> Vec<u32> {
        let head = [self.state, self.stack.len() as u32, self.count, self.run];
        head.into_iter().chain(self.stack.iter().flat_map(|f| [f.0, f.1])).collect()
    }

    /// The walk of such words; `None` where they are not those of a walk through this automaton. What lies behind the
    /// stack is not looked at.
    pub fn from_words(automaton: &Automaton, words: &[u32]) -> Option<Self> {
        let (&[state, depth, count, run], frames) = words.split_first_chunk::<4>()?;
        let depth = depth as usize;
        if state >= automaton.states || depth > MAX_STACK || frames.len() < 2 * depth {
            return None;
        }
        let stack: Vec<(u32, u32)> = frames[..2 * depth].chunks(2).map(|f| (f[0], f[1])).collect();
        stack.iter().all(|f| f.0 < automaton.symbols).then_some(Self { state, count, run, stack })
    }

    /// How often the counter may still be raised.
    fn room(&self, automaton: &Automaton) -> u32 {
        self.stack.last().map_or(u32::MAX, |f| symbol(automaton, f.0)[2].saturating_sub(self.count))
    }

    fn try_token(&self, automaton: &Automaton, token: &[u8]) -> Option<Top<'_>> {
        let mut top = Top {
            state: self.state,
            count: self.count,
            run: self.run,
            depth: self.stack.len(),
            below: &self.stack,
            own: [(0, 0); MAX_TOKEN_PUSHES],
            pushed: 0,
        };
        let all = !token.is_empty() && token.iter().all(|&b| top.step(automaton, b));
        all.then_some(top)
    }
}

/// Where a symbol's states begin, and the bounds of its counter.
fn symbol(automaton: &Automaton, id: u32) -> &[u32] {
    let at = CLASS_WORDS + SYMBOL_WORDS * id as usize;
    &automaton.info[at..at + SYMBOL_WORDS]
}

impl Top<'_> {
    fn last(&self) -> Option<(u32, u32)> {
        if self.pushed > 0 { Some(self.own[self.pushed - 1]) } else { self.depth.checked_sub(1).map(|i| self.below[i]) }
    }

    fn step(&mut self, automaton: &Automaton, byte: u8) -> bool {
        let e = automaton.entry(self.state, byte);
        if e == 0 {
            return false;
        }
        let run = std::mem::take(&mut self.run);
        match e >> 30 {
            entry::PLAIN => {
                if e & entry::COUNT != 0 {
                    if self.last().is_some_and(|f| self.count >= symbol(automaton, f.0)[2]) {
                        return false;
                    }
                    self.count = self.count.saturating_add(1);
                }
                self.state = e & 0xffff;
            }
            entry::SPACE => {
                if run >= MAX_SPACE {
                    return false;
                }
                self.run = run + 1;
                self.state = e & 0xffff;
            }
            entry::PUSH => {
                if self.pushed >= MAX_TOKEN_PUSHES || self.depth + self.pushed >= MAX_STACK {
                    return false;
                }
                self.own[self.pushed] = (e >> 16 & 0x3fff, self.count);
                self.pushed += 1;
                self.count = 0;
                self.state = e & 0xffff;
            }
            _ => {
                let Some((id, count)) = self.last() else { return false };
                let [base, min, _] = *symbol(automaton, id) else { return false };
                if self.count < min {
                    return false;
                }
                if self.pushed > 0 {
                    self.pushed -= 1;
                } else {
                    self.depth -= 1;
                }
                self.count = count;
                self.state = automaton.info[(base + (e & 0xffff)) as usize];
            }
        }
        self.state != 0
    }
}
