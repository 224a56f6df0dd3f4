//! Regular expressions to automata over code points.

mod parse;
mod property;
mod thompson;

use crate::budget::Budget;
use crate::dfa::Dfa;
use crate::error::Result;
use thompson::{Anchors, compile};

/// The strings in which `source` is found, as `pattern` means it.
///
/// # Errors
/// `InvalidRegex`, `Unsupported` for what no finite automaton can do, `TooLarge`.
pub(crate) fn search(source: &str, budget: &Budget) -> Result<Dfa> {
    compile(&parse::parse(source)?, Anchors::Anywhere, budget)
}

/// The strings that are `source` from their first to their last character.
///
/// # Errors
/// As [`search`].
pub(crate) fn whole(source: &str, budget: &Budget) -> Result<Dfa> {
    compile(&parse::parse(source)?, Anchors::Whole, budget)
}
