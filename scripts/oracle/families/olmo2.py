"""Olmo2ForCausalLM: norms of layers' outputs, and of all queries and all keys."""

from gguf import MODEL_ARCH, GGUFWriter
from transformers import Olmo2Config, Olmo2ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, same, sizes_metadata, spread, square

__all__ = ["spread"]

NAME = "olmo2"
ARCH = MODEL_ARCH.OLMO2
SHAPES = llama.SQUARE
to_gguf = from_gguf = same
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> Olmo2Config:
    return Olmo2Config(**square(shape, tokens), pad_token_id=None, max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def model(config: Olmo2Config) -> Olmo2ForCausalLM:
    return Olmo2ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Olmo2Config) -> None:
    sizes_metadata(writer, config)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
