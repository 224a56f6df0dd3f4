//! Architectures: one file each. A model names its matrices after the checkpoint's tensors and writes its forward pass with the plan's operations.

mod config;
mod llama;
pub mod rope;

pub use config::{ModelConfig, Names, ROPE_FREQS};

use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::plan::{BufferId, Builder};
use crate::weights::{Matrix, VectorSource, WeightType, to_f32};

/// A model that has reserved its weights and can lay out its forward pass.
pub trait Model {
    /// Sizes and constants.
    fn config(&self) -> &ModelConfig;
    /// The same, for what only the loader can fill in: divisors of RoPE frequencies that are a tensor.
    fn config_mut(&mut self) -> &mut ModelConfig;
    /// Every matrix, for the loader.
    fn matrices(&self) -> Vec<&Matrix>;
    /// Every vector, for the loader.
    fn vectors(&self) -> &[(BufferId, VectorSource)];
    /// Appends one pass, from the embedding to the logits of the last row.
    fn forward(&self, b: &mut Builder<'_>) -> Result<()>;
}

/// Reserves weights on the GPU: `matrix(label, bytes)` gives a buffer's id.
pub struct Reserve<'a> {
    /// Largest binding, in bytes; larger matrices are split by rows.
    pub max_binding: u64,
    /// Reserves one buffer.
    pub buffer: &'a mut dyn FnMut(String, u64) -> BufferId,
}

type Open = fn(&Checkpoint, &mut Reserve<'_>) -> Result<Box<dyn Model>>;

/// (GGUF's `general.architecture`, Hugging Face's `architectures[0]`, constructor): adding an architecture is one line here and one file.
const ARCHITECTURES: &[(&str, &str, Open)] = &[("llama", "LlamaForCausalLM", llama::open), ("llama", "MistralForCausalLM", llama::open)];

/// Opens the checkpoint's architecture. An unknown one is an error that lists those that are known.
pub fn open(checkpoint: &Checkpoint, reserve: &mut Reserve<'_>) -> Result<Box<dyn Model>> {
    let name = match &checkpoint.metadata {
        Metadata::Gguf(m) => m.str("general.architecture")?.to_owned(),
        Metadata::Hf(m) => m
            .config
            .get("architectures")
            .and_then(|a| a.get(0))
            .and_then(|a| a.as_str())
            .ok_or_else(|| Error::bad_model("config.json: architectures is missing or empty"))?
            .to_owned(),
    };
    match ARCHITECTURES.iter().find(|(gguf, hf, _)| *gguf == name || *hf == name) {
        Some((_, _, open)) => open(checkpoint, reserve),
        None => {
            let known: Vec<_> = ARCHITECTURES.iter().map(|(gguf, hf, _)| format!("{gguf} ({hf})")).collect();
            Err(Error::unsupported(format!("architecture {name} is not supported; this version runs: {}", known.join(", "))))
        }
    }
}

/// Fills in the divisors of RoPE frequencies where the checkpoint keeps them in a tensor.
pub async fn read_rope_divisors(checkpoint: &Checkpoint, model: &mut dyn Model) -> Result<()> {
    let rope::Scaling::Divisors(divisors) = &mut model.config_mut().rope.scaling else { return Ok(()) };
    let info = checkpoint.tensor(ROPE_FREQS)?;
    let raw = checkpoint.read(info, 0, info.bytes as usize).await?;
    *divisors = to_f32(WeightType::of(info.dtype, ROPE_FREQS)?, &raw, ROPE_FREQS)?;
    model.config().rope.inverse_frequencies().map(drop)
}
