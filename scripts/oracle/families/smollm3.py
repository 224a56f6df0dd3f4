"""SmolLM3ForCausalLM: Llama in which every fourth layer does not rotate."""

from gguf import MODEL_ARCH
from transformers import SmolLM3Config, SmolLM3ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, sizes, spread

__all__ = ["spread"]

NAME = "smollm3"
ARCH = MODEL_ARCH.SMOLLM3
SHAPES = ("d64-deep", "d100-deep")
extra_tensors = nothing
# Rows of q and k are reordered as Llama's.
to_gguf, from_gguf = llama.to_gguf, llama.from_gguf
metadata = llama.metadata


def config(shape: Shape, tokens: dict[str, int]) -> SmolLM3Config:
    return SmolLM3Config(**sizes(shape, tokens), pad_token_id=None, max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def model(config: SmolLM3Config) -> SmolLM3ForCausalLM:
    return SmolLM3ForCausalLM(config).eval()
