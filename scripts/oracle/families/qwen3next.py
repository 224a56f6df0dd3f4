"""Qwen3NextForCausalLM: the predecessor of Qwen 3.5, with experts, and with the products of a recurrent layer in two tensors.

Of each head of keys one holds the rows q, k, v of all heads that share it, and z of these; the other b and a of these. GGUF files divide the
first into q, k and v of all and z of all, and keep the second. Unlike Qwen 3.5's they keep the order of heads of values, too.
"""

from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

from ..shapes import Shape
from . import qwen35
from .llama import PLAIN_ROPE, expert_parts, nothing

NAME = "qwen3next"
ARCH = MODEL_ARCH.QWEN3NEXT
SHAPES = ("d64-state128", "d64-state32", "d64-state64")
EXPERTS = 4
USED = 2
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> Qwen3NextConfig:
    more = ("attn_output_gate", "mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings")
    return Qwen3NextConfig(
        **{key: value for key, value in qwen35.text_config(shape, tokens).items() if key not in (*more, "rope_parameters")},
        attn_implementation="eager",
        rope_parameters={**PLAIN_ROPE, "partial_rotary_factor": qwen35.ROTATED},
        num_experts=EXPERTS,
        num_experts_per_tok=USED,
        norm_topk_prob=True,
        moe_intermediate_size=shape.f // 2,
        shared_expert_intermediate_size=shape.f // 2,
    )


def model(config: Qwen3NextConfig) -> Qwen3NextForCausalLM:
    return Qwen3NextForCausalLM(config).eval()


def age(config: dict[str, Any]) -> None:
    """Published configurations have the interval of layers with attention."""
    del config["layer_types"]


def spread(name: str, shape: Shape) -> tuple[float, float]:
    return qwen35.spread(name.replace("shared_expert_gate", "router"), shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    qwen35.mixers_metadata(writer, config)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)


def widths(config: Any) -> list[int]:
    """Rows of q, k, v and z that each head of keys has."""
    keys, values = config.linear_key_head_dim, config.linear_value_head_dim * config.linear_num_value_heads // config.linear_num_key_heads
    return [keys, keys, values, values]


def part_rows(name: str, config: Any) -> list[int] | None:
    if not name.endswith("in_proj_qkvz.weight"):
        return None
    *qkv, z = (config.linear_num_key_heads * width for width in widths(config))
    return [sum(qkv), z]


def to_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    if name.endswith("A_log"):
        return -np.exp(array)
    if name.endswith("conv1d.weight"):
        return array[:, 0]
    if name.endswith("in_proj_qkvz.weight"):
        heads = array.reshape(config.linear_num_key_heads, -1, array.shape[1])
        kinds = np.split(heads, np.cumsum(widths(config))[:-1], axis=1)
        return np.concatenate([kind.reshape(-1, array.shape[1]) for kind in kinds])
    return array + 1 if qwen35.plus_one(name) else array


def from_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    if name.endswith("A_log"):
        return np.log(-array)
    if name.endswith("conv1d.weight"):
        return array[:, None]
    if name.endswith("in_proj_qkvz.weight"):
        heads = config.linear_num_key_heads
        kinds = np.split(array, np.cumsum([heads * width for width in widths(config)])[:-1])
        return np.concatenate([kind.reshape(heads, -1, array.shape[1]) for kind in kinds], axis=1).reshape(array.shape)
    return array - 1 if qwen35.plus_one(name) else array


def gguf_parts(name: str) -> list[str] | None:
    layer = qwen35.layer_of(name)
    if name.endswith("in_proj_qkvz.weight"):
        return [f"blk.{layer}.attn_qkv.weight", f"blk.{layer}.attn_gate.weight"]
    if name.endswith("in_proj_ba.weight"):
        return [f"blk.{layer}.ssm_ba.weight"]
    if name.endswith("shared_expert_gate.weight"):
        return [f"blk.{layer}.ffn_gate_inp_shexp.weight"]
    return qwen35.gguf_parts(name) or expert_parts(name)
