"""Ernie4_5ForCausalLM: Llama that rotates neighbours, in both formats."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import Ernie4_5Config, Ernie4_5ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, same, sizes, sizes_metadata, spread

__all__ = ["spread"]

NAME = "ernie4_5"
ARCH = MODEL_ARCH.ERNIE4_5
SHAPES = llama.PLAIN
extra_tensors = nothing
to_gguf = from_gguf = same


def config(shape: Shape, tokens: dict[str, int]) -> Ernie4_5Config:
    return Ernie4_5Config(**sizes(shape, tokens), pad_token_id=None, max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def model(config: Ernie4_5Config) -> Ernie4_5ForCausalLM:
    return Ernie4_5ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
