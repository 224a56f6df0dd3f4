"""Lfm2ForCausalLM: LFM2 and LFM2.5, whose layers are short gated convolutions except for a few with attention."""

from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import Lfm2Config, Lfm2ForCausalLM

from ..shapes import Shape
from .llama import PLAIN_ROPE, nothing, sizes_metadata, square
from .llama import spread as usual

NAME = "lfm2"
ARCH = MODEL_ARCH.LFM2
SHAPES = ("d64-square-deep", "d128-square-deep")
extra_tensors = nothing
# Rows that a convolution mixes: its own and those before it.
KERNEL = 3
ATTENTION = (1, 4)


def layer_types(shape: Shape) -> list[str]:
    return ["full_attention" if layer in ATTENTION else "conv" for layer in range(shape.layers)]


def common(shape: Shape, tokens: dict[str, int]) -> dict[str, Any]:
    """Keys of configurations with and without experts."""
    sizes = square(shape, tokens)
    epsilon = sizes.pop("rms_norm_eps")
    return {
        **sizes,
        "norm_eps": epsilon,
        "pad_token_id": None,
        "max_position_embeddings": shape.context,
        "rope_parameters": PLAIN_ROPE,
        "layer_types": layer_types(shape),
        "conv_L_cache": KERNEL,
    }


def config(shape: Shape, tokens: dict[str, int]) -> Lfm2Config:
    """The width of the feed-forward is adjusted from a larger one: two thirds, times a factor, rounded up."""
    larger = {"intermediate_size": shape.f * 4 // 3 + 2, "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.05, "block_multiple_of": 32}
    return Lfm2Config(**{**common(shape, tokens), **larger})


def model(config: Lfm2Config) -> Lfm2ForCausalLM:
    return Lfm2ForCausalLM(config).eval()


def age(config: dict[str, Any]) -> None:
    """The keys of the first published folders, many of which do not affect the computation."""
    types = config.pop("layer_types")
    width, epsilon = config["hidden_size"], config["norm_eps"]
    config.update(
        full_attn_idxs=[layer for layer, kind in enumerate(types) if kind == "full_attention"],
        block_ff_dim=config.pop("intermediate_size"),
        tie_embedding=config.pop("tie_word_embeddings"),
        theta=config["rope_theta"],
        num_heads=config["num_attention_heads"],
        block_dim=width,
        conv_dim=width,
        conv_dim_out=width,
        block_norm_eps=epsilon,
        block_mlp_init_scale=1.0,
        block_out_init_scale=1.0,
        block_use_swiglu=True,
        block_use_xavier_init=True,
        conv_use_xavier_init=True,
        use_pos_enc=True,
    )


# Parts of LFM2's names -> names with the right spread.
ALIKE = {"self_attn.out_proj": "o_proj", "feed_forward.w2": "down_proj", "feed_forward.gate": "router", "_layernorm": "_norm"}


def spread(name: str, shape: Shape) -> tuple[float, float]:
    if name.endswith("conv.conv.weight"):
        return 0.0, 0.7
    if name.endswith("expert_bias"):
        # As widely spread as scores, so that the bias affects the choice.
        return 0.0, 0.4
    for part, alike in ALIKE.items():
        name = name.replace(part, alike)
    return usual(name, shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    mixers_metadata(writer, config)
    feed_forward = model(config).model.layers[0].feed_forward.w1.out_features
    del writer.kv_data[0][f"{writer.arch}.feed_forward_length"]
    writer.add_feed_forward_length(feed_forward)


def mixers_metadata(writer: GGUFWriter, config: Any) -> None:
    """Layers with a convolution are marked by having no kv heads."""
    sizes_metadata(writer, config)
    del writer.kv_data[0][f"{writer.arch}.attention.head_count_kv"]
    writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in config.layer_types])
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_shortconv_l_cache(config.conv_L_cache)


def to_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    return array[:, 0] if name.endswith("conv.conv.weight") else array


def from_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    return array[:, None] if name.endswith("conv.conv.weight") else array
