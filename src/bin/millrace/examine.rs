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
    /// builtin, a .gguf file, a folder with safetensors, or a URL of either; `npm run model` also takes OWNER/REPO.
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
            native::open_parts(&ModelSpec::parse(&self.source)?, &|p| show_download(&p), &Cancel::new()).await?;
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
}
