"""NemotronHForCausalLM: Nemotron-H and Nemotron Nano 2, each of whose layers is one mixer: Mamba-2, attention, or a feed-forward without a gate."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import NemotronHConfig

from ..shapes import Shape
from . import nemotronhmoe
from .llama import nothing

NAME = "nemotronh"
ARCH = MODEL_ARCH.NEMOTRON_H
SHAPES = ("d64-mixers", "d64-state128", "d64-state32")
PATTERN = "M-M*-M-*"
extra_tensors = nothing
model, spread, gguf_parts = nemotronhmoe.model, nemotronhmoe.spread, nemotronhmoe.gguf_parts
to_gguf, from_gguf = nemotronhmoe.to_gguf, nemotronhmoe.from_gguf


def config(shape: Shape, tokens: dict[str, int]) -> NemotronHConfig:
    return NemotronHConfig(**nemotronhmoe.common(shape, tokens, PATTERN))


def age(config: dict[str, Any]) -> None:
    nemotronhmoe.age(config)
    for key in [key for key in config if "moe" in key or "expert" in key or key in ("n_group", "topk_group", "norm_topk_prob", "routed_scaling_factor")]:
        del config[key]


def metadata(writer: GGUFWriter, config: Any) -> None:
    nemotronhmoe.mixers_metadata(writer, config, [config.intermediate_size if kind == "mlp" else 0 for kind in config.layers_block_type])
