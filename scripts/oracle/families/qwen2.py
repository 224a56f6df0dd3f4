"""Qwen2ForCausalLM: Qwen2 and Qwen2.5, with biases of q, k and v."""

from gguf import MODEL_ARCH, GGUFWriter
from transformers import Qwen2Config, Qwen2ForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, same, sizes_metadata, spread, square

__all__ = ["spread"]

NAME = "qwen2"
ARCH = MODEL_ARCH.QWEN2
SHAPES = llama.SQUARE
to_gguf = from_gguf = same
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> Qwen2Config:
    return Qwen2Config(
        **square(shape, tokens),
        max_position_embeddings=shape.context,
        rope_parameters=PLAIN_ROPE,
        # As in published configurations: present, and switched off.
        sliding_window=32,
        use_sliding_window=False,
        max_window_layers=1,
    )


def model(config: Qwen2Config) -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: Qwen2Config) -> None:
    sizes_metadata(writer, config)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
