//! Architectures: one file each, which says how to read a configuration and what the checkpoint calls its tensors. What
//! they have in common is [`decoder`], which names matrices after the checkpoint's tensors and writes the forward pass
//! with the plan's operations.

pub mod adapter;
mod bert;
mod config;
mod decoder;
mod ernie4_5;
mod exaone4;
mod falcon_h1;
mod gemma2;
mod gemma3;
mod gemma4;
mod glm4;
mod gpt2;
mod gpt_oss;
mod granite;
mod granite_hybrid;
mod granite_moe;
mod hunyuan;
mod keys;
mod lfm2;
mod llama;
mod mamba;
mod minicpm;
mod mistral3;
mod mixer;
mod modern_bert;
mod names;
mod nemotron_h;
mod nemotron_h_moe;
mod nomic_bert;
mod olmo2;
mod paddleocr;
mod phi3;
mod pooling;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod qwen3_5;
mod qwen3_5_moe;
mod qwen3_vl;
pub mod rope;
mod smollm3;
mod stablelm;
mod tensors;
#[cfg(feature = "toy")]
mod toy;
pub mod vision;

use config::MixerKind;
pub use config::{ModelConfig, PictureAttention};
pub use pooling::{AskedPooling, Pooling};
pub use tensors::{LeftOut, Listed};

use crate::blocks::dequantize;
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::layout::BufferId;
use crate::plan::{Builder, Value};
use crate::weights::{Matrix, Recipe, VectorSource};
use keys::Keys;
use names::TensorNames;
use rope::{ROPE_FACTORS, ROPE_FREQS, Scaling};

/// A model that has reserved its weights and can lay out its forward pass.
pub trait Model {
    /// Sizes and constants.
    fn config(&self) -> &ModelConfig;
    /// The configuration, for the loader to fill in what is a tensor: divisors of RoPE frequencies.
    fn config_mut(&mut self) -> &mut ModelConfig;
    /// Every matrix, for the loader.
    fn matrices(&self) -> Vec<&Matrix>;
    /// What of the checkpoint is left out.
    fn left_out(&self) -> &[LeftOut];
    /// Every vector, for the loader.
    fn vectors(&self) -> &[(BufferId, VectorSource)];
    /// Whether its checkpoint is llama.cpp's.
    fn gguf(&self) -> bool;
    /// The tensors that adapters can add to, by all their names.
    fn adaptable(&self) -> &[adapter::Adaptable] {
        &[]
    }
    /// The matrices that are made of them, where adapters can add to these.
    fn adaptable_matrices(&self) -> Vec<&Matrix> {
        Vec::new()
    }
    /// Appends one pass, from the embedding to what the last layer adds to the residual stream.
    fn layers(&self, b: &mut Builder<'_>) -> Result<()>;
    /// Appends the last norm and the head: the logits of the last row, `[V]`; or where the model pools, a row for each
    /// text.
    fn head(&self, b: &mut Builder<'_>) -> Result<Value>;
}

/// Reserves weights on the GPU: `matrix(label, bytes)` gives a buffer's id.
pub struct Reserve<'a> {
    /// Largest binding, in bytes; larger matrices are split by rows.
    pub max_binding: u64,
    /// How matrices are quantized that are not yet.
    pub quantize: Option<Recipe>,
    /// What becomes of texts.
    pub pooling: AskedPooling,
    /// Reserves one buffer.
    pub buffer: &'a mut dyn FnMut(String, u64) -> BufferId,
}

/// An architecture.
pub(crate) struct Architecture {
    /// Its file in this repository.
    file: &'static str,
    /// GGUF's `general.architecture`.
    gguf: &'static str,
    /// Hugging Face's `architectures[0]`.
    hf: &'static [&'static str],
    /// Reads its configuration.
    read: fn(&Keys<'_>) -> Result<ModelConfig>,
    /// What transformers calls its tensors.
    names: &'static TensorNames,
}

/// Adding an architecture is one line here and one file.
const ARCHITECTURES: &[&Architecture] = &[
    &llama::LLAMA,
    &qwen2::QWEN2,
    &qwen3::QWEN3,
    &gemma2::GEMMA2,
    &gemma3::GEMMA3,
    &gemma3::GEMMA_EMBEDDING,
    &gemma4::GEMMA4,
    &phi3::PHI3,
    &olmo2::OLMO2,
    &granite::GRANITE,
    &stablelm::STABLELM,
    &gpt2::GPT2,
    &gpt_oss::GPT_OSS,
    &qwen3_moe::QWEN3_MOE,
    &granite_moe::GRANITE_MOE,
    &smollm3::SMOLLM3,
    &exaone4::EXAONE4,
    &ernie4_5::ERNIE4_5,
    &glm4::GLM4,
    &minicpm::MINICPM,
    &mistral3::MISTRAL3,
    &qwen3_vl::QWEN3_VL,
    &paddleocr::PADDLEOCR,
    &lfm2::LFM2,
    &lfm2::LFM2_MOE,
    &qwen3_5::QWEN3_5,
    &qwen3_5_moe::QWEN3_5_MOE,
    &qwen3_5_moe::QWEN3_NEXT,
    &granite_hybrid::GRANITE_HYBRID,
    &hunyuan::HUNYUAN,
    &falcon_h1::FALCON_H1,
    &nemotron_h::NEMOTRON_H,
    &nemotron_h_moe::NEMOTRON_H_MOE,
    &bert::BERT,
    &nomic_bert::NOMIC_BERT,
    &modern_bert::MODERN_BERT,
    #[cfg(feature = "toy")]
    &toy::TOY,
];

/// The architectures that this version runs, by GGUF's names.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|a| a.gguf)
}

