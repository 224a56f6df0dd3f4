"""GraniteForCausalLM: Granite 3, Llama with factors of the embedding, of layers' outputs, of scores and of logits."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import GraniteConfig, GraniteForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, sizes_metadata, spread, square

__all__ = ["spread"]

NAME = "granite"
ARCH = MODEL_ARCH.GRANITE
SHAPES = llama.SQUARE
FACTORS = {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.25, "logits_scaling": 2.0}
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> GraniteConfig:
    return GraniteConfig(**square(shape, tokens), **FACTORS, max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def model(config: GraniteConfig) -> GraniteForCausalLM:
    return GraniteForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)


# Rows of q and k are reordered as Llama's.
to_gguf, from_gguf = llama.to_gguf, llama.from_gguf
