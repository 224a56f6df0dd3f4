//! The finished automaton of a deterministic one: the smallest, and bytes that nothing tells apart as one class.

use crate::automaton::{Automaton, CLASS_WORDS, MAX_STATES, MAX_SYMBOLS, SYMBOL_WORDS, entry};
use crate::budget::Budget;
use crate::category::state_categories;
use crate::determinize::{Action, Vpa};
use crate::error::{Error, ErrorKind, Result};
use crate::minimize::minimize;
use crate::nfa::Effect;

impl Automaton {
    pub(crate) fn new(vpa: &Vpa, budget: &Budget) -> Result<Self> {
        let classes = minimize(vpa, budget)?;
        if classes.states > MAX_STATES || classes.symbols > MAX_SYMBOLS {
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
                                let kind =
                                    if effect == Effect::Space { entry::SPACE << 30 } else { entry::PLAIN << 30 };
                                kind | if effect == Effect::Count { entry::COUNT } else { 0 }
                                    | classes.state[to as usize]
                            }
                            Action::Push { symbol, to } => {
                                entry::PUSH << 30 | classes.symbol[symbol as usize] << 16 | classes.state[to as usize]
                            }
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
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("its table has more than {} bytes", budget.limits.table_bytes),
            ));
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
        // A walk that is given wrong arrays has to stay within them too: every outcome of every symbol is a word, if
        // only a dead one.
        let outcomes = vpa.symbols.iter().map(|s| s.returns.len()).max().unwrap_or(0);
        let bases = (0..classes.symbols).map(|id| info[CLASS_WORDS + SYMBOL_WORDS * id] as usize);
        let until = bases.max().map_or(0, |base| base + outcomes);
        info.resize(info.len().max(until), 0);
        let mut it = Self {
            table,
            info,
            states_info: Vec::new(),
            classes: count as u32,
            states: rows.len() as u32,
            symbols: classes.symbols as u32,
            start: classes.state[vpa.start as usize],
        };
        it.states_info =
            (0..it.states).map(|s| state_categories(&it, s) | u32::from(accepts[s as usize]) << 17).collect();
        Ok(it)
    }
}

/// The class of each byte, and how many there are: bytes of one class do the same in every state.
fn byte_classes(rows: &[Vec<(u8, u8, u32)>]) -> ([u8; 256], usize) {
    let mut class = [0u8; 256];
    let mut sizes = vec![256u32];
    // What a row says of a class: the row, what the first byte does, how many do the same.
    let mut says = [(usize::MAX, 0, 0); 256];
    for (i, row) in rows.iter().enumerate() {
        let mut split = false;
        for &(lo, hi, entry) in row {
            for b in lo..=hi {
                let said = &mut says[usize::from(class[usize::from(b)])];
                if said.0 != i {
                    *said = (i, entry, 0);
                }
                split |= said.1 != entry;
                said.2 += 1;
            }
        }
        // A class is split where the row says different things of its bytes, nothing being one of them.
        split |= row.iter().any(|&(lo, hi, _)| {
            (lo..=hi).any(|b| says[usize::from(class[usize::from(b)])].2 != sizes[usize::from(class[usize::from(b)])])
        });
        if !split {
            continue;
        }
        let mut entries = [0u32; 256];
        for &(lo, hi, entry) in row {
            entries[usize::from(lo)..=usize::from(hi)].fill(entry);
        }
        let mut fresh: Vec<((u8, u32), u32)> = Vec::new();
        for b in 0..256 {
            let key = (class[b], entries[b]);
            let id = fresh.iter().position(|f| f.0 == key).unwrap_or_else(|| {
                fresh.push((key, 0));
                fresh.len() - 1
            });
            fresh[id].1 += 1;
            class[b] = id as u8;
        }
        sizes = fresh.into_iter().map(|f| f.1).collect();
    }
    (class, sizes.len())
}
