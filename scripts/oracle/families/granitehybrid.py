"""GraniteMoeHybridForCausalLM: the models of Granite 4 with Mamba-2 in most layers, here without experts."""

import math
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

from .. import recurrent
from ..shapes import Shape
from . import granite, granite4, llama
from .granite import FACTORS
from .llama import PLAIN_ROPE, nothing, square

NAME = "granitehybrid"
ARCH = MODEL_ARCH.GRANITE_HYBRID
SHAPES = ("d64-state128", "d64-state32")
# llama.cpp norms each group after the scan by itself, transformers all together. Published models have one group.
GROUPS = 1
HEADS = 4
KERNEL = 4
EXPAND = 2
ATTENTION = 2
# Tied models would repeat their input if layers added little.
MORE = {"embedding_multiplier": 0.6, "residual_multiplier": 0.7}
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> GraniteMoeHybridConfig:
    return GraniteMoeHybridConfig(**common(shape, tokens, GROUPS), num_local_experts=0, num_experts_per_tok=0)


def common(shape: Shape, tokens: dict[str, int], groups: int) -> dict[str, Any]:
    """Keys of configurations with and without experts. Nothing rotates."""
    return {
        **square(shape, tokens),
        **FACTORS,
        **MORE,
        "max_position_embeddings": shape.context,
        "position_embedding_type": "nope",
        "rope_parameters": PLAIN_ROPE,
        "shared_intermediate_size": shape.f,
        "layer_types": ["attention" if layer == ATTENTION else "mamba" for layer in range(shape.layers)],
        "mamba_n_heads": HEADS,
        "mamba_n_groups": groups,
        "mamba_d_state": shape.state,
        "mamba_d_conv": KERNEL,
        "mamba_expand": EXPAND,
    }


def model(config: GraniteMoeHybridConfig) -> GraniteMoeHybridForCausalLM:
    return GraniteMoeHybridForCausalLM(config).eval()


def age(config: dict[str, Any]) -> None:
    """Former names of layers, which transformers still accepts, and two redundant keys."""
    config["layer_types"] = [{"linear_attention": "mamba", "full_attention": "attention"}[kind] for kind in config["layer_types"]]
    config.update(init_method="mup", normalization_function="rmsnorm")
    del config["time_step_limit"]


def spread(name: str, shape: Shape) -> tuple[float, float]:
    if (recurrent_spread := recurrent.spread(name)) is not None:
        return recurrent_spread
    if name.endswith("mamba.out_proj.weight"):
        return 0.0, 1.5 / math.sqrt(EXPAND * shape.d)
    return granite4.spread(name, shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    granite.metadata(writer, config)
    kinds = ["full_attention", "linear_attention"]
    assert all(kind in kinds for kind in config.layer_types)
    for key in ("attention.head_count_kv", "context_length"):
        del writer.kv_data[0][f"{writer.arch}.{key}"]
    writer.add_head_count_kv([config.num_key_value_heads if kind == kinds[0] else 0 for kind in config.layer_types])
    # The converter's values for models without rotations.
    writer.add_context_length(2**20)
    writer.add_rope_scaling_finetuned(False)
    writer.add_expert_count(config.num_local_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
    recurrent.metadata(
        writer,
        conv=config.mamba_d_conv,
        state=config.mamba_d_state,
        groups=config.mamba_n_groups,
        inner=config.mamba_expand * config.hidden_size,
        heads=config.mamba_n_heads,
    )


def to_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    mamba = recurrent.mamba_to_gguf(name, array, config.mamba_n_groups)
    return llama.to_gguf(name, array, config) if mamba is None else mamba


def from_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    mamba = recurrent.mamba_from_gguf(name, array)
    return llama.from_gguf(name, array, config) if mamba is None else mamba


def gguf_parts(name: str) -> list[str] | None:
    if name.endswith("dt_bias"):
        return [f"blk.{name.split('.')[2]}.ssm_dt.bias"]
    return granite4.gguf_parts(name)
