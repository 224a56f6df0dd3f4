//! Well-known models by their dimensions, with random weights: what they cost to run does not depend on what they know.
//!
//! Every shape runs as a Llama-like plan: norms of queries and keys, biases and second norms of some families are left out.

use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::format::{Checkpoint, DType, HfMetadata, Metadata, TensorInfo};
use crate::model::Names;

/// Dimensions of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its name, as the command line and the bench page take it.
    pub name: &'static str,
    /// Layers.
    pub layers: usize,
    /// Width, D.
    pub width: usize,
    /// Query heads, H.
    pub heads: usize,
    /// Key/value heads, G.
    pub kv_heads: usize,
    /// Head width, E.
    pub head: usize,
    /// Feed-forward width, F.
    pub ff: usize,
    /// Vocabulary, V.
    pub vocab: usize,
    /// Whether the head is the embedding.
    pub tied: bool,
}

const fn shape(name: &'static str, layers: usize, width: usize, heads: [usize; 3], ff: usize, vocab: usize, tied: bool) -> Shape {
    Shape { name, layers, width, heads: heads[0], kv_heads: heads[1], head: heads[2], ff, vocab, tied }
}

/// The shapes, smallest first; from each model's config.json.
pub const SHAPES: &[Shape] = &[
    shape("gemma-3-270m", 18, 640, [4, 1, 256], 2048, 262_144, true),
    shape("qwen2.5-0.5b", 24, 896, [14, 2, 64], 4864, 151_936, true),
    shape("qwen3-0.6b", 28, 1024, [16, 8, 128], 3072, 151_936, true),
    shape("gemma-3-1b", 26, 1152, [4, 1, 256], 6912, 262_144, true),
    shape("llama-3.2-1b", 16, 2048, [32, 8, 64], 8192, 128_256, true),
    shape("qwen2.5-1.5b", 28, 1536, [12, 2, 128], 8960, 151_936, true),
    shape("llama-3.2-3b", 28, 3072, [24, 8, 128], 8192, 128_256, true),
    shape("phi-3.5-mini", 32, 3072, [32, 32, 96], 8192, 32_064, false),
    shape("mistral-7b", 32, 4096, [32, 8, 128], 14_336, 32_768, false),
    shape("llama-3.1-8b", 32, 4096, [32, 8, 128], 14_336, 128_256, false),
];

/// A shape for tests: small enough for a CPU.
pub const TINY: Shape = shape("tiny", 2, 256, [4, 2, 64], 512, 512, true);

/// The shape of that name.
pub fn find(name: &str) -> Result<Shape> {
    SHAPES.iter().chain([&TINY]).find(|s| s.name == name).copied().ok_or_else(|| {
        let names: Vec<_> = SHAPES.iter().map(|s| s.name).collect();
        Error::bad_option(format!("shape {name:?} does not exist; there are {}", names.join(", ")))
    })
}

/// What llama.cpp's quantizer makes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quant {
    /// Q4_0, but a head that is also the embedding Q6_K, as every other head.
    Q4_0,
    /// Q4_K, with Q6_K for the head and for V and the down product of half of the layers.
    Q4KM,
    /// Q8_0.
    Q8_0,
    /// Halves.
    F16,
}

impl Quant {
    /// The quantization of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "q4_0" => Ok(Self::Q4_0),
            "q4_k_m" => Ok(Self::Q4KM),
            "q8_0" => Ok(Self::Q8_0),
            "f16" => Ok(Self::F16),
            other => Err(Error::bad_option(format!("quant {other:?} does not exist; there are q4_0, q4_k_m, q8_0, f16"))),
        }
    }

    /// The type of a matrix with rows of `k`. `part` is llama.cpp's name of it.
    fn of(self, part: &str, layer: usize, layers: usize, k: usize, tied: bool) -> DType {
        // llama.cpp's use_more_bits.
        let more = layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
        let head = part == "output" || (tied && part == "token_embd");
        let wanted = match self {
            Self::F16 => DType::F16,
            Self::Q8_0 => DType::Q8_0,
            Self::Q4_0 | Self::Q4KM if head => DType::Q6_K,
            Self::Q4_0 => DType::Q4_0,
            Self::Q4KM if matches!(part, "attn_v" | "ffn_down") && more => DType::Q6_K,
            Self::Q4KM => DType::Q4_K,
        };
        match wanted {
            _ if k.is_multiple_of(wanted.block_len() as usize) => wanted,
            DType::Q6_K => DType::Q8_0,
            _ => DType::Q5_0,
        }
    }
}

