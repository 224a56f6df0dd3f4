//! Well-known models by their published configurations, with random weights: what they cost to run does not depend on what they know.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::blocks::{BLOCK, DType};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, HfMetadata, Metadata, TensorInfo};
use crate::model;
use crate::weights::Recipe;

/// A published model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its name, as the command line and the bench page take it.
    pub name: &'static str,
    /// Its config.json, of which what decides the model's computation is left.
    config: &'static str,
}

macro_rules! shapes {
    ($($name:literal),* $(,)?) => { &[$(Shape { name: $name, config: include_str!(concat!("configs/", $name, ".json")) }),*] };
}

/// The shapes, by family.
pub const SHAPES: &[Shape] = shapes![
    "llama-3.2-1b",
    "llama-3.2-3b",
    "llama-3.1-8b",
    "smollm2-135m",
    "tinyllama-1.1b",
    "falcon3-1b",
    "mistral-7b",
    "ministral-8b",
    "qwen2.5-0.5b",
    "qwen2.5-1.5b",
    "qwen3-0.6b",
    "gemma-2-2b",
    "gemma-3-270m",
    "gemma-3-1b",
    "gemma-3-4b",
    "phi-3.5-mini",
    "phi-4-mini",
    "olmo-2-1b",
    "granite-3.3-2b",
    "stablelm-2-1.6b",
    "gpt2",
    "qwen3-30b-a3b",
    "granite-3.1-1b-a400m",
    "smollm3-3b",
    "olmo-3-7b",
    "granite-4.0-micro",
    "exaone-4.0-1.2b",
    "ernie-4.5-0.3b",
    "glm-4-9b",
    "minicpm4-0.5b",
    "ministral-3-3b",
    "qwen3-vl-2b",
    "lfm2.5-1.2b",
    "lfm2.5-350m",
    "lfm2-8b-a1b",
    "qwen3.5-0.8b",
    "qwen3.5-2b",
    "qwen3.5-4b",
    "qwen3.5-9b",
    "qwen3.5-35b-a3b",
    "qwen3-next-80b-a3b",
    "hunyuan-1.8b",
    "nemotron-3-nano-30b-a3b",
    "nemotron-nano-9b-v2",
    "falcon-h1-0.5b",
    "granite-4.0-h-350m",
    "granite-4.0-h-1b",
];

/// A shape for tests: small enough for a CPU.
pub const TINY: Shape = Shape { name: "tiny", config: include_str!("configs/tiny.json") };

/// The shape of that name.
pub fn find(name: &str) -> Result<Shape> {
    SHAPES.iter().chain([&TINY]).find(|s| s.name == name).copied().ok_or_else(|| {
        let names: Vec<_> = SHAPES.iter().map(|s| s.name).collect();
        Error::bad_option(format!("shape {name:?} does not exist; there are {}", names.join(", ")))
    })
}

/// A checkpoint of that shape, all header: its weights are made on the GPU ([`crate::decode::Session::randomize`]).
pub fn checkpoint(shape: &Shape, quant: Recipe) -> Result<Checkpoint> {
    let mut config: Map<String, Value> = serde_json::from_str(shape.config).map_err(|e| Error::internal(format!("configuration of {}: {e}", shape.name)))?;
    config.insert("_name_or_path".into(), shape.name.into());
    let metadata = Metadata::Hf(HfMetadata { config, ..HfMetadata::default() });
    let mut checkpoint = Checkpoint { files: Vec::new(), tensors: IndexMap::new(), metadata, tokenizer_files: None, packed: None };
    let list = model::list(&checkpoint)?;
    let layers = list.iter().filter_map(|t| t.layer).max().map_or(0, |last| last + 1);
    let tied = list.iter().all(|t| t.part != "output");
    let mut offset = 0;
    for tensor in list {
        let k = tensor.shape.last().copied().unwrap_or(1);
        let dtype = if tensor.shape.len() == 1 || k < BLOCK {
            DType::F32
        } else if tensor.transposed {
            // Columns cannot be quantized.
            DType::F16
        } else {
            quant.of(tensor.part, tensor.layer.unwrap_or(0), layers, k, tied)
        };
        let elements: u64 = tensor.shape.iter().map(|d| *d as u64).product();
        let bytes = elements / dtype.block_len() * dtype.block_bytes();
        let shape = tensor.shape.iter().map(|d| *d as u64).collect();
        if checkpoint.tensors.insert(tensor.name.clone(), TensorInfo { name: tensor.name, dtype, shape, file: 0, offset, bytes }).is_none() {
            offset += bytes;
        }
    }
    Ok(checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str, quant: Recipe) -> u64 {
        checkpoint(&find(name).unwrap(), quant).unwrap().tensors.values().map(|t| t.bytes).sum()
    }

    #[test]
    fn sizes_are_those_of_published_files() {
        // Sizes of the files as published, without their headers.
        for (name, quant, published) in [
            ("llama-3.2-1b", Recipe::Q4_0, 0.77e9),
            ("llama-3.1-8b", Recipe::Q4KM, 4.92e9),
            ("qwen2.5-1.5b", Recipe::Q8_0, 1.64e9),
            ("llama-3.2-1b", Recipe::F16, 2.48e9),
        ] {
            let ratio = bytes(name, quant) as f64 / published;
            assert!((0.97..1.03).contains(&ratio), "{name}: {ratio}");
        }
    }

    #[test]
    fn widths_that_super_blocks_do_not_divide_fall_back() {
        let c = checkpoint(&find("gemma-3-1b").unwrap(), Recipe::Q4KM).unwrap();
        let of = |name: &str| c.tensors[name].dtype;
        assert_eq!(of("model.embed_tokens.weight"), DType::Q8_0);
        assert_eq!(of("model.layers.5.self_attn.q_proj.weight"), DType::Q5_0);
        assert_eq!(of("model.layers.4.mlp.down_proj.weight"), DType::Q4_K);
        assert_eq!(of("model.layers.0.mlp.down_proj.weight"), DType::Q6_K);
    }

    #[test]
    fn what_does_not_exist_is_an_error_that_lists_what_does() {
        assert!(find("nonsense").unwrap_err().message().contains("llama-3.2-1b"));
        assert!(Recipe::parse("q3").unwrap_err().message().contains("q4_k_m"));
    }
}
