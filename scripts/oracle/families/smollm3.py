"""SmolLM3ForCausalLM: Llama in which every fourth layer does not rotate."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import SmolLM3Config, SmolLM3ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, sizes, sizes_metadata, spread

__all__ = ["spread"]

NAME = "smollm3"
ARCH = MODEL_ARCH.SMOLLM3
SHAPES = ("d64-deep", "d100-deep")
extra_tensors = nothing
# Rows of q and k are reordered as Llama's.
to_gguf, from_gguf = llama.to_gguf, llama.from_gguf


def config(shape: Shape, tokens: dict[str, int]) -> SmolLM3Config:
    return SmolLM3Config(**sizes(shape, tokens), pad_token_id=None, max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def model(config: SmolLM3Config) -> SmolLM3ForCausalLM:
    return SmolLM3ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
