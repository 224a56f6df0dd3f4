//! Well-known models by their published configurations, with random weights: what they cost to run does not depend on
//! what they know.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::blocks::{BLOCK, DType, WeightType};
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
    "qwen3-8b",
    "gemma-2-2b",
    "gemma-3-270m",
    "gemma-3-1b",
    "gemma-3-4b",
    "gemma-4-e2b",
    "gemma-4-e4b",
    "gemma-4-26b-a4b",
    "phi-3.5-mini",
    "phi-4-mini",
    "olmo-2-1b",
    "granite-3.3-2b",
    "stablelm-2-1.6b",
    "gpt2",
    "gpt-oss-20b",
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
    "paddleocr-vl-0.9b",
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

/// Models that read texts whole, and write none.
pub const ENCODERS: &[Shape] =
    shapes!["all-minilm-l6", "embeddinggemma-300m", "nomic-embed-v1.5", "granite-embedding-r2"];

/// A shape for tests: small enough for a CPU.
pub const TINY: Shape = Shape { name: "tiny", config: include_str!("configs/tiny.json") };

/// The shape of that name.
pub fn find(name: &str) -> Result<Shape> {
    SHAPES.iter().chain(ENCODERS).chain([&TINY]).find(|s| s.name == name).copied().ok_or_else(|| {
        let names: Vec<_> = SHAPES.iter().map(|s| s.name).collect();
        Error::bad_option(format!("shape {name:?} does not exist; there are {}", names.join(", ")))
    })
}

/// How a shape's weights are quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quant {
    /// A mix of types.
    Mix(Recipe),
    /// One type, but for what files have in others.
    Type(WeightType),
}

impl Quant {
    /// The mix of that name, or the type.
    pub fn parse(name: &str) -> Result<Self> {
        let kind = || WeightType::of_axis(name).map(Self::Type);
        Recipe::parse(name).ok().map(Self::Mix).or_else(kind).ok_or_else(|| {
            let names: Vec<_> = Self::names().collect();
            Error::bad_option(format!("quantization {name:?} does not exist; there are {}", names.join(", ")))
        })
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let others = WeightType::ALL.iter().map(|kind| kind.axis()).filter(|axis| Recipe::parse(axis).is_err());
        Recipe::ALL.map(Recipe::name).into_iter().chain(others)
    }
}

impl From<Recipe> for Quant {
    fn from(recipe: Recipe) -> Self {
        Self::Mix(recipe)
    }
}

/// The type of a part in files that are of type `kind` for the most part; `experts`: whether the model has some.
fn of_type(kind: WeightType, part: &str, k: usize, tied: bool, experts: bool) -> DType {
    let head = part == "output" || (tied && part == "token_embd");
    let wanted = match kind {
        // Routers and learned positions are floats in every file.
        _ if matches!(part, "ffn_gate_inp" | "ffn_gate_inp_shexp" | "position_embd") => DType::F32,
        // As published files have it, whatever they are of.
        _ if part == "per_layer_model_proj" => DType::F16,
        WeightType::Mxfp4 if head || (experts && !part.ends_with("_exps")) => DType::Q8_0,
        _ if head && kind.quantized() && !matches!(kind, WeightType::Q8_0) => DType::Q6_K,
        _ => kind.dtype(),
    };
    let fits = |dtype: &DType| k.is_multiple_of(dtype.block_len() as usize);
    [wanted, DType::Q5_0].into_iter().find(fits).unwrap_or(DType::F16)
}

/// A checkpoint of that shape, all header: its weights are made on the GPU ([`crate::decode::Session::randomize`]).
pub fn checkpoint(shape: &Shape, quant: impl Into<Quant>) -> Result<Checkpoint> {
    header(shape, quant.into(), false)
}

/// As [`checkpoint`], with a head beside the embedding, of the same type: a step reads as many bytes.
pub fn untied(shape: &Shape, quant: impl Into<Quant>) -> Result<Checkpoint> {
    header(shape, quant.into(), true)
}

