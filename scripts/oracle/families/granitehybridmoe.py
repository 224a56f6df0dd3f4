"""GraniteMoeHybridForCausalLM: Granite 4 with Mamba-2, and with experts beside a shared one."""

from gguf import MODEL_ARCH
from transformers import GraniteMoeHybridConfig

from ..shapes import Shape
from . import granitehybrid, granitemoe
from .llama import nothing

NAME = "granitehybridmoe"
ARCH = MODEL_ARCH.GRANITE_HYBRID
SHAPES = ("d64-state32", "d64-state64")
# The second shape has two groups, whose heads have different B and C; its fixture is a folder only.
GROUPS = {"d64-state32": 1, "d64-state64": 2}
EXPERTS = 5
USED = 2
extra_tensors = nothing
age, metadata, model, spread = granitehybrid.age, granitehybrid.metadata, granitehybrid.model, granitehybrid.spread
to_gguf, from_gguf = granitehybrid.to_gguf, granitehybrid.from_gguf


def config(shape: Shape, tokens: dict[str, int]) -> GraniteMoeHybridConfig:
    sizes = {**granitehybrid.common(shape, tokens, GROUPS[shape.name]), "intermediate_size": shape.f // 2}
    return GraniteMoeHybridConfig(**sizes, num_local_experts=EXPERTS, num_experts_per_tok=USED)


def gguf_parts(name: str) -> list[str] | None:
    layer = name.partition(".layers.")[2].partition(".")[0]
    if name.endswith("shared_mlp.input_linear.weight"):
        return [f"blk.{layer}.ffn_gate_shexp.weight", f"blk.{layer}.ffn_up_shexp.weight"]
    if name.endswith("shared_mlp.output_linear.weight"):
        return [f"blk.{layer}.ffn_down_shexp.weight"]
    return granitemoe.gguf_parts(name) or granitehybrid.gguf_parts(name)
