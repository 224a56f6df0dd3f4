"""Olmo3ForCausalLM: OLMo 2 with windows in three of four layers; only layers without a window scale their rotations."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter, RopeScalingType
from transformers import Olmo3Config, Olmo3ForCausalLM

from ..shapes import Shape
from .llama import nothing, same, sizes, sizes_metadata, spread

__all__ = ["spread"]

NAME = "olmo3"
# llama.cpp has no name of its own for OLMo 3.
ARCH = MODEL_ARCH.OLMO2
SHAPES = ("d64-deep", "d100-deep")
extra_tensors = nothing
to_gguf = from_gguf = same
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0}


def config(shape: Shape, tokens: dict[str, int]) -> Olmo3Config:
    theta = {"rope_theta": 10000.0}
    rope = {"full_attention": {**theta, **YARN}, "sliding_attention": {**theta, "rope_type": "default"}}
    return Olmo3Config(**sizes(shape, tokens), pad_token_id=None, max_position_embeddings=shape.context, sliding_window=24, rope_parameters=rope)


def model(config: Olmo3Config) -> Olmo3ForCausalLM:
    return Olmo3ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    rope = config.rope_parameters["full_attention"]
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_attn_factors(rope["attention_factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
