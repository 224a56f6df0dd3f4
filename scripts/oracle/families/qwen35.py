"""Qwen3_5ForConditionalGeneration: the language model of Qwen 3.5, 3.6 and 3.8, with a gated delta net in three of four layers.

Each head of such a layer keeps a matrix that maps keys to values; several heads of values share one of keys. Folders have the heads that
share next to each other, GGUF files those first that come first of each. A block that predicts one token more lies in both, to be left out.
"""

import math
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

from .. import recurrent
from ..shapes import Shape
from .llama import sizes, sizes_metadata
from .llama import spread as usual

NAME = "qwen35"
ARCH = MODEL_ARCH.QWEN35
SHAPES = ("d64-state128", "d64-state32")
KERNEL = 4
# The last of this many layers has attention.
INTERVAL = 4
ROTATED = 0.25
VISION = {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16, "num_position_embeddings": 16, "patch_size": 4}


def rope(shape: Shape) -> dict[str, Any]:
    """A quarter of each head rotates. The sections are interleaved, and for pictures: a text's positions are equal in all three."""
    sections = [len(range(axis, int(shape.e * ROTATED) // 2, 3)) for axis in range(3)]
    return {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": ROTATED, "mrope_interleaved": True, "mrope_section": sections}


def text_config(shape: Shape, tokens: dict[str, int]) -> dict[str, Any]:
    """With published keys that have no effect."""
    return {
        **{key: value for key, value in sizes(shape, tokens).items() if key != "attn_implementation"},
        "pad_token_id": None,
        "max_position_embeddings": shape.context,
        "rope_parameters": rope(shape),
        "layer_types": ["full_attention" if (layer + 1) % INTERVAL == 0 else "linear_attention" for layer in range(shape.layers)],
        "full_attention_interval": INTERVAL,
        "linear_num_key_heads": shape.groups,
        "linear_num_value_heads": shape.states,
        "linear_key_head_dim": shape.state,
        "linear_value_head_dim": shape.state,
        "linear_conv_kernel_dim": KERNEL,
        "attn_output_gate": True,
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
    }


def config(shape: Shape, tokens: dict[str, int]) -> Qwen3_5Config:
    return Qwen3_5Config(
        text_config=text_config(shape, tokens),
        vision_config={**VISION, "out_hidden_size": shape.d},
        tie_word_embeddings=shape.tied,
        attn_implementation="eager",
    )


def model(config: Qwen3_5Config) -> Qwen3_5ForConditionalGeneration:
    return Qwen3_5ForConditionalGeneration(config).eval()


def left_out(name: str) -> bool:
    return "visual." in name


def single(name: str) -> bool:
    return name.endswith(("A_log", "linear_attn.norm.weight"))


def plus_one(name: str) -> bool:
    """Whether a norm's weights are added to 1."""
    return "norm" in name and not name.endswith("linear_attn.norm.weight")


def spread(name: str, shape: Shape) -> tuple[float, float]:
    if left_out(name):
        return 0.0, 0.02
    if (recurrent_spread := recurrent.spread(name)) is not None:
        return recurrent_spread
    if name.endswith("linear_attn.out_proj.weight"):
        return 0.0, 1.5 / math.sqrt(shape.states * shape.state)
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        # One layer of four has attention: its scores and output have to be distinct.
        return 0.7, 0.25
    if plus_one(name):
        return 0.0, 0.25
    if name.endswith("o_proj.weight"):
        return 0.0, 3.0 / math.sqrt(shape.h * shape.e)
    return usual(name, shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    text = config.text_config
    mixers_metadata(writer, text)
    predicted = text.mtp_num_hidden_layers
    del writer.kv_data[0][f"{writer.arch}.block_count"]
    writer.add_block_count(text.num_hidden_layers + predicted)
    writer.add_nextn_predict_layers(predicted)


def mixers_metadata(writer: GGUFWriter, text: Any) -> None:
    sizes_metadata(writer, text, head_width=True)
    rope = text.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(text.head_dim * rope["partial_rotary_factor"]))
    if "mrope_section" in rope:
        writer.add_rope_dimension_sections([*rope["mrope_section"], 0])
    writer.add_layer_norm_rms_eps(text.rms_norm_eps)
    writer.add_full_attention_interval(text.full_attention_interval)
    writer.add_ssm_conv_kernel(text.linear_conv_kernel_dim)
    writer.add_ssm_state_size(text.linear_key_head_dim)
    writer.add_ssm_group_count(text.linear_num_key_heads)
    writer.add_ssm_time_step_rank(text.linear_num_value_heads)
    writer.add_ssm_inner_size(text.linear_value_head_dim * text.linear_num_value_heads)


def regrouped(array: np.ndarray, axis: int, first: int, second: int) -> np.ndarray:
    """Heads along an axis, `second` to each of `first`, as `first` to each of `second`."""
    shape = array.shape
    split = array.reshape(*shape[:axis], first, second, -1, *shape[axis + 1 :])
    return split.swapaxes(axis, axis + 1).reshape(shape)


def value_heads(name: str, array: np.ndarray, config: Any, back: bool) -> np.ndarray:
    """A parameter with its heads of values in the other format's order, where it has any."""
    text = getattr(config, "text_config", config)
    groups, each = text.linear_num_key_heads, text.linear_num_value_heads // text.linear_num_key_heads
    first, second = (each, groups) if back else (groups, each)
    kind = name.partition("linear_attn.")[2]
    if kind in ("in_proj_qkv.weight", "conv1d.weight"):
        keys = 2 * groups * text.linear_key_head_dim
        return np.concatenate([array[:keys], regrouped(array[keys:], 0, first, second)])
    if kind in ("in_proj_z.weight", "in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias"):
        return regrouped(array, 0, first, second)
    return regrouped(array, 1, first, second) if kind == "out_proj.weight" else array


def to_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    if name.endswith("A_log"):
        array = -np.exp(array)
    elif name.endswith("conv1d.weight"):
        array = array[:, 0]
    elif plus_one(name):
        array = array + 1
    return value_heads(name, array, config, back=False)


def from_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    array = value_heads(name, array, config, back=True)
    if name.endswith("A_log"):
        return np.log(-array)
    if name.endswith("conv1d.weight"):
        return array[:, None]
    return array - 1 if plus_one(name) else array


def layer_of(name: str) -> str:
    return name.partition(".layers.")[2].partition(".")[0]


def gguf_parts(name: str) -> list[str] | None:
    return [f"blk.{layer_of(name)}.ssm_dt.bias"] if name.endswith("dt_bias") else None


def unread_tensors(config: Any) -> dict[str, np.ndarray]:
    """The block that predicts the token after the next, a layer with attention: with right names and widths, but arbitrary weights."""
    text = config.text_config
    width, heads, kv = text.hidden_size, text.num_attention_heads * text.head_dim, text.num_key_value_heads * text.head_dim
    shapes = {
        "fc": (width, 2 * width),
        "pre_fc_norm_embedding": (width,),
        "pre_fc_norm_hidden": (width,),
        "norm": (width,),
        "layers.0.input_layernorm": (width,),
        "layers.0.post_attention_layernorm": (width,),
        "layers.0.self_attn.q_proj": (2 * heads, width),
        "layers.0.self_attn.k_proj": (kv, width),
        "layers.0.self_attn.v_proj": (kv, width),
        "layers.0.self_attn.o_proj": (width, heads),
        "layers.0.self_attn.q_norm": (text.head_dim,),
        "layers.0.self_attn.k_norm": (text.head_dim,),
        "layers.0.mlp.gate_proj": (text.intermediate_size, width),
        "layers.0.mlp.up_proj": (text.intermediate_size, width),
        "layers.0.mlp.down_proj": (width, text.intermediate_size),
    }
    generator = np.random.default_rng(len(shapes))
    return {f"mtp.{name}.weight": generator.standard_normal(shape, dtype=np.float32) / 8 for name, shape in shapes.items()}


PREDICTING = {
    "mtp.fc": "nextn.eh_proj",
    "mtp.pre_fc_norm_embedding": "nextn.enorm",
    "mtp.pre_fc_norm_hidden": "nextn.hnorm",
    "mtp.norm": "nextn.shared_head_norm",
    "mtp.layers.0.input_layernorm": "attn_norm",
    "mtp.layers.0.post_attention_layernorm": "post_attention_norm",
    "mtp.layers.0.self_attn.q_proj": "attn_q",
    "mtp.layers.0.self_attn.k_proj": "attn_k",
    "mtp.layers.0.self_attn.v_proj": "attn_v",
    "mtp.layers.0.self_attn.o_proj": "attn_output",
    "mtp.layers.0.self_attn.q_norm": "attn_q_norm",
    "mtp.layers.0.self_attn.k_norm": "attn_k_norm",
    "mtp.layers.0.mlp.gate_proj": "ffn_gate",
    "mtp.layers.0.mlp.up_proj": "ffn_up",
    "mtp.layers.0.mlp.down_proj": "ffn_down",
}


def extra_tensors(config: Any) -> dict[str, np.ndarray]:
    """The further block in GGUF's form: one layer after the last."""
    layer = config.text_config.num_hidden_layers
    tensors = {name.removesuffix(".weight"): array for name, array in unread_tensors(config).items()}
    return {f"blk.{layer}.{PREDICTING[name]}.weight": to_gguf(name, array, config) for name, array in tensors.items()}
