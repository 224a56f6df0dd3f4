//! `millrace schema`: a JSON Schema as the automaton that forces answers, and which texts satisfy it.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use millrace::Result;
use millrace::base::now_ms;
use millrace::native::grammar::{judge, refusal};
use serde_json::json;

use crate::cli::{print, read_bytes, read_json};

#[derive(Args)]
pub struct Schema {
    /// A file with a JSON Schema.
    #[arg(value_name = "FILE.json")]
    schema: PathBuf,
    /// A file of which each line is a JSON text, which is accepted or refused. Keys may come in any order.
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
    /// The size is that of the automaton that forces an answer, keys in the schema's order.
    pub fn run(&self) -> Result<()> {
        let description = json!({ "schema": read_json(&self.schema)? }).to_string();
        let lines = self.instances.as_deref().map(read_bytes).transpose()?;
        let started = now_ms();
        let (judge, warnings) = judge(&description, self.lenient)?;
        let ms = now_ms() - started;
        let (states, bytes) = (judge.automaton().states, judge.automaton().bytes());
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
        let verdict = |line| judge.accepts(line).map(|accepted| if accepted { "accepted\n" } else { "refused\n" });
        let judged: String =
            lines.split(|byte| *byte == b'\n').map(verdict).collect::<Result<_, _>>().map_err(|e| refusal(&e))?;
        print(&judged)
    }
}
