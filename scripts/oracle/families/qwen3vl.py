"""Qwen3VLForConditionalGeneration: the language model of a vision model, which is Qwen 3."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from ..shapes import Shape
from . import llama
from .llama import nothing, same, sizes, sizes_metadata
from .llama import spread as usual

NAME = "qwen3vl"
ARCH = MODEL_ARCH.QWEN3VL
SHAPES = llama.PLAIN
extra_tensors = nothing
to_gguf = from_gguf = same


def config(shape: Shape, tokens: dict[str, int]) -> Qwen3VLConfig:
    pairs = shape.e // 2
    rope = {"rope_theta": 10000.0, "rope_type": "default", "mrope_interleaved": True, "mrope_section": [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]}
    text = {key: value for key, value in sizes(shape, tokens).items() if key not in ("tie_word_embeddings", "attn_implementation")}
    vision = {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16, "out_hidden_size": shape.d, "deepstack_visual_indexes": [0], "num_position_embeddings": 16, "patch_size": 4}
    return Qwen3VLConfig(
        text_config={**text, "max_position_embeddings": shape.context, "rope_parameters": rope, "pad_token_id": None},
        vision_config=vision,
        # Beside the language model's own configuration, as it is published.
        tie_word_embeddings=shape.tied,
        attn_implementation="eager",
    )


def model(config: Qwen3VLConfig) -> Qwen3VLForConditionalGeneration:
    return Qwen3VLForConditionalGeneration(config).eval()


def left_out(name: str) -> bool:
    return "visual." in name


def spread(name: str, shape: Shape) -> tuple[float, float]:
    return (0.0, 0.02) if left_out(name) else usual(name, shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    text = config.text_config
    sizes_metadata(writer, text, head_width=True)
    writer.add_rope_freq_base(text.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(text.rms_norm_eps)
    writer.add_rope_dimension_sections([*text.rope_parameters["mrope_section"], 0])
    writer.add_num_deepstack_layers(len(config.vision_config.deepstack_visual_indexes))
