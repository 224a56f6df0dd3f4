"""MiniCPM, whose class transformers lacks: Granite's computes the same, with other names of the factors."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import GraniteConfig

from ..shapes import Shape
from . import granite, llama
from .llama import PLAIN_ROPE, nothing, sizes_metadata, spread, square

__all__ = ["spread"]

NAME = "minicpm"
ARCH = MODEL_ARCH.MINICPM
SHAPES = llama.SQUARE
FORMATS = ("gguf",)
extra_tensors = nothing
model = granite.model
to_gguf, from_gguf = llama.to_gguf, llama.from_gguf


def config(shape: Shape, tokens: dict[str, int]) -> GraniteConfig:
    factors = {
        "embedding_multiplier": 3.0,
        "residual_multiplier": 0.9 / shape.layers**0.5,
        "attention_multiplier": shape.e**-0.5,
        "logits_scaling": shape.d / 32,
    }
    return GraniteConfig(**square(shape, tokens), **factors, max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)
