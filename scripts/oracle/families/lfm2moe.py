"""Lfm2MoeForCausalLM: LFM2 whose later layers have experts, chosen by sigmoids plus a bias that only affects the choice."""

from typing import Any

from gguf import MODEL_ARCH, ExpertGatingFuncType, GGUFWriter
from transformers import Lfm2MoeConfig, Lfm2MoeForCausalLM

from ..shapes import Shape
from . import lfm2
from .llama import expert_parts, nothing

NAME = "lfm2moe"
ARCH = MODEL_ARCH.LFM2MOE
SCALED = "d64-square-five"
SHAPES = (*lfm2.SHAPES, SCALED)
EXPERTS = 5
USED = 2
# Number of dense layers before those with experts.
DENSE = 2
extra_tensors = nothing
to_gguf, from_gguf, spread = lfm2.to_gguf, lfm2.from_gguf, lfm2.spread


def config(shape: Shape, tokens: dict[str, int]) -> Lfm2MoeConfig:
    return Lfm2MoeConfig(
        **lfm2.common(shape, tokens),
        moe_intermediate_size=shape.f // 3,
        num_experts=EXPERTS,
        num_experts_per_tok=USED,
        num_dense_layers=DENSE,
        use_expert_bias=True,
        norm_topk_prob=True,
        # GGUF files have no key for this, so only a size with folders alone has it.
        routed_scaling_factor=1.5 if shape.name == SCALED else 1.0,
    )


def model(config: Lfm2MoeConfig) -> Lfm2MoeForCausalLM:
    return Lfm2MoeForCausalLM(config).eval()


def single(name: str) -> bool:
    return name.endswith("expert_bias")


def metadata(writer: GGUFWriter, config: Any) -> None:
    lfm2.mixers_metadata(writer, config)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_leading_dense_block_count(DENSE)
    writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)


def gguf_parts(name: str) -> list[str] | None:
    return [f"blk.{name.split('.')[2]}.exp_probs_b.bias"] if name.endswith("expert_bias") else expert_parts(name)
