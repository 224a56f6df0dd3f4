//! What a page's script calls: the least that gets a grammar's arrays out.

use serde_json::json;
use wasm_bindgen::prelude::*;

use crate::{Automaton, Error, Grammar, Options, Report};

/// A compiled grammar. Each array is moved out, so that there is one copy of it here or there: a second call returns an
/// empty one.
#[wasm_bindgen]
pub struct Compiled {
    automaton: Automaton,
    report: Report,
}

#[wasm_bindgen]
impl Compiled {
    /// [`Automaton::table`].
    pub fn table(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.automaton.table)
    }

    /// [`Automaton::info`].
    pub fn info(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.automaton.info)
    }

    /// [`Automaton::states_info`].
    pub fn states_info(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.automaton.states_info)
    }

    /// Classes, states, symbols, the state at the beginning, as [`Automaton::from_parts`] takes them; then the bytes of
    /// all arrays.
    pub fn numbers(&self) -> Vec<u32> {
        let a = &self.automaton;
        vec![a.classes, a.states, a.symbols, a.start, self.report.bytes as u32]
    }

    /// Warnings as JSON: a list of `[pointer, keyword, reason, schema]`.
    pub fn warnings(&self) -> String {
        let list: Vec<_> =
            self.report.warnings.iter().map(|w| json!([w.pointer, w.keyword, w.reason, w.schema])).collect();
        serde_json::Value::Array(list).to_string()
    }
}

/// Compiles the grammar that JSON describes ([`Grammar::from_json`]). The options are those of [`Options`].
///
/// # Errors
/// JSON: `[code, pointer, keyword, reason, schema]`, as [`Error`] has them.
#[wasm_bindgen]
pub fn compile(spec: &str, lenient: bool, whitespace: bool, required_first: bool) -> Result<Compiled, String> {
    let options = Options { lenient, whitespace, required_first, ..Options::default() };
    let made = Grammar::from_json(spec).and_then(|grammar| crate::compile(&grammar, &options));
    let (automaton, report) =
        made.map_err(|e: Error| json!([e.code(), e.pointer(), e.keyword(), e.reason(), e.schema()]).to_string())?;
    Ok(Compiled { automaton, report })
}
