//! `millrace model`: what a model is, whether it runs, and what is missing, and where in the source that would be
//! added.

use std::path::PathBuf;

use clap::Args;
use millrace::base::Cancel;
use millrace::engine::examine;
use millrace::native;
use millrace::source::ModelSpec;
use millrace::{Error, Result};

use crate::cli::{print, read_bytes, show_download};

#[derive(Args)]
pub struct Examine {
    /// builtin, a .gguf file, a folder with safetensors, a URL of either, or OWNER/REPO of Hugging Face's hub.
    #[arg(value_name = "MODEL")]
    source: String,
    /// A tokenizer.json for a .gguf file whose way of cutting texts is not known here, or is wrong.
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Everything as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Examine {
    /// A line for each part. Status 2 where the model does not run.
    pub async fn run(&self) -> Result<()> {
        let tokenizer = self.tokenizer.as_deref().map(read_bytes).transpose()?;
        let files =
            native::open_parts(&ModelSpec::parse(&self.address())?, &|p| show_download(&p), &Cancel::new()).await?;
        let found = examine(&files, tokenizer).await;
        if self.json {
            print(&format!("{}\n", serde_json::to_string(&found).map_err(|e| Error::internal(e.to_string()))?))?;
        } else {
            for part in &found.parts {
                let place = part.place.map_or(String::new(), |place| format!("\n{:<13}in {place}", ""));
                print(&format!("{:<13}{}{}{place}\n", part.part, if part.fine { "" } else { "NOT " }, part.about))?;
            }
            print(if found.runs { "runs\n" } else { "does not run\n" })?;
        }
        match found.parts.iter().find(|part| !part.fine).filter(|_| !found.runs) {
            Some(part) => Err(Error::unsupported(format!("{}: {}", part.part, part.about))),
            None => Ok(()),
        }
    }

    /// Where the model is: two words that are no path here are a repository of the hub's.
    fn address(&self) -> String {
        let words: Vec<&str> = self.source.split('/').collect();
        let is_name = |word: &&str| {
            !word.is_empty()
                && !word.starts_with('.')
                && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let hub = words.len() == 2 && words.iter().all(is_name) && !std::path::Path::new(&self.source).exists();
        if hub { format!("https://huggingface.co/{}", self.source) } else { self.source.clone() }
    }
}
