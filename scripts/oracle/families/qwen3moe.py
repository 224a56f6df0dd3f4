"""Qwen3MoeForCausalLM: Qwen3 with experts, of which a router chooses a few for each token."""

from gguf import MODEL_ARCH, GGUFWriter
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from ..shapes import Shape
from . import qwen3
from .llama import PLAIN_ROPE, expert_parts, nothing, same, sizes, spread

__all__ = ["spread"]

NAME = "qwen3moe"
ARCH = MODEL_ARCH.QWEN3MOE
SHAPES = ("d64-tied", "d64-narrow", "d96", "d160-tied", "d256")
EXPERTS = 6
USED = 3
to_gguf = from_gguf = same
extra_tensors = nothing
gguf_parts = expert_parts


def config(shape: Shape, tokens: dict[str, int]) -> Qwen3MoeConfig:
    return Qwen3MoeConfig(
        **sizes(shape, tokens),
        max_position_embeddings=shape.context,
        rope_parameters=PLAIN_ROPE,
        moe_intermediate_size=shape.f,
        num_experts=EXPERTS,
        num_experts_per_tok=USED,
        norm_topk_prob=True,
    )


def model(config: Qwen3MoeConfig) -> Qwen3MoeForCausalLM:
    return Qwen3MoeForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Qwen3MoeConfig) -> None:
    qwen3.metadata(writer, config)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
