"""StableLmForCausalLM: StableLM 2, with LayerNorm, biases of q, k and v, and partial rotation of heads."""

from gguf import MODEL_ARCH, GGUFWriter
from transformers import StableLmConfig, StableLmForCausalLM

from ..shapes import Shape
from . import llama
from .llama import PLAIN_ROPE, nothing, same, sizes_metadata, spread, square

__all__ = ["spread"]

NAME = "stablelm"
ARCH = MODEL_ARCH.STABLELM
SHAPES = llama.SQUARE
to_gguf = from_gguf = same
extra_tensors = nothing


def config(shape: Shape, tokens: dict[str, int]) -> StableLmConfig:
    return StableLmConfig(
        **{key: value for key, value in square(shape, tokens).items() if key != "rms_norm_eps"},
        layer_norm_eps=1e-5,
        use_qkv_bias=True,
        max_position_embeddings=shape.context,
        rope_parameters={**PLAIN_ROPE, "partial_rotary_factor": 0.25},
    )


def model(config: StableLmConfig) -> StableLmForCausalLM:
    return StableLmForCausalLM(config).eval()


def metadata(writer: GGUFWriter, config: StableLmConfig) -> None:
    sizes_metadata(writer, config)
    writer.add_rope_dimension_count(int(config.hidden_size // config.num_attention_heads * 0.25))
    writer.add_parallel_residual(False)
    writer.add_layer_norm_eps(config.layer_norm_eps)
