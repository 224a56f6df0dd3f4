//! `millrace schema`: a JSON Schema as the automaton that forces answers, and which texts it accepts.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use millrace::Result;
use millrace::base::now_ms;
use millrace::grammar::{Automaton, Walk};
use millrace::native::grammar::compile;
use serde_json::json;

use crate::cli::{print, read_bytes, read_json};

#[derive(Args)]
pub struct Schema {
    /// A file with a JSON Schema.
    #[arg(value_name = "FILE.json")]
    schema: PathBuf,
    /// A file of which each line is a JSON text: it is taken byte for byte, and accepted or refused.
    #[arg(long, value_name = "FILE.jsonl")]
    instances: Option<PathBuf>,
    /// Leave out what cannot be enforced, with a warning, in place of an error.
    #[arg(long)]
    lenient: bool,
    /// The size as one object of JSON, with its warnings.
    #[arg(long)]
    json: bool,
}

impl Schema {
    /// Keys may come in the schema's order, or those of `required` first; answers are forced to the former.
    pub fn run(&self) -> Result<()> {
        let description = json!({ "schema": read_json(&self.schema)? }).to_string();
        let lines = self.instances.as_deref().map(read_bytes).transpose()?;
        let started = now_ms();
        let (automaton, warnings) = compile(&description, self.lenient, true)?;
        let ms = now_ms() - started;
        let (states, bytes) = (automaton.states, automaton.bytes());
        if self.json {
            print(&format!("{}\n", json!({ "states": states, "bytes": bytes, "ms": ms, "warnings": warnings })))?;
        } else {
            for warning in &warnings {
                let _ = writeln!(
                    std::io::stderr(),
                    "warning: {} at {}: {}",
                    warning.keyword,
                    warning.pointer,
                    warning.reason
                );
            }
            print(&format!("{states} states, {bytes} bytes, {ms:.1} ms\n"))?;
        }
        let Some(lines) = lines else { return Ok(()) };
        // The end of the last line begins no further one.
        let lines = lines.strip_suffix(b"\n").unwrap_or(&lines);
        let judged: String = lines
            .split(|byte| *byte == b'\n')
            .map(|line| if accepts(&automaton, line) { "accepted\n" } else { "refused\n" })
            .collect();
        print(&judged)
    }
}

fn accepts(automaton: &Automaton, text: &[u8]) -> bool {
    let mut walk = Walk::new(automaton);
    walk.advance_token(automaton, text) && walk.accepting(automaton)
}
