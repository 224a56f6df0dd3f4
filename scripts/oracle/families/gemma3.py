"""Gemma3ForCausalLM: five layers with a window for each one without, each kind with its own rotations; norms of queries and keys."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter, RopeScalingType
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from ..shapes import Shape
from .gemma2 import from_gguf, gemma, spread, to_gguf
from .llama import nothing, sizes_metadata

__all__ = ["from_gguf", "spread", "to_gguf"]

NAME = "gemma3"
ARCH = MODEL_ARCH.GEMMA3
SHAPES = ("d64-deep", "d100-deep")
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> Gemma3TextConfig:
    # The scaling is that of the larger models.
    scaling = {"rope_type": "linear", "factor": 8.0} if shape.layers > 6 else {"rope_type": "default"}
    rope = {"full_attention": {"rope_theta": 1000000.0, **scaling}, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}
    return Gemma3TextConfig(**gemma(shape, tokens), rope_parameters=rope)


def model(config: Gemma3TextConfig) -> Gemma3ForCausalLM:
    return Gemma3ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters["full_attention"]
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    writer.add_sliding_window(config.sliding_window)
