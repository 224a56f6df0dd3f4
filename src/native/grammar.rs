//! The compiler of grammars, in the same program.

use futures_util::future::LocalBoxFuture;
use millrace_grammar::{Automaton, Options};

use crate::base::now_ms;
use crate::error::Result;
use crate::grammar::{Compiler, Grammar, Warning, refused};

/// Compiles at once.
pub struct InProcess;

impl Compiler for InProcess {
    fn compile(&self, description: String, lenient: bool) -> LocalBoxFuture<'_, Result<Grammar>> {
        Box::pin(async move {
            let started = now_ms();
            let (automaton, warnings) = compile(&description, lenient, false)?;
            Ok(Grammar { automaton, warnings, ms: now_ms() - started })
        })
    }
}

/// The automaton of a description, and what of it is not enforced. `required_first`: whether required keys may also
/// come before the others.
///
/// # Errors
/// `UNSUPPORTED_SCHEMA` names the place, the keyword and the reason.
pub fn compile(description: &str, lenient: bool, required_first: bool) -> Result<(Automaton, Vec<Warning>)> {
    let options = Options { lenient, required_first, ..Options::default() };
    let made = millrace_grammar::Grammar::from_json(description)
        .and_then(|grammar| millrace_grammar::compile(&grammar, &options));
    let (automaton, report) = made.map_err(|e| {
        let place =
            Warning { pointer: e.pointer().to_owned(), keyword: e.keyword().to_owned(), reason: e.reason().to_owned() };
        refused(e.code(), place)
    })?;
    let warnings = report
        .warnings
        .into_iter()
        .map(|w| Warning { pointer: w.pointer, keyword: w.keyword, reason: w.reason })
        .collect();
    Ok((automaton, warnings))
}
