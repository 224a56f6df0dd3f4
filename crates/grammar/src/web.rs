//! What a page's script calls: the least that gets a grammar's arrays out.

use wasm_bindgen::prelude::*;

use crate::{Automaton, Error, Grammar, Options, Report, compile};

/// A compiled grammar.
#[wasm_bindgen]
pub struct Compiled {
    automaton: Automaton,
    report: Report,
}

#[wasm_bindgen]
impl Compiled {
    /// [`Automaton::table`].
    pub fn table(&self) -> Vec<u32> {
        self.automaton.table.clone()
    }

    /// [`Automaton::info`].
    pub fn info(&self) -> Vec<u32> {
        self.automaton.info.clone()
    }

    /// [`Automaton::states_info`].
    pub fn states_info(&self) -> Vec<u32> {
        self.automaton.states_info.clone()
    }

    /// States, symbols, classes, the state at the beginning.
    pub fn numbers(&self) -> Vec<u32> {
        vec![self.automaton.states, self.automaton.symbols, self.automaton.classes, self.automaton.start]
    }

    /// Warnings as JSON: a list of `[pointer, keyword, reason]`.
    pub fn warnings(&self) -> String {
        let list: Vec<_> = self.report.warnings.iter().map(|w| serde_json::json!([w.pointer, w.keyword, w.reason])).collect();
        serde_json::Value::Array(list).to_string()
    }
}

/// Compiles a JSON Schema.
///
/// # Errors
/// JSON with code, pointer, keyword and reason.
#[wasm_bindgen]
pub fn compile_schema(text: &str, lenient: bool) -> Result<Compiled, String> {
    compiled(Grammar::json_schema(text), lenient)
}

/// Compiles a regular expression.
///
/// # Errors
/// As [`compile_schema`].
#[wasm_bindgen]
pub fn compile_regex(source: &str) -> Result<Compiled, String> {
    compiled(Ok(Grammar::regex(source)), false)
}

fn compiled(grammar: Result<Grammar, Error>, lenient: bool) -> Result<Compiled, String> {
    let made = grammar.and_then(|g| compile(&g, &Options { lenient, ..Options::default() }));
    let (automaton, report) = made.map_err(|e| serde_json::json!([e.code(), e.pointer(), e.keyword(), e.reason()]).to_string())?;
    Ok(Compiled { automaton, report })
}
