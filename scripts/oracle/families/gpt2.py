"""GPT2LMHeadModel: LayerNorm, learned positions, biases everywhere, no gates; matrices are stored transposed."""

from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import GPT2Config, GPT2LMHeadModel

from ..shapes import SHAPES as ALL_SHAPES
from ..shapes import Shape
from . import llama
from .llama import nothing, spread

__all__ = ["spread"]

NAME = "gpt2"
ARCH = MODEL_ARCH.GPT2
SHAPES = tuple(name for name in llama.SQUARE if ALL_SHAPES[name].tied)
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> GPT2Config:
    return GPT2Config(
        vocab_size=shape.vocabulary,
        n_positions=shape.context,
        n_embd=shape.d,
        n_layer=shape.layers,
        n_head=shape.h,
        n_inner=shape.f,
        bos_token_id=tokens["bos"],
        eos_token_id=tokens["eos"],
        attn_implementation="eager",
    )


def model(config: GPT2Config) -> GPT2LMHeadModel:
    return GPT2LMHeadModel(config).eval()


def metadata(writer: GGUFWriter, config: GPT2Config) -> None:
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(config.n_inner)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)


def turned(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    """The weights of transformers' Conv1D are (K, N)."""
    return array.T if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) else array


to_gguf = from_gguf = turned
