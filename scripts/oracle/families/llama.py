"""LlamaForCausalLM: Llama 2 and 3, SmolLM, TinyLlama and everything else that names this architecture."""

import math
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import LlamaConfig, LlamaForCausalLM

from ..shapes import SHAPES as ALL_SHAPES
from ..shapes import Shape

NAME = "llama"
ARCH = MODEL_ARCH.LLAMA
# Deep shapes, the narrowest model and the widest heads are for families whose layers differ.
SHAPES = tuple(name for name, shape in ALL_SHAPES.items() if shape.layers <= 2 and shape.d >= 64 and shape.e <= 128)
# Shapes without features that only Llama has.
PLAIN = tuple(name for name in SHAPES if "llama3" not in name and not ALL_SHAPES[name].biases)
# Shapes whose heads together are as wide as the model: many configurations have no other key.
SQUARE = tuple(name for name in SHAPES if ALL_SHAPES[name].h * ALL_SHAPES[name].e == ALL_SHAPES[name].d and not ALL_SHAPES[name].biases)

# The original context is so small that a short test reaches all three branches of the scaling.
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


PLAIN_ROPE = {"rope_theta": 10000.0, "rope_type": "default"}


def sizes(shape: Shape, tokens: dict[str, int]) -> dict[str, Any]:
    """Keys of every Llama-like configuration of this shape."""
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.d,
        "intermediate_size": shape.f,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.h,
        "num_key_value_heads": shape.g,
        "head_dim": shape.e,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": shape.tied,
        "bos_token_id": tokens["bos"],
        "eos_token_id": tokens["eos"],
        "attn_implementation": "eager",
    }


def square(shape: Shape, tokens: dict[str, int]) -> dict[str, Any]:
    """As `sizes`, for families whose configuration leaves the heads' width to D / H."""
    return {key: value for key, value in sizes(shape, tokens).items() if key != "head_dim"}


def config(shape: Shape, tokens: dict[str, int]) -> LlamaConfig:
    rope = {"rope_theta": 500000.0, **LLAMA3_SCALING} if shape.llama3_rope else PLAIN_ROPE
    biases = {"attention_bias": shape.biases, "mlp_bias": shape.biases}
    return LlamaConfig(**sizes(shape, tokens), **biases, max_position_embeddings=shape.context, rope_parameters=rope)


def model(config: LlamaConfig) -> LlamaForCausalLM:
    return LlamaForCausalLM(config).eval()


def spread(name: str, shape: Shape) -> tuple[float, float]:
    """Weights that keep activations near unit size and make logits and attention scores differ clearly.

    The transformers default (0.02) gives nearly uniform attention and logits, in which a wrong kernel hides.
    """
    if name.endswith("bias"):
        return 0.0, 0.3
    if "norm" in name or ".ln_" in name:
        return 1.0, 0.25
    if "embed_tokens" in name or "lm_head" in name:
        return 0.0, 4.0 / math.sqrt(shape.d)
    if "wpe" in name:
        return 0.0, 0.5
    if "o_proj" in name or "attn.c_proj" in name:
        return 0.0, 1.0 / math.sqrt(shape.h * shape.e)
    if "down_proj" in name or "mlp.c_proj" in name:
        return 0.0, 1.5 / math.sqrt(shape.f)
    if "q_proj" in name or "k_proj" in name or "router" in name or "mlp.gate.weight" in name:
        return 0.0, 1.5 / math.sqrt(shape.d)
    return 0.0, 1.0 / math.sqrt(shape.d)


def metadata(writer: GGUFWriter, config: LlamaConfig) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)


def sizes_metadata(writer: GGUFWriter, config: Any, head_width: bool = False) -> None:
    """The metadata that llama.cpp's converter writes for most families; `head_width`: for heads that need not be D / H wide."""
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    # Some configurations whose layers all have experts lack the key.
    if hasattr(config, "intermediate_size"):
        writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    if head_width:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)


def same(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    """Rows in transformers' order, which is that of most families' GGUF files too."""
    return array


def nothing(config: Any) -> dict[str, np.ndarray]:
    return {}


def expert_parts(name: str) -> list[str] | None:
    """Tensors of a parameter that holds all experts: gates and up rows are two."""
    kinds = {"gate_up_proj": ("gate", "up"), "down_proj": ("down",)}.get(name.partition(".experts.")[2])
    return [f"blk.{name.split('.')[2]}.ffn_{kind}_exps.weight" for kind in kinds] if kinds else None


def heads_of(name: str, config: LlamaConfig) -> int | None:
    if name.endswith(("q_proj.weight", "q_proj.bias")):
        return config.num_attention_heads
    if name.endswith(("k_proj.weight", "k_proj.bias")):
        return config.num_key_value_heads
    return None


def to_gguf(name: str, array: np.ndarray, config: LlamaConfig) -> np.ndarray:
    """GGUF's llama rotates neighbours (2i, 2i+1), transformers rotates halves (i, i+E/2): rows of q and k are reordered."""
    heads = heads_of(name, config)
    if heads is None:
        return array
    return array.reshape(heads, 2, len(array) // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def from_gguf(name: str, array: np.ndarray, config: LlamaConfig) -> np.ndarray:
    heads = heads_of(name, config)
    if heads is None:
        return array
    return array.reshape(heads, len(array) // heads // 2, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def extra_tensors(config: LlamaConfig) -> dict[str, np.ndarray]:
    """rope_freqs.weight (E/2), which GGUF files hold instead of the llama3 scaling's parameters."""
    rope = config.rope_parameters
    if rope["rope_type"] != "llama3":
        return {}
    wavelengths = 2 * math.pi * rope["rope_theta"] ** (np.arange(0, config.head_dim, 2) / config.head_dim)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] / wavelengths
    # 0 where a dimension turns less than `low` times in the original context, 1 where more than `high` times.
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return {"rope_freqs.weight": (1.0 / ((1.0 - kept) / rope["factor"] + kept)).astype(np.float32)}
