"""Gemma2ForCausalLM: norms around both halves of a layer, capped scores and logits, a window in every second layer."""

import math
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import Gemma2Config, Gemma2ForCausalLM

from ..shapes import SHAPES as ALL_SHAPES
from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, sizes, sizes_metadata

NAME = "gemma2"
ARCH = MODEL_ARCH.GEMMA2
SHAPES = tuple(name for name in llama.PLAIN if ALL_SHAPES[name].tied)
WINDOW = 21
extra_tensors = nothing


def gemma(shape: Shape, tokens: dict[str, int]) -> dict[str, Any]:
    """Keys of every Gemma's configuration."""
    more = {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": WINDOW, "pad_token_id": None}
    return {**sizes(shape, tokens), **more, "max_position_embeddings": shape.context, "query_pre_attn_scalar": shape.e}


def config(shape: Shape, tokens: dict[str, int]) -> Gemma2Config:
    return Gemma2Config(**gemma(shape, tokens), rope_parameters=PLAIN_ROPE, attn_logit_softcapping=5.0, final_logit_softcapping=2.0)


def model(config: Gemma2Config) -> Gemma2ForCausalLM:
    return Gemma2ForCausalLM(config).eval()


def spread(name: str, shape: Shape) -> tuple[float, float]:
    """Norms hold their difference from 1. Embeddings are scaled up, and as heads they must not outweigh the layers' outputs."""
    mean, deviation = llama.spread(name, shape)
    if "embed_tokens" in name:
        return 0.0, 0.5 / math.sqrt(shape.d)
    return (mean - 1.0, deviation) if "norm" in name else (mean, deviation)


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_sliding_window(config.sliding_window)


def to_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    """llama.cpp's norms hold the weights themselves."""
    return array + 1.0 if "norm" in name else array


def from_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    return array - 1.0 if "norm" in name else array
