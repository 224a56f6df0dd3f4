//! The compiler of grammars, in the same program.

use futures_util::future::LocalBoxFuture;
use millrace_grammar::{Judge, Options, Report};

use crate::base::now_ms;
use crate::error::{Error, Result};
use crate::grammar::{Compiler, Grammar, Warning, refused};

/// Compiles at once.
pub struct InProcess;

impl Compiler for InProcess {
    fn compile(&self, description: String, lenient: bool) -> LocalBoxFuture<'_, Result<Grammar>> {
        Box::pin(async move {
            let started = now_ms();
            let options = Options { lenient, required_first: false, ..Options::default() };
            let made = read(&description).and_then(|grammar| millrace_grammar::compile(&grammar, &options));
            let (automaton, report) = made.map_err(|e| refusal(&e))?;
            Ok(Grammar { automaton, warnings: warnings(report), ms: now_ms() - started })
        })
    }
}

/// What judges finished texts by a description: as the automaton that forces an answer, and beyond it JSON that
/// satisfies a schema with its keys in any order; then what of the description is not enforced.
///
/// # Errors
/// `UNSUPPORTED_SCHEMA` names the place, the keyword and the reason.
pub fn judge(description: &str, lenient: bool) -> Result<(Judge, Vec<Warning>)> {
    let options = Options { lenient, required_first: false, ..Options::default() };
    let judge = read(description).and_then(|grammar| Judge::new(grammar, &options)).map_err(|e| refusal(&e))?;
    let warnings = warnings(judge.report().clone());
    Ok((judge, warnings))
}

fn read(description: &str) -> millrace_grammar::Result<millrace_grammar::Grammar> {
    millrace_grammar::Grammar::from_json(description)
}

/// A grammar's error as the engine has it, with its place.
pub fn refusal(e: &millrace_grammar::Error) -> Error {
    let place =
        Warning { pointer: e.pointer().to_owned(), keyword: e.keyword().to_owned(), reason: e.reason().to_owned() };
    refused(e.code(), place)
}

fn warnings(report: Report) -> Vec<Warning> {
    report.warnings.into_iter().map(|w| Warning { pointer: w.pointer, keyword: w.keyword, reason: w.reason }).collect()
}