/// Where a checkpoint's architecture is in this repository; where it would be added, if it is not known.
pub fn place_of(checkpoint: &Checkpoint) -> &'static str {
    let known = named(checkpoint).ok().and_then(|name| architecture(&name));
    known.map_or("src/model: a file of its own, and its line in src/model/mod.rs", |architecture| architecture.file)
}

/// What the checkpoint calls its architecture.
fn named(checkpoint: &Checkpoint) -> Result<String> {
    Ok(match &checkpoint.metadata {
        Metadata::Gguf(m) => m.str("general.architecture")?.to_owned(),
        Metadata::Hf(m) => m
            .config
            .get("architectures")
            .and_then(|a| a.get(0))
            .and_then(|a| a.as_str())
            .ok_or_else(|| Error::bad_model("config.json: architectures is missing or empty"))?
            .to_owned(),
    })
}

fn architecture(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().copied().find(|a| a.gguf == name || a.hf.contains(&name))
}

/// The checkpoint's architecture and configuration. An unknown architecture is an error that lists those that are
/// known.
fn read(checkpoint: &Checkpoint, asked: AskedPooling) -> Result<(&'static Architecture, ModelConfig)> {
    let name = named(checkpoint)?;
    let Some(architecture) = architecture(&name) else {
        let known: Vec<_> = ARCHITECTURES.iter().map(|a| format!("{} ({})", a.gguf, a.hf.join(", "))).collect();
        return Err(Error::unsupported(format!(
            "architecture {name} is not supported; this version runs: {}",
            known.join(", ")
        )));
    };
    let keys = Keys::of(checkpoint, architecture.gguf)?;
    let mut config = (architecture.read)(&keys)?;
    pooling::read(&keys, checkpoint, asked, &mut config)?;
    keys.finish()?;
    config.check()?;
    if name.ends_with("Model")
        && !name.ends_with("HeadModel")
        && config.pooling.is_none()
        && asked != AskedPooling::None
    {
        return Err(Error::unsupported(format!(
            "{name} has no head to write with, and there is no modules.json that says how it embeds; load it with pooling \"last\""
        )));
    }
    Ok((architecture, config))
}

/// Opens the checkpoint's architecture.
pub fn open(checkpoint: &Checkpoint, reserve: &mut Reserve<'_>) -> Result<Box<dyn Model>> {
    let (architecture, config) = read(checkpoint, reserve.pooling)?;
    decoder::open(checkpoint, architecture, config, reserve)
}

/// The tensors that a checkpoint with this configuration has.
pub fn list(checkpoint: &Checkpoint) -> Result<Vec<Listed>> {
    let (architecture, config) = read(checkpoint, AskedPooling::Auto)?;
    decoder::list(checkpoint, architecture, config)
}

/// Fills in the divisors of RoPE frequencies where the checkpoint keeps them in tensors.
pub async fn read_rope_divisors(checkpoint: &Checkpoint, model: &mut dyn Model) -> Result<()> {
    for rope in &mut model.config_mut().ropes {
        let wanted: Vec<(&str, &mut Vec<f32>)> = match &mut rope.scaling {
            Scaling::Divisors(divisors) if divisors.is_empty() => vec![(ROPE_FREQS, divisors)],
            Scaling::LongRope { short, long, .. } if short.is_empty() => {
                vec![(ROPE_FACTORS[0], short), (ROPE_FACTORS[1], long)]
            }
            _ => continue,
        };
        for (name, divisors) in wanted {
            let info = checkpoint.tensor(name)?;
            let raw = checkpoint.read(info, 0, info.bytes as usize).await?;
            divisors.clear();
            dequantize(info.dtype, &raw, divisors).map_err(|e| e.at(name))?;
        }
        rope.inverse_frequencies(false).and(rope.inverse_frequencies(true))?;
    }
    Ok(())
}
