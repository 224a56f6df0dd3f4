"""Exaone4ForCausalLM: norms of layers' outputs, and of each head's queries and keys; deep ones have windows, and rotate only there."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import Exaone4Config, Exaone4ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, same, sizes, spread

__all__ = ["spread"]

NAME = "exaone4"
ARCH = MODEL_ARCH.EXAONE4
SHAPES = ("d64-deep", "d72", "d96", "d80", "d100-deep")
extra_tensors = nothing
to_gguf = from_gguf = same


def config(shape: Shape, tokens: dict[str, int]) -> Exaone4Config:
    window = {"sliding_window": 24, "sliding_window_pattern": 4} if shape.layers > 2 else {"sliding_window": None, "layer_types": ["full_attention"] * shape.layers}
    return Exaone4Config(**sizes(shape, tokens), **window, max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def model(config: Exaone4Config) -> Exaone4ForCausalLM:
    return Exaone4ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    llama.metadata(writer, config)
    if config.sliding_window:
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
