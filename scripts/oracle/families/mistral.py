"""MistralForCausalLM: Llama with a sliding window, as Mistral 7B v0.1 has it.

Published GGUF files of Mistral name the architecture llama and leave the window out: only folders have it.
"""

from transformers import MistralConfig, MistralForCausalLM

from ..shapes import Shape
from . import llama
from .llama import ARCH, extra_tensors, from_gguf, metadata, spread, to_gguf

__all__ = ["ARCH", "extra_tensors", "from_gguf", "metadata", "spread", "to_gguf"]

NAME = "mistral"
FORMATS = ("safetensors",)
SHAPES = tuple(name for name in llama.SHAPES if "llama3" not in name and "wide-heads" not in name)

# Shorter than most prompts, and no multiple of anything.
WINDOW = 21
# Room for prompts of several passes.
CONTEXT = 4096


def config(shape: Shape, tokens: dict[str, int]) -> MistralConfig:
    return MistralConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.d,
        intermediate_size=shape.f,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.h,
        num_key_value_heads=shape.g,
        head_dim=shape.e,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=shape.tied,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default"},
        sliding_window=WINDOW,
        bos_token_id=tokens["bos"],
        eos_token_id=tokens["eos"],
        attn_implementation="eager",
    )


def model(config: MistralConfig) -> MistralForCausalLM:
    return MistralForCausalLM(config).eval()
