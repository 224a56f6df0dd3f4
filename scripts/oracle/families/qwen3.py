"""Qwen3ForCausalLM: a norm of each query and key; heads need not be D / H wide."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import Qwen3Config, Qwen3ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, same, sizes, sizes_metadata, spread

__all__ = ["spread"]

NAME = "qwen3"
ARCH = MODEL_ARCH.QWEN3
SHAPES = llama.PLAIN
to_gguf = from_gguf = same
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> Qwen3Config:
    return Qwen3Config(**sizes(shape, tokens), max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def model(config: Qwen3Config) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
