"""Qwen3_5MoeForCausalLM: Qwen 3.5 with experts, one of which is shared and weighted by a gate of its own."""

from typing import Any

import torch
from gguf import MODEL_ARCH, GGUFWriter
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

from ..shapes import Shape
from . import qwen35
from .llama import expert_parts, nothing

NAME = "qwen35moe"
ARCH = MODEL_ARCH.QWEN35MOE
# The last shape has as many heads of values as of keys.
SHAPES = ("d64-state128", "d64-state32", "d64-state64")
EXPERTS = 8
USED = 2
extra_tensors = nothing
to_gguf, from_gguf, single = qwen35.to_gguf, qwen35.from_gguf, qwen35.single


def config(shape: Shape, tokens: dict[str, int]) -> Qwen3_5MoeTextConfig:
    text = {key: value for key, value in qwen35.text_config(shape, tokens).items() if key != "intermediate_size"}
    experts = {"num_experts": EXPERTS, "num_experts_per_tok": USED, "moe_intermediate_size": shape.f // 2, "shared_expert_intermediate_size": shape.f}
    return Qwen3_5MoeTextConfig(**text, **experts, attn_implementation="eager")


def model(config: Qwen3_5MoeTextConfig) -> Qwen3_5MoeForCausalLM:
    return Qwen3_5MoeForCausalLM(config).eval()


def spread(name: str, shape: Shape) -> tuple[float, float]:
    return qwen35.spread(name.replace("shared_expert_gate", "router"), shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    qwen35.mixers_metadata(writer, config)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    # Written by newer converters, beside the interval.
    writer.add_array(f"{writer.arch}.attention.recurrent_layers", [kind == "linear_attention" for kind in config.layer_types])


def arranged(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All experts of a layer in two tensors, gates' rows before up's, whose names lack the usual ending."""
    merged = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    for start in sorted({name.partition(".experts.")[0] for name in tensors if ".experts." in name}):
        gate, up, down = ([tensors[f"{start}.experts.{expert}.{kind}_proj.weight"] for expert in range(EXPERTS)] for kind in ("gate", "up", "down"))
        merged[f"{start}.experts.gate_up_proj"] = torch.cat([torch.stack(gate), torch.stack(up)], dim=1)
        merged[f"{start}.experts.down_proj"] = torch.stack(down)
    return merged


def gguf_parts(name: str) -> list[str] | None:
    if name.endswith("shared_expert_gate.weight"):
        return [f"blk.{qwen35.layer_of(name)}.ffn_gate_inp_shexp.weight"]
    return qwen35.gguf_parts(name) or expert_parts(name)
