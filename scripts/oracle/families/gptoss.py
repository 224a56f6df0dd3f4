"""GptOssForCausalLM: experts with biases and clamped activations, sinks, windows in every second layer, unrounded YaRN."""

import math
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter, RopeScalingType
from transformers import GptOssConfig, GptOssForCausalLM

from ..shapes import Shape
from . import llama
from .llama import nothing, sizes, sizes_metadata

NAME = "gptoss"
ARCH = MODEL_ARCH.GPT_OSS
SHAPES = ("d64-sinks",)
FORMATS = ("gguf",)
EXPERTS = 5
USED = 2
WINDOW = 8
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> GptOssConfig:
    kinds = ["sliding_attention", "full_attention"] * shape.layers
    rope = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0, "original_max_position_embeddings": 16, "truncate": False}
    return GptOssConfig(
        **sizes(shape, tokens),
        num_local_experts=EXPERTS,
        num_experts_per_tok=USED,
        sliding_window=WINDOW,
        layer_types=kinds[: shape.layers],
        max_position_embeddings=128,
        rope_parameters={**rope, "beta_fast": 32.0, "beta_slow": 1.0},
        pad_token_id=None,
    )


def model(config: GptOssConfig) -> GptOssForCausalLM:
    return GptOssForCausalLM(config).eval()


def spread(name: str, shape: Shape) -> tuple[float, float]:
    """Some sinks outweigh all scores, and some gates and up products exceed the clamp."""
    if name.endswith("sinks"):
        return 1.0, 2.0
    if name.endswith("gate_up_proj"):
        return 0.0, 4.0 / math.sqrt(shape.d)
    if name.endswith("gate_up_proj_bias"):
        return 0.0, 1.0
    if name.endswith("experts.down_proj"):
        return 0.0, 0.3 / math.sqrt(shape.f)
    return llama.spread(name, shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_sliding_window(config.sliding_window)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def gguf_parts(name: str) -> list[str] | None:
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    known = {
        "self_attn.sinks": ["attn_sinks.weight"],
        "mlp.experts.gate_up_proj": ["ffn_gate_exps.weight", "ffn_up_exps.weight"],
        "mlp.experts.gate_up_proj_bias": ["ffn_gate_exps.bias", "ffn_up_exps.bias"],
        "mlp.experts.down_proj": ["ffn_down_exps.weight"],
        "mlp.experts.down_proj_bias": ["ffn_down_exps.bias"],
    }
    return [f"blk.{layer}.{tensor}" for tensor in known[part]] if part in known else None


def to_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    """Rows are outputs; gates, interleaved with up products in transformers, come first, in biases those of all experts."""
    if name.endswith("gate_up_proj_bias"):
        return np.concatenate([array[:, ::2], array[:, 1::2]])
    if name.endswith("gate_up_proj"):
        rows = array.swapaxes(1, 2)
        return np.ascontiguousarray(np.concatenate([rows[:, ::2], rows[:, 1::2]], axis=1))
    return np.ascontiguousarray(array.swapaxes(1, 2)) if name.endswith("experts.down_proj") else array


def from_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    if name.endswith("gate_up_proj_bias"):
        gates, ups = np.split(array, 2)
        return np.stack([gates, ups], axis=-1).reshape(len(gates), -1)
    if name.endswith("gate_up_proj"):
        gates, ups = np.split(array, 2, axis=1)
        return np.stack([gates, ups], axis=2).reshape(array.shape).swapaxes(1, 2)
    return array.swapaxes(1, 2) if name.endswith("experts.down_proj") else array
