"""GraniteMoeHybridForCausalLM without experts and without Mamba: the dense models of Granite 4."""

from typing import Any

from gguf import MODEL_ARCH, GGUFWriter
from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

from ..shapes import Shape
from . import granite, llama
from .granite import FACTORS
from .llama import PLAIN_ROPE, nothing, spread as usual, square

NAME = "granite4"
# llama.cpp's converter writes these as Granite 3, with keys of parts that they lack.
ARCH = MODEL_ARCH.GRANITE
SHAPES = llama.SQUARE
extra_tensors = nothing
to_gguf, from_gguf = llama.to_gguf, llama.from_gguf


def config(shape: Shape, tokens: dict[str, int]) -> GraniteMoeHybridConfig:
    return GraniteMoeHybridConfig(
        **square(shape, tokens),
        **FACTORS,
        max_position_embeddings=shape.context,
        # The narrowest shape has no rotations.
        position_embedding_type="nope" if shape.d == 64 else "rope",
        rope_parameters=PLAIN_ROPE,
        shared_intermediate_size=shape.f,
        num_local_experts=0,
        num_experts_per_tok=0,
        layer_types=["attention"] * shape.layers,
        mamba_n_heads=2,
        mamba_d_state=16,
    )


def model(config: GraniteMoeHybridConfig) -> GraniteMoeHybridForCausalLM:
    return GraniteMoeHybridForCausalLM(config).eval()


def spread(name: str, shape: Shape) -> tuple[float, float]:
    return usual(name.replace("output_linear", "down_proj"), shape)


def metadata(writer: GGUFWriter, config: Any) -> None:
    granite.metadata(writer, config)
    key = writer.kv_data[0]
    head_count_kv = f"{writer.arch}.attention.head_count_kv"
    del key[head_count_kv]
    writer.add_head_count_kv([config.num_key_value_heads] * config.num_hidden_layers)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_state_size(16)
    writer.add_ssm_group_count(1)
    writer.add_ssm_inner_size(2 * config.hidden_size)
    writer.add_ssm_time_step_rank(2)
    writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
    writer.add_rope_scaling_finetuned(config.position_embedding_type == "rope")


def gguf_parts(name: str) -> list[str] | None:
    layer = name.split(".")[2] if ".layers." in name else ""
    if name.endswith("shared_mlp.input_linear.weight"):
        return [f"blk.{layer}.ffn_gate.weight", f"blk.{layer}.ffn_up.weight"]
    return [f"blk.{layer}.ffn_down.weight"] if name.endswith("shared_mlp.output_linear.weight") else None