/// A checkpoint of that shape, all header: its weights are made on the GPU ([`crate::decode::Session::randomize`]).
pub fn checkpoint(shape: &Shape, quant: Quant) -> Checkpoint {
    let Shape { layers, width: d, heads: h, kv_heads: g, head: e, ff: f, vocab: v, tied, .. } = *shape;
    let names = Names::hf();
    let mut list: Vec<(String, DType, Vec<usize>)> = vec![(names.embed(), quant.of("token_embd", 0, layers, d, tied), vec![v, d])];
    for i in 0..layers {
        let parts = [
            ("attn_q", h * e, d),
            ("attn_k", g * e, d),
            ("attn_v", g * e, d),
            ("attn_output", d, h * e),
            ("ffn_gate", f, d),
            ("ffn_up", f, d),
            ("ffn_down", d, f),
        ];
        list.extend(parts.map(|(part, n, k)| (names.layer(i, part), quant.of(part, i, layers, k, tied), vec![n, k])));
        list.extend(["attn_norm", "ffn_norm"].map(|part| (names.layer(i, part), DType::F32, vec![d])));
    }
    list.push((names.norm(), DType::F32, vec![d]));
    if !tied {
        list.push((names.head(), quant.of("output", 0, layers, d, tied), vec![v, d]));
    }
    let mut tensors = IndexMap::new();
    let mut offset = 0;
    for (name, dtype, shape) in list {
        let elements: usize = shape.iter().product();
        let bytes = elements as u64 / dtype.block_len() * dtype.block_bytes();
        let shape = shape.iter().map(|d| *d as u64).collect();
        tensors.insert(name.clone(), TensorInfo { name, dtype, shape, file: 0, offset, bytes });
        offset += bytes;
    }
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "_name_or_path": shape.name,
        "num_hidden_layers": layers, "hidden_size": d, "intermediate_size": f, "vocab_size": v,
        "num_attention_heads": h, "num_key_value_heads": g, "head_dim": e,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 131_072, "rope_theta": 500_000.0, "tie_word_embeddings": tied,
    });
    let config = match config {
        Value::Object(map) => map,
        _ => unreachable!("an object is an object"),
    };
    Checkpoint { files: Vec::new(), tensors, metadata: Metadata::Hf(HfMetadata { config, ..HfMetadata::default() }), tokenizer_files: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str, quant: Quant) -> u64 {
        checkpoint(&find(name).unwrap(), quant).tensors.values().map(|t| t.bytes).sum()
    }

    #[test]
    fn sizes_are_those_of_published_files() {
        // Sizes of the files as published, without their headers.
        for (name, quant, published) in [
            ("llama-3.2-1b", Quant::Q4_0, 0.77e9),
            ("llama-3.1-8b", Quant::Q4KM, 4.92e9),
            ("qwen2.5-1.5b", Quant::Q8_0, 1.64e9),
            ("llama-3.2-1b", Quant::F16, 2.48e9),
        ] {
            let ratio = bytes(name, quant) as f64 / published;
            assert!((0.97..1.03).contains(&ratio), "{name}: {ratio}");
        }
    }

    #[test]
    fn widths_that_super_blocks_do_not_divide_fall_back() {
        let c = checkpoint(&find("gemma-3-1b").unwrap(), Quant::Q4KM);
        let of = |name: &str| c.tensors[name].dtype;
        assert_eq!(of("model.embed_tokens.weight"), DType::Q8_0);
        assert_eq!(of("model.layers.5.self_attn.q_proj.weight"), DType::Q5_0);
        assert_eq!(of("model.layers.4.mlp.down_proj.weight"), DType::Q4_K);
        assert_eq!(of("model.layers.0.mlp.down_proj.weight"), DType::Q6_K);
    }

    #[test]
    fn what_does_not_exist_is_an_error_that_lists_what_does() {
        assert!(find("nonsense").unwrap_err().message().contains("llama-3.2-1b"));
        assert!(Quant::parse("q3").unwrap_err().message().contains("q4_k_m"));
    }
}
