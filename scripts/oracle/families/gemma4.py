"""Gemma4ForCausalLM: two kinds of heads, last layers that read earlier ones' keys and values, per-layer embeddings."""

import math
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

from ..shapes import Shape
from . import llama
from .llama import same, sizes

NAME = "gemma4"
ARCH = MODEL_ARCH.GEMMA4
SHAPES = ("d64-per-layer", "d32-per-layer")
WINDOW = 8
# The fourth reads the second's keys and values, the fifth the third's.
KINDS = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"]
to_gguf = from_gguf = same


def common(shape: Shape, tokens: dict[str, int], kinds: list[str]) -> dict[str, Any]:
    """Keys of every Gemma 4's configuration; heads of layers without a window are twice as wide."""
    rope = {
        "full_attention": {"rope_theta": 1000000.0, "rope_type": "proportional", "partial_rotary_factor": 0.25},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    }
    return {
        **sizes(shape, tokens),
        "rms_norm_eps": 1e-6,
        "global_head_dim": 2 * shape.e,
        "sliding_window": WINDOW,
        "layer_types": kinds[: shape.layers],
        "max_position_embeddings": shape.context,
        "rope_parameters": rope,
        "final_logit_softcapping": 3.0,
        "pad_token_id": None,
        "vocab_size_per_layer_input": shape.vocabulary,
    }


def config(shape: Shape, tokens: dict[str, int]) -> Gemma4TextConfig:
    return Gemma4TextConfig(
        **common(shape, tokens, KINDS), hidden_size_per_layer_input=shape.d // 2, num_kv_shared_layers=2, use_double_wide_mlp=True
    )


def model(config: Gemma4TextConfig) -> Gemma4ForCausalLM:
    return Gemma4ForCausalLM(config).eval()


def spread(name: str, shape: Shape) -> tuple[float, float]:
    """Scores are not divided by a root; the last layers' outputs must not be negligible against the scaled embedding."""
    if "layer_scalar" in name:
        return 0.8, 0.2
    if "router.scale" in name or "per_expert_scale" in name:
        return 1.0, 0.4
    if "per_layer_projection_norm" in name:
        return 1.0, 0.3
    if "q_norm" in name:
        return 1.0 / math.sqrt(shape.e), 0.3 / math.sqrt(shape.e)
    if "embed_tokens_per_layer" in name:
        return 0.0, 1.0 / math.sqrt(shape.d // 2)
    if "embed_tokens" in name:
        return 0.0, 0.5 / math.sqrt(shape.d)
    return llama.spread(name, shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    layers = range(config.num_hidden_layers)
    slides = [kind == "sliding_attention" for kind in config.layer_types]
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    own = config.num_hidden_layers - config.num_kv_shared_layers
    f = config.intermediate_size
    writer.add_feed_forward_length([2 * f if i >= own else f for i in layers] if config.use_double_wide_mlp else f)
    of = [config.per_layer_config[i] for i in layers]
    groups = [layer.num_key_value_heads for layer in of]
    writer.add_head_count_kv(groups if config.attention_k_eq_v else groups[0])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    wide, narrow = (pick(layer.head_dim for layer in of) for pick in (max, min))
    writer.add_key_length(wide)
    writer.add_value_length(wide)
    writer.add_key_length_swa(narrow)
    writer.add_value_length_swa(narrow)
    writer.add_rope_dimension_count(wide)
    writer.add_rope_dimension_count_swa(narrow)
    writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(slides)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input or 0)


def gguf_parts(name: str) -> list[str] | None:
    part = name.removeprefix("model.layers.")
    layer, _, part = part.partition(".")
    known = {
        "layer_scalar": "layer_output_scale.weight",
        "router.scale": "ffn_gate_inp.scale",
        "router.per_expert_scale": "ffn_down_exps.scale",
        "experts.gate_up_proj": "ffn_gate_up_exps.weight",
        "experts.down_proj": "ffn_down_exps.weight",
    }
    return [f"blk.{layer}.{known[part]}"] if part in known else None


def extra_tensors(config: Any) -> dict[str, np.ndarray]:
    """rope_freqs.weight: in layers without a window, frequencies of dimensions without rotation have a huge divisor."""
    half = max(config.per_layer_config[i].head_dim for i in range(config.num_hidden_layers)) // 2
    turning = int(half * config.rope_parameters["full_attention"]["partial_rotary_factor"])
    return {"rope_freqs.weight": np.array([1.0] * turning + [1e30] * (half - turning), np.float32)}
