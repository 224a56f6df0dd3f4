"""NemotronHForCausalLM with experts: Nemotron 3 Nano, each of whose layers is one mixer: Mamba-2, attention, or experts without gates."""

import math
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter
from transformers import NemotronHConfig, NemotronHForCausalLM

from .. import recurrent
from ..shapes import Shape
from . import llama
from .llama import nothing, sizes_metadata
from .llama import spread as usual

NAME = "nemotronhmoe"
ARCH = MODEL_ARCH.NEMOTRON_H_MOE
SHAPES = ("d64-mixers", "d64-state64")
# Kinds of layers, cut to a shape's number: M is Mamba-2, * attention, E experts, - a feed-forward.
PATTERN = "MEM*EME*"
EXPERTS = 5
USED = 2
SCALE = 1.7
HEADS = 4
HEAD_WIDTH = 32
extra_tensors = nothing


def common(shape: Shape, tokens: dict[str, int], pattern: str) -> dict[str, Any]:
    """Keys of configurations with and without experts. Nothing rotates."""
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.d,
        "hybrid_override_pattern": pattern[: shape.layers],
        "num_attention_heads": shape.h,
        "num_key_value_heads": shape.g,
        "head_dim": shape.e,
        "intermediate_size": shape.f,
        "ssm_state_size": shape.state,
        "mamba_num_heads": HEADS,
        "mamba_head_dim": HEAD_WIDTH,
        "n_groups": shape.groups,
        # 0.001 in published ones: transformers clamps a prompt's steps to that, but not those of decoding. No other
        # engine does.
        "time_step_min": 1e-30,
        "max_position_embeddings": shape.context,
        "tie_word_embeddings": shape.tied,
        "pad_token_id": None,
        "bos_token_id": tokens["bos"],
        "eos_token_id": tokens["eos"],
        "attn_implementation": "eager",
    }


def config(shape: Shape, tokens: dict[str, int]) -> NemotronHConfig:
    return NemotronHConfig(
        **common(shape, tokens, PATTERN),
        n_routed_experts=EXPERTS,
        num_experts_per_tok=USED,
        moe_intermediate_size=shape.f // 2,
        moe_shared_expert_intermediate_size=shape.f,
        routed_scaling_factor=SCALE,
    )


def model(config: NemotronHConfig) -> NemotronHForCausalLM:
    return NemotronHForCausalLM(config).eval()


def single(name: str) -> bool:
    return name.endswith("e_score_correction_bias")


def age(config: dict[str, Any]) -> None:
    """Published configurations name layers by letters, and have keys of rotations, without effect."""
    letters = {"linear_attention": "M", "full_attention": "*", "moe": "E", "mlp": "-"}
    kinds = config.pop("layers_block_type")
    config.update(
        hybrid_override_pattern="".join(letters[kind] for kind in kinds),
        num_hidden_layers=len(kinds),
        norm_eps=config["layer_norm_epsilon"],
        partial_rotary_factor=1.0,
        rope_theta=10000,
    )
    for key in ("mtp_layers_block_type", "rope_scaling", "time_step_limit"):
        config.pop(key, None)


def spread(name: str, shape: Shape) -> tuple[float, float]:
    if (recurrent_spread := recurrent.spread(name)) is not None:
        return recurrent_spread
    if name.endswith("mixer.out_proj.weight"):
        return 0.0, 1.5 / math.sqrt(HEADS * HEAD_WIDTH)
    for part, alike in (("embeddings", "embed_tokens"), ("mixer.gate.weight", "router")):
        name = name.replace(part, alike)
    return usual(name, shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    mixers_metadata(writer, config, [config.moe_intermediate_size if kind == "moe" else 0 for kind in config.layers_block_type])
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)


def mixers_metadata(writer: GGUFWriter, config: Any, feed_forward: list[int]) -> None:
    """Layers without kv heads and without a feed-forward have Mamba-2."""
    sizes_metadata(writer, config, head_width=True)
    for key in ("attention.head_count_kv", "feed_forward_length", "context_length"):
        del writer.kv_data[0][f"{writer.arch}.{key}"]
    writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in config.layers_block_type])
    writer.add_feed_forward_length(feed_forward)
    # The converter's values for models without rotations.
    writer.add_context_length(2**20)
    writer.add_rope_scaling_finetuned(False)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_vocab_size(config.vocab_size)
    recurrent.metadata(
        writer,
        conv=config.conv_kernel,
        state=config.ssm_state_size,
        groups=config.n_groups,
        inner=config.mamba_num_heads * config.mamba_head_dim,
        heads=config.mamba_num_heads,
    )


def to_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    mamba = recurrent.mamba_to_gguf(name, array, config.n_groups)
    return llama.to_gguf(name, array, config) if mamba is None else mamba


def from_gguf(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    mamba = recurrent.mamba_from_gguf(name, array)
    return llama.from_gguf(name, array, config) if mamba is None else mamba


# Names of a layer's parameters.
NAMES = {
    "norm.weight": "attn_norm.weight",
    "mixer.q_proj.weight": "attn_q.weight",
    "mixer.k_proj.weight": "attn_k.weight",
    "mixer.v_proj.weight": "attn_v.weight",
    "mixer.o_proj.weight": "attn_output.weight",
    "mixer.in_proj.weight": "ssm_in.weight",
    "mixer.conv1d.weight": "ssm_conv1d.weight",
    "mixer.conv1d.bias": "ssm_conv1d.bias",
    "mixer.dt_bias": "ssm_dt.bias",
    "mixer.A_log": "ssm_a",
    "mixer.D": "ssm_d",
    "mixer.norm.weight": "ssm_norm.weight",
    "mixer.out_proj.weight": "ssm_out.weight",
    "mixer.up_proj.weight": "ffn_up.weight",
    "mixer.down_proj.weight": "ffn_down.weight",
    "mixer.gate.weight": "ffn_gate_inp.weight",
    "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mixer.experts.up_proj": "ffn_up_exps.weight",
    "mixer.experts.down_proj": "ffn_down_exps.weight",
    "mixer.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
    "mixer.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
}
OTHERS = {"model.embeddings.weight": "token_embd.weight", "model.norm_f.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def gguf_parts(name: str) -> list[str] | None:
    """The gguf package only knows the names of published folders."""
    if name in OTHERS:
        return [OTHERS[name]]
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    return [f"blk.{layer}.{NAMES[rest]}"]
