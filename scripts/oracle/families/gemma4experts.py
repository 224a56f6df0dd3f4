"""Gemma4ForCausalLM as in its larger models: experts beside the usual network, and values from the keys' product."""

from typing import Any

from gguf import GGUFWriter
from transformers import Gemma4TextConfig

from ..shapes import Shape
from . import gemma4
from .gemma4 import ARCH, extra_tensors, from_gguf, gguf_parts, model, spread, to_gguf

__all__ = ["ARCH", "extra_tensors", "from_gguf", "gguf_parts", "model", "spread", "to_gguf"]

NAME = "gemma4experts"
# The first shape has heads as wide as published ones.
SHAPES = ("d64-heads512", "d32-experts")
EXPERTS = 5
USED = 2


def config(shape: Shape, tokens: dict[str, int]) -> Gemma4TextConfig:
    return Gemma4TextConfig(
        **gemma4.common(shape, tokens, ["sliding_attention", "full_attention"]),
        hidden_size_per_layer_input=0,
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
        enable_moe_block=True,
        num_experts=EXPERTS,
        top_k_experts=USED,
        moe_intermediate_size=shape.f // 2,
    )


def metadata(writer: GGUFWriter, config: Any) -> None:
    gemma4.metadata(writer, config)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
