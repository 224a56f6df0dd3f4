"""HunYuanDenseV1ForCausalLM: a norm of each query and key after the rotation, whose base is stretched once for all."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter, RopeScalingType
from transformers import HunYuanDenseV1Config, HunYuanDenseV1ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import nothing, same, sizes, sizes_metadata, spread

__all__ = ["spread"]

NAME = "hunyuan"
ARCH = MODEL_ARCH.HUNYUAN_DENSE
SHAPES = llama.PLAIN
to_gguf = from_gguf = same
extra_tensors = nothing
ROPE = {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0}


def config(shape: Shape, tokens: dict[str, int]) -> HunYuanDenseV1Config:
    return HunYuanDenseV1Config(**sizes(shape, tokens), max_position_embeddings=shape.context, rope_parameters=ROPE)


def model(config: HunYuanDenseV1Config) -> HunYuanDenseV1ForCausalLM:
    return HunYuanDenseV1ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    width = config.head_dim
    writer.add_rope_freq_base(ROPE["rope_theta"] * ROPE["alpha"] ** (width / (width - 2)))
    writer.add_rope_scaling_type(RopeScalingType.NONE)
    writer.add_rope_scaling_factor(1)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
