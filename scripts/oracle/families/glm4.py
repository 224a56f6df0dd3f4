"""Glm4ForCausalLM: norms around, half of each head rotated, neighbours together, gates and up rows in one tensor."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import Glm4Config, Glm4ForCausalLM

from ..shapes import Shape
from . import llama, phi3
from .llama import nothing, same, sizes, sizes_metadata, spread

__all__ = ["spread"]

NAME = "glm4"
ARCH = MODEL_ARCH.GLM4
SHAPES = llama.PLAIN
extra_tensors = nothing
to_gguf = from_gguf = same
gguf_parts = phi3.gguf_parts


def config(shape: Shape, tokens: dict[str, int]) -> Glm4Config:
    rope = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}
    # The default has biases of queries, keys and values.
    bias = {"attention_bias": False} if shape.tied else {}
    return Glm4Config(**sizes(shape, tokens), **bias, pad_token_id=None, max_position_embeddings=shape.context, rope_parameters=rope)


def model(config: Glm4Config) -> Glm4ForCausalLM:
    return Glm4ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim // 2)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
