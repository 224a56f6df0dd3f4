"""Ministral3ForCausalLM: Llama with YaRN without a factor of scores, and queries that grow beyond the original context."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter, RopeScalingType
from transformers import Ministral3Config, Ministral3ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import nothing, sizes, sizes_metadata, spread

__all__ = ["spread"]

NAME = "ministral3"
ARCH = MODEL_ARCH.MISTRAL3
SHAPES = llama.PLAIN
extra_tensors = nothing
# Rows of q and k are reordered as Llama's.
to_gguf, from_gguf = llama.to_gguf, llama.from_gguf
# Shorter than every prompt.
ORIGINAL = 16


def config(shape: Shape, tokens: dict[str, int]) -> Ministral3Config:
    rope = {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": shape.context / ORIGINAL,
        "original_max_position_embeddings": ORIGINAL,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.1,
    }
    return Ministral3Config(**sizes(shape, tokens), pad_token_id=None, max_position_embeddings=shape.context, rope_parameters=rope)


def model(config: Ministral3Config) -> Ministral3ForCausalLM:
    return Ministral3ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(ORIGINAL)
    writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
    writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
    writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
