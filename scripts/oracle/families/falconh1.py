"""FalconH1ForCausalLM: Falcon-H1, whose layers have attention and Mamba-2 side by side, and factors everywhere, which GGUF files hold multiplied in."""

import math
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import FalconH1Config, FalconH1ForCausalLM

from .. import recurrent
from ..shapes import Shape
from .llama import PLAIN_ROPE, nothing, sizes, sizes_metadata
from .llama import spread as usual

NAME = "falconh1"
ARCH = MODEL_ARCH.FALCON_H1
SHAPES = ("d64-state128", "d64-state32")
# This size has no norm after the scan, as most published ones.
PLAIN = "d64-state128"
HEADS = 4
INNER = 128
FACTORS = {
    "embedding_multiplier": 1.5,
    "lm_head_multiplier": 0.7,
    "mlp_multipliers": [0.8, 1.3],
    "key_multiplier": 0.6,
    "attention_in_multiplier": 1.2,
    "attention_out_multiplier": 0.9,
    "ssm_in_multiplier": 1.1,
    "ssm_out_multiplier": 0.8,
    # Factors of z, x, B, C and the steps.
    "ssm_multipliers": [0.7, 1.2, 0.9, 1.4, 0.6],
}
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> FalconH1Config:
    return FalconH1Config(
        # The head has another factor than the embedding, so GGUF files cannot tie them.
        **{**sizes(shape, tokens), "tie_word_embeddings": False},
        **FACTORS,
        pad_token_id=None,
        max_position_embeddings=shape.context,
        rope_parameters=PLAIN_ROPE,
        mamba_d_ssm=INNER,
        mamba_n_heads=HEADS,
        mamba_n_groups=1 if shape.name == PLAIN else shape.groups,
        mamba_d_state=shape.state,
        mamba_rms_norm=shape.name != PLAIN,
        mamba_norm_before_gate=False,
        # Two keys of published ones that transformers does not read.
        mamba_use_mlp=True,
        mlp_expansion_factor=8,
    )


def model(config: FalconH1Config) -> FalconH1ForCausalLM:
    return FalconH1ForCausalLM(config).eval()


def spread(name: str, shape: Shape) -> tuple[float, float]:
    if (recurrent_spread := recurrent.spread(name)) is not None:
        return recurrent_spread
    if name.endswith("mamba.out_proj.weight"):
        # Larger without a norm, where small values stay small.
        return 0.0, (6.0 if shape.name == PLAIN else 1.5) / math.sqrt(INNER)
    if name.endswith("o_proj.weight"):
        return 0.0, 2.0 / math.sqrt(shape.h * shape.e)
    return usual(name, shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    sizes_metadata(writer, config, head_width=True)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    recurrent.metadata(
        writer,
        conv=config.mamba_d_conv,
        state=config.mamba_d_state,
        groups=config.mamba_n_groups,
        inner=config.mamba_d_ssm,
        heads=config.mamba_n_heads,
    )


def factor(name: str, config: Any) -> float | np.ndarray:
    """The factor of a parameter, or of each of its rows, in a GGUF file."""
    kind = name.removesuffix(".weight").rpartition(".")[2]
    if kind == "in_proj":
        shared = config.mamba_n_groups * config.mamba_d_state
        rows = [config.mamba_d_ssm, config.mamba_d_ssm, shared, shared, config.mamba_n_heads]
        return np.repeat(np.array(config.ssm_multipliers, dtype=np.float32), rows)[:, None] * np.float32(config.ssm_in_multiplier)
    return {
        "embed_tokens": config.embedding_multiplier,
        "lm_head": config.lm_head_multiplier,
        "gate_proj": config.mlp_multipliers[0],
        "down_proj": config.mlp_multipliers[1],
        "q_proj": config.attention_in_multiplier,
        "k_proj": config.attention_in_multiplier * config.key_multiplier,
        "v_proj": config.attention_in_multiplier,
        "o_proj": config.attention_out_multiplier,
        "out_proj": config.ssm_out_multiplier,
    }.get(kind, 1.0)


def to_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    mamba = recurrent.mamba_to_gguf(name, array, config.mamba_n_groups)
    return array * factor(name, config) if mamba is None else mamba


def from_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    mamba = recurrent.mamba_from_gguf(name, array)
    return array / factor(name, config) if mamba is None else mamba


def gguf_parts(name: str) -> list[str] | None:
    return [f"blk.{name.split('.')[2]}.ssm_dt.bias"] if name.endswith("dt_bias") else None
