"""MistralForCausalLM: Llama with a sliding window, as Mistral 7B v0.1 has it.

Published GGUF files of Mistral name the architecture llama and leave the window out: only folders have it.
"""

from transformers import MistralConfig, MistralForCausalLM

from ..shapes import Shape
from . import llama
from .llama import ARCH, PLAIN_ROPE, extra_tensors, from_gguf, metadata, sizes, spread, to_gguf

__all__ = ["ARCH", "extra_tensors", "from_gguf", "metadata", "spread", "to_gguf"]

NAME = "mistral"
FORMATS = ("safetensors",)
SHAPES = tuple(name for name in llama.PLAIN if "wide-heads" not in name)

# Shorter than most prompts, and no multiple of anything.
WINDOW = 21
# Room for prompts of several passes.
CONTEXT = 4096


def config(shape: Shape, tokens: dict[str, int]) -> MistralConfig:
    return MistralConfig(**sizes(shape, tokens), max_position_embeddings=CONTEXT, rope_parameters=PLAIN_ROPE, sliding_window=WINDOW)


def model(config: MistralConfig) -> MistralForCausalLM:
    return MistralForCausalLM(config).eval()
