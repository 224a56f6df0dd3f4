//! The smallest automaton of the same language up to its outcomes: states and symbols that behave alike become one.

use crate::budget::Budget;
use crate::determinize::{Action, Row, Symbol, Vpa};
use crate::error::Result;
use crate::nfa::Effect;
use crate::refine::{Signature, refine};

/// A number for each state and each symbol; state numbers begin at 1, since 0 is dead.
pub(crate) struct Classes {
    pub state: Vec<u32>,
    pub states: usize,
    pub symbol: Vec<u32>,
    pub symbols: usize,
}

pub(crate) fn minimize(vpa: &Vpa, budget: &Budget) -> Result<Classes> {
    let n = vpa.rows.len();
    // Nodes are the states, then the symbols.
    let mut labels: Vec<u32> = vpa.rows.iter().map(|row| u32::from(row.accepts)).collect();
    labels.extend(std::iter::repeat_n(2, vpa.symbols.len()));
    let successors = |node: usize, f: &mut dyn FnMut(usize)| match vpa.rows.get(node) {
        Some(row) => row.actions.iter().for_each(|(_, _, action)| match *action {
            Action::Move { to, .. } => f(to as usize),
            Action::Push { symbol, to } => {
                f(n + symbol as usize);
                f(to as usize);
            }
            Action::Pop { .. } => {}
        }),
        None => vpa.symbols[node - n].returns.iter().for_each(|&to| f(to as usize)),
    };
    let signature = |node: usize, class: &[u32], key: &mut Signature| match vpa.rows.get(node) {
        Some(row) => row_signature(row, n, class, key),
        None => symbol_signature(&vpa.symbols[node - n], class, key),
    };
    let (class, _) = refine(&labels, successors, signature, budget)?;
    let mut numbers: Vec<u32> = vec![u32::MAX; n + vpa.symbols.len()];
    let (mut states, mut symbols) = (1, 0);
    let mut state = Vec::with_capacity(n);
    let mut symbol = Vec::with_capacity(vpa.symbols.len());
    for (node, &c) in class.iter().enumerate() {
        let number = &mut numbers[c as usize];
        if *number == u32::MAX {
            let next = if node < n { &mut states } else { &mut symbols };
            *number = *next;
            *next += 1;
        }
        if node < n { &mut state } else { &mut symbol }.push(*number);
    }
    Ok(Classes { state, states: states as usize, symbol, symbols: symbols as usize })
}

/// Byte ranges that lead to the same class are one, however they were cut.
fn row_signature(row: &Row, n: usize, class: &[u32], key: &mut Signature) {
    let mut actions = row.actions.iter().map(|&(lo, hi, action)| {
        let what = match action {
            Action::Move { to, effect } => {
                u64::from(class[to as usize]) << 8 | if effect == Effect::None { 0 } else { effect as u64 }
            }
            Action::Push { symbol, to } => {
                u64::from(class[n + symbol as usize]) << 36 | u64::from(class[to as usize]) << 8 | 4
            }
            Action::Pop { outcome } => u64::from(outcome) << 8 | 5,
        };
        (lo, hi, what)
    });
    let Some((mut lo, mut hi, mut what)) = actions.next() else { return };
    for next in actions {
        if hi + 1 != next.0 || what != next.2 {
            key.add(u64::from(lo) << 8 | u64::from(hi));
            key.add(what);
            (lo, what) = (next.0, next.2);
        }
        hi = next.1;
    }
    key.add(u64::from(lo) << 8 | u64::from(hi));
    key.add(what);
}

fn symbol_signature(symbol: &Symbol, class: &[u32], key: &mut Signature) {
    key.add(u64::from(symbol.min));
    key.add(u64::from(symbol.max));
    symbol.returns.iter().for_each(|&to| key.add(u64::from(class[to as usize])));
}
