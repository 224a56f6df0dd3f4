//! `millrace embed` and `millrace rerank`: lines of JSON, one for each text.

use std::path::PathBuf;

use clap::Args;
use millrace::base::Cancel;
use millrace::engine::{EmbedOptions, RerankOptions};
use millrace::{Error, Result};
use serde_json::{Value, json};

use crate::cli::Load;
use crate::options::Flags;

#[derive(Args)]
pub struct Embed {
    #[command(flatten)]
    load: Load,
    /// A text; several are read together.
    #[arg(long = "text", value_name = "TEXT")]
    texts: Vec<String>,
    /// A file of which each line is a text.
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// A file of which each line is a text as JSON: a string, or an object with "text".
    #[arg(long = "texts", value_name = "FILE.jsonl")]
    json_lines: Option<PathBuf>,
    /// Nothing but the lists of numbers, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    how: Flags<EmbedOptions>,
}

#[derive(Args)]
pub struct Rerank {
    #[command(flatten)]
    load: Load,
    /// The question.
    #[arg(long)]
    query: String,
    /// A document; several are judged together.
    #[arg(long = "text", value_name = "TEXT")]
    texts: Vec<String>,
    /// A file of which each line is a document.
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// A file of which each line is a document as JSON: a string, or an object with "text".
    #[arg(long = "texts", value_name = "FILE.jsonl")]
    json_lines: Option<PathBuf>,
    /// Nothing but the objects, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    how: Flags<RerankOptions>,
}

fn texts(given: &[String], lines: Option<&PathBuf>, json_lines: Option<&PathBuf>) -> Result<Vec<String>> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|e| Error::not_found(format!("{}: {e}", path.display())))
    };
    let mut texts = given.to_vec();
    if let Some(path) = lines {
        texts.extend(read(path)?.lines().map(str::to_owned));
    }
    if let Some(path) = json_lines {
        for (i, line) in read(path)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let value: Value = serde_json::from_str(line).unwrap_or_default();
            let text = value.as_str().or_else(|| value.get("text")?.as_str());
            texts.push(
                text.ok_or_else(|| {
                    Error::bad_option(format!("{}: line {} is no text as JSON", path.display(), i + 1))
                })?
                .to_owned(),
            );
        }
    }
    if texts.is_empty() {
        Err(Error::bad_option("nothing to read: give --text, --lines or --texts"))
    } else {
        Ok(texts)
    }
}

/// How long that took, for people.
fn tell(what: &str, count: usize, tokens: usize, truncated: usize, ms: f64) {
    if truncated > 0 {
        eprintln!("{truncated} were longer than the model reads and were cut");
    }
    eprintln!("{count} {what} of {tokens} tokens in {ms:.0} ms: {:.0} tok/s", tokens as f64 * 1000.0 / ms);
}

impl Embed {
    /// Each text's embedding as a list, on a line of its own.
    pub async fn run(&self) -> Result<()> {
        let texts = texts(&self.texts, self.lines.as_ref(), self.json_lines.as_ref())?;
        let mut engine = self.load.engine(&self.load.model).await?;
        let found = engine.embed(&texts, &self.how.0, &|_| (), &Cancel::new()).await?;
        found.vectors.iter().for_each(|vector| println!("{}", json!(vector)));
        if !self.json {
            tell("texts", texts.len(), found.tokens, found.truncated, found.ms);
        }
        Ok(())
    }
}

impl Rerank {
    /// Each document's number and score, the best first.
    pub async fn run(&self) -> Result<()> {
        let texts = texts(&self.texts, self.lines.as_ref(), self.json_lines.as_ref())?;
        let mut engine = self.load.engine(&self.load.model).await?;
        let found = engine.rerank(&self.query, &texts, &self.how.0, &|_| (), &Cancel::new()).await?;
        found.ranking.iter().for_each(|ranked| println!("{}", json!({ "index": ranked.index, "score": ranked.score })));
        if !self.json {
            tell("documents", texts.len(), found.tokens, found.truncated, found.ms);
        }
        Ok(())
    }
}
