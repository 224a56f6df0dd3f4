//! `millrace bisect`: the first step at which the GPU and the twins part.

use clap::Args;
use millrace::base::{Cancel, Progress};
use millrace::decode::Compared;
use millrace::engine::{LoadOptions, Prompt, Request, bisect};
use millrace::source::ModelSpec;
use millrace::{Error, Result, native};
use serde_json::json;

use crate::cli::show_download;
use crate::options::Flags;

#[derive(Args)]
pub struct Bisect {
    /// builtin, or a .gguf file, a folder with safetensors, or a URL of either.
    #[arg(long, default_value = "builtin")]
    model: String,
    #[command(flatten)]
    how: Flags<LoadOptions>,
    /// Text to read: as many tokens as fit into one pass.
    #[arg(long, group = "input", default_value = "The quick brown fox jumps over the lazy dog.")]
    prompt: String,
    /// A message to read, through the model's chat template.
    #[arg(long, group = "input")]
    chat: Option<String>,
    /// Token ids to read, 1,2,3.
    #[arg(long, group = "input", value_delimiter = ',')]
    tokens: Option<Vec<u32>>,
    /// Go on behind the first step that is wrong, from what the GPU has made.
    #[arg(long)]
    all: bool,
}

impl Bisect {
    /// Runs the command.
    pub async fn run(self) -> Result<()> {
        let prompt = match (&self.chat, &self.tokens) {
            (Some(text), _) => Prompt::Messages(json!([{"role": "user", "content": text}])),
            (_, Some(ids)) => Prompt::Tokens(ids.clone()),
            _ => Prompt::Text(self.prompt.clone()),
        };
        let cancel = Cancel::new();
        let files =
            native::origin(&ModelSpec::parse(&self.model)?)?.files(&|p: Progress| show_download(&p), &cancel).await?;
        let (mut steps, mut wrong) = (0, Vec::new());
        let mut worst: Option<Compared> = None;
        let mut on_step = |step: Compared| {
            steps += 1;
            if let Some(how) = &step.wrong {
                println!("{} step {}, {} ({}): {how}", step.pass.name(), step.number, step.step, step.variant);
                wrong.push(step.variant.clone());
            }
            if worst.as_ref().is_none_or(|w| w.error < step.error) {
                worst = Some(step);
            }
            self.all || wrong.is_empty()
        };
        bisect(&files, &self.how.options(), &Request::new(prompt), &mut on_step, &cancel).await?;
        if let Some(first) = wrong.first() {
            return Err(Error::gpu(format!(
                "{first} computes something else than its twin, after {} steps that agree",
                steps - wrong.len()
            )));
        }
        if let Some(worst) = worst {
            println!(
                "all {steps} steps of a prefill pass and of a decode step agree with their twins; the largest difference is {:.1e} of the largest value, in {} ({})",
                worst.error, worst.step, worst.variant
            );
        }
        Ok(())
    }
}