fn header(shape: &Shape, quant: Quant, untied: bool) -> Result<Checkpoint> {
    let mut config: Map<String, Value> = serde_json::from_str(shape.config)
        .map_err(|e| Error::internal(format!("configuration of {}: {e}", shape.name)))?;
    config.insert("_name_or_path".into(), shape.name.into());
    if untied {
        // Where a family ties by default, nothing says so.
        config.insert("tie_word_embeddings".into(), false.into());
        let untie = |config: &mut Map<String, Value>| {
            for key in ["tie_word_embeddings", "tie_embedding"] {
                if let Some(tied) = config.get_mut(key) {
                    *tied = false.into();
                }
            }
        };
        untie(&mut config);
        if let Some(text) = config.get_mut("text_config").and_then(Value::as_object_mut) {
            untie(text);
        }
    }
    // How rows become one is no matter of shapes.
    let pools = ENCODERS
        .contains(shape)
        .then(|| json!({ "modules": [{ "kind": "Pooling", "config": { "pooling_mode": "mean" } }] }));
    let sentence = pools.and_then(|pools| pools.as_object().cloned()).map(Box::new);
    let metadata = Metadata::Hf(HfMetadata { config, sentence, ..HfMetadata::default() });
    let mut checkpoint =
        Checkpoint { files: Vec::new(), tensors: IndexMap::new(), metadata, tokenizer_files: None, packed: None };
    let list = model::list(&checkpoint)?;
    let layers = list.iter().filter_map(|t| t.layer).max().map_or(0, |last| last + 1);
    let tied = list.iter().all(|t| t.part != "output");
    let experts = list.iter().any(|t| t.part.ends_with("_exps"));
    let mut offset = 0;
    for tensor in list {
        let k = tensor.shape.last().copied().unwrap_or(1);
        let part = if untied && tensor.part == "token_embd" { "output" } else { tensor.part };
        let dtype = if tensor.shape.len() == 1 || k < BLOCK || tensor.name.ends_with("bias") {
            DType::F32
        } else if tensor.transposed {
            // Columns cannot be quantized.
            DType::F16
        } else {
            match quant {
                Quant::Mix(recipe) => recipe.of(part, tensor.layer.unwrap_or(0), layers, k, tied),
                Quant::Type(kind) => of_type(kind, part, k, tied, experts),
            }
        };
        let elements: u64 = tensor.shape.iter().map(|d| *d as u64).product();
        let bytes = elements / dtype.block_len() * dtype.block_bytes();
        let shape = tensor.shape.iter().map(|d| *d as u64).collect();
        if checkpoint
            .tensors
            .insert(tensor.name.clone(), TensorInfo { name: tensor.name, dtype, shape, file: 0, offset, bytes })
            .is_none()
        {
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
        let error = Quant::parse("q3").unwrap_err();
        assert!(
            error.message().contains("q4_k_m, q8_0, f16, f32, bf16, q5_0") && error.message().contains("mxfp4"),
            "{error}"
        );
    }

    #[test]
    fn every_type_makes_a_shape_of_its_size() {
        for name in Quant::names() {
            let checkpoint = checkpoint(&find("llama-3.1-8b").unwrap(), Quant::parse(name).unwrap()).unwrap();
            let gate = &checkpoint.tensors["model.layers.1.mlp.gate_proj.weight"];
            assert_eq!(gate.bytes, gate.dtype.bytes_of(gate.elements()).unwrap());
            if let Some(kind) = WeightType::of_axis(name) {
                assert_eq!(gate.dtype, kind.dtype());
            }
        }
        // Of gpt-oss's kind: only experts have four bits.
        let moe = checkpoint(&find("qwen3-30b-a3b").unwrap(), Quant::parse("mxfp4").unwrap()).unwrap();
        let types: Vec<_> = ["mlp.experts.3.up_proj", "self_attn.q_proj", "mlp.gate"]
            .map(|part| moe.tensors.iter().find(|(n, _)| n.contains(part)).map(|(_, t)| t.dtype))
            .into();
        assert_eq!(
            types,
            [Some(DType::MXFP4), Some(DType::Q8_0), Some(DType::F32)],
            "{:?}",
            moe.tensors.keys().take(20).collect::<Vec<_>>()
        );
    }
}
