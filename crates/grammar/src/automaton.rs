//! The finished automaton, as arrays that go to the GPU as they are.

use crate::budget::Budget;
use crate::category::state_categories;
use crate::determinize::{Action, Vpa};
use crate::error::{Error, ErrorKind, Result};
use crate::minimize::minimize;
use crate::nfa::Effect;

/// What a byte does in a state: the two highest bits of an entry of [`Automaton::table`].
pub mod entry {
    /// To the state of the lowest 16 bits. An entry of 0 refuses: state 0 is dead.
    pub const PLAIN: u32 = 0;
    /// As `PLAIN`; the byte is white space that says nothing and is bounded by [`MAX_SPACE`](crate::MAX_SPACE).
    pub const SPACE: u32 = 1;
    /// Puts the symbol of bits 16 to 29 and the counter on the stack, sets the counter to 0, and goes to the state of the lowest 16 bits.
    pub const PUSH: u32 = 2;
    /// Takes a symbol and its counter from the stack, and goes to the symbol's state for the outcome in the lowest 16 bits.
    pub const POP: u32 = 3;
    /// Bit of a `PLAIN` entry that adds 1 to the counter.
    pub const COUNT: u32 = 1 << 29;
}

/// Words of [`Automaton::info`] before the symbols: the class of each byte, four a word, the lowest byte first.
pub const CLASS_WORDS: usize = 64;
/// Words of a symbol in [`Automaton::info`]: where its states for outcomes begin in `info`, the least and the greatest counter
/// (`u32::MAX` where there is no bound).
pub const SYMBOL_WORDS: usize = 3;

/// A byte-level visibly pushdown automaton. Every state can still be finished; state 0 is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Automaton {
    /// `(states, classes)` entries of [`entry`].
    pub table: Vec<u32>,
    /// [`CLASS_WORDS`] words of byte classes, [`SYMBOL_WORDS`] words a symbol, then the states that symbols go on in.
    pub info: Vec<u32>,
    /// `(states)` words: bits 0 to 15 are the [`category`](crate::category)s that lead back to the state, bit 16 says that their characters are
    /// counted, bit 17 that the text may end here.
    pub states_info: Vec<u32>,
    /// Classes of bytes, at most 256.
    pub classes: u32,
    /// States, at most 65,536, the dead one included.
    pub states: u32,
    /// Symbols, at most 16,384.
    pub symbols: u32,
    /// The state at the beginning of a text.
    pub start: u32,
}

impl Automaton {
    /// The class of a byte.
    pub fn class(&self, byte: u8) -> u32 {
        self.info[usize::from(byte >> 2)] >> (8 * (byte & 3)) & 255
    }

    /// What a byte does in a state.
    pub fn entry(&self, state: u32, byte: u8) -> u32 {
        self.table[(state * self.classes + self.class(byte)) as usize]
    }

    /// Whether the text may end in a state; the stack has to be empty too, which it is in these states.
    pub fn accepts(&self, state: u32) -> bool {
        self.states_info[state as usize] >> 17 & 1 == 1
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        4 * (self.table.len() + self.info.len() + self.states_info.len())
    }

    pub(crate) fn new(vpa: &Vpa, budget: &Budget) -> Result<Self> {
        let classes = minimize(vpa, budget)?;
        if classes.states > 65_536 || classes.symbols > 16_384 {
            return Err(Error::new(ErrorKind::TooLarge, "it needs more than 65,536 states or 16,384 places that call"));
        }
        // One row for each class of states, as entries on byte ranges.
        let mut rows: Vec<Option<Vec<(u8, u8, u32)>>> = vec![None; classes.states];
        let mut accepts = vec![false; classes.states];
        for (row, &state) in vpa.rows.iter().zip(&classes.state) {
            accepts[state as usize] = row.accepts;
            rows[state as usize].get_or_insert_with(|| {
                row.actions
                    .iter()
                    .map(|&(lo, hi, action)| {
                        let entry = match action {
                            Action::Move { to, effect } => {
                                let kind = if effect == Effect::Space { entry::SPACE << 30 } else { entry::PLAIN << 30 };
                                kind | if effect == Effect::Count { entry::COUNT } else { 0 } | classes.state[to as usize]
                            }
                            Action::Push { symbol, to } => entry::PUSH << 30 | classes.symbol[symbol as usize] << 16 | classes.state[to as usize],
                            Action::Pop { outcome } => entry::POP << 30 | outcome,
                        };
                        (lo, hi, entry)
                    })
                    .collect()
            });
        }
        let rows: Vec<Vec<(u8, u8, u32)>> = rows.into_iter().map(Option::unwrap_or_default).collect();
        let (class_of, count) = byte_classes(&rows);
        if rows.len() * count * 4 > budget.limits.table_bytes {
            return Err(Error::new(ErrorKind::TooLarge, format!("its table has more than {} bytes", budget.limits.table_bytes)));
        }
        budget.spend(rows.len() * count / 8)?;
        let mut table = vec![0; rows.len() * count];
        for (row, out) in rows.iter().zip(table.chunks_mut(count)) {
            for &(lo, hi, entry) in row {
                (lo..=hi).for_each(|b| out[usize::from(class_of[usize::from(b)])] = entry);
            }
        }
        let mut info: Vec<u32> = class_of.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        info.resize(CLASS_WORDS + SYMBOL_WORDS * classes.symbols, 0);
        let mut done = vec![false; classes.symbols];
        for (symbol, &id) in vpa.symbols.iter().zip(&classes.symbol) {
            if !std::mem::replace(&mut done[id as usize], true) {
                let at = CLASS_WORDS + SYMBOL_WORDS * id as usize;
                let base = info.len() as u32;
                info[at..at + SYMBOL_WORDS].copy_from_slice(&[base, symbol.min, symbol.max]);
                info.extend(symbol.returns.iter().map(|&to| classes.state[to as usize]));
            }
        }
        let mut it = Self {
            table,
            info,
            states_info: Vec::new(),
            classes: count as u32,
            states: rows.len() as u32,
            symbols: classes.symbols as u32,
            start: classes.state[vpa.start as usize],
        };
        it.states_info = (0..it.states).map(|s| state_categories(&it, s) | u32::from(accepts[s as usize]) << 17).collect();
        Ok(it)
    }
}

/// The class of each byte, and how many there are: bytes of one class do the same in every state.
fn byte_classes(rows: &[Vec<(u8, u8, u32)>]) -> ([u8; 256], usize) {
    // A class is split where a row tells its bytes apart; ranges of a row that say the same are told apart only by what they say.
    let mut class = [0u16; 256];
    let mut count = 1u16;
    let mut seen: std::collections::BTreeMap<(u16, u32), u16> = std::collections::BTreeMap::new();
    for row in rows {
        if count == 256 {
            break;
        }
        let mut says = [0u32; 256];
        for &(lo, hi, entry) in row {
            says[usize::from(lo)..=usize::from(hi)].fill(entry);
        }
        // Quick where nothing is split: each class says one thing.
        let mut first = [None; 256];
        let split = (0..256).any(|b| *first[usize::from(class[b])].get_or_insert(says[b]) != says[b]);
        if split {
            seen.clear();
            for b in 0..256 {
                let fresh = seen.len() as u16;
                class[b] = *seen.entry((class[b], says[b])).or_insert(fresh);
            }
            count = seen.len() as u16;
        }
    }
    (class.map(|c| c as u8), usize::from(count))
}
