"""GraniteMoeForCausalLM: Granite 3 with experts."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import GraniteMoeConfig, GraniteMoeForCausalLM

from ..shapes import Shape
from . import granite, llama
from .granite import FACTORS
from .llama import PLAIN_ROPE, expert_parts, nothing, spread, square

__all__ = ["spread"]

NAME = "granitemoe"
ARCH = MODEL_ARCH.GRANITE_MOE
SHAPES = ("d64-tied", "d64-narrow", "d80", "d96-square", "d256")
EXPERTS = 5
USED = 2
to_gguf, from_gguf = llama.to_gguf, llama.from_gguf
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> GraniteMoeConfig:
    experts = {"num_local_experts": EXPERTS, "num_experts_per_tok": USED}
    return GraniteMoeConfig(**square(shape, tokens), **FACTORS, **experts, max_position_embeddings=shape.context, rope_parameters=PLAIN_ROPE)


def model(config: GraniteMoeConfig) -> GraniteMoeForCausalLM:
    return GraniteMoeForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    granite.metadata(writer, config)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)


def gguf_parts(name: str) -> list[str] | None:
    """The gguf package does not know the router's name."""
    return [f"blk.{name.split('.')[2]}.ffn_gate_inp.weight"] if name.endswith("router.weight") else expert_parts(name)
