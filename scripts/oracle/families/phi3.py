"""Phi3ForCausalLM: Phi-3, Phi-3.5 and Phi-4-mini, with q, k and v in one tensor, LongRoPE, and partial rotation of heads."""

import math

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import Phi3Config, Phi3ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import same, sizes_metadata, spread, square

__all__ = ["spread"]

NAME = "phi3"
ARCH = MODEL_ARCH.PHI3
SHAPES = tuple(name for name in llama.SQUARE if name != "d128-llama3")
# Short enough for tests to exceed it.
ORIGINAL = 64
to_gguf = from_gguf = same


def rotated(shape: Shape) -> int:
    """The rotated dimensions of a head: all in untied models, three quarters in tied ones, as in Phi-4-mini."""
    return int(shape.e * (0.75 if shape.tied else 1.0)) // 2 * 2


def config(shape: Shape, tokens: dict[str, int]) -> Phi3Config:
    half = rotated(shape) // 2
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [round(1.0 + 0.03 * i, 2) for i in range(half)],
        "long_factor": [round(1.1 + 0.4 * i, 2) for i in range(half)],
        "original_max_position_embeddings": ORIGINAL,
        "partial_rotary_factor": rotated(shape) / shape.e,
    }
    return Phi3Config(
        **square(shape, tokens),
        pad_token_id=None,
        max_position_embeddings=shape.context,
        original_max_position_embeddings=ORIGINAL,
        sliding_window=90,
        rope_parameters=rope,
    )


def model(config: Phi3Config) -> Phi3ForCausalLM:
    return Phi3ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Phi3Config) -> None:
    sizes_metadata(writer, config)
    rope = config.rope_parameters
    writer.add_rope_scaling_orig_ctx_len(ORIGINAL)
    writer.add_rope_dimension_count(2 * len(rope["short_factor"]))
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_sliding_window(config.sliding_window)
    factor = config.max_position_embeddings / ORIGINAL
    writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(factor) / math.log(ORIGINAL)))


def extra_tensors(config: Phi3Config) -> dict[str, np.ndarray]:
    rope = config.rope_parameters
    return {
        "rope_factors_long.weight": np.array(rope["long_factor"], dtype=np.float32),
        "rope_factors_short.weight": np.array(rope["short_factor"], dtype=np.float32),
    }


def gguf_parts(name: str) -> list[str] | None:
    """Gates and up rows are one tensor, which llama.cpp calls ffn_up."""
    return [f"blk.{name.split('.')[2]}.ffn_up.weight"] if name.endswith("gate_up_proj.weight") else None
