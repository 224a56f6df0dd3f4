"""Weight types: the GGML type of each tensor, and the weights after a round trip through it."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType, quants

from . import quantizers
from .errors import BadArguments
from .shapes import Shape

Q = GGMLQuantizationType


def mixed(name: str) -> GGMLQuantizationType:
    """Several types inside one layer, as the larger quantization mixes have: no two neighbours alike."""
    if name == "token_embd.weight":
        return Q.F16
    if name == "output.weight" or name.endswith("attn_v.weight"):
        return Q.Q8_0
    if name == "blk.0.ffn_down.weight":
        return Q.Q8_0
    if name == "blk.1.ffn_down.weight":
        return Q.BF16
    if name.endswith("ffn_up.weight"):
        return Q.F16
    return Q.Q4_0


def q4_k_m(name: str) -> GGMLQuantizationType:
    """As llama.cpp's Q4_K_M: the head, and V and down of some layers, have six bits; here gates have five, which is Q5_K_M's own."""
    if name in ("token_embd.weight", "output.weight") or name in ("blk.0.attn_v.weight", "blk.0.ffn_down.weight"):
        return Q.Q6_K
    return Q.Q5_K if name.endswith("ffn_gate.weight") or name == "blk.1.attn_v.weight" else Q.Q4_K


# Types that the engine's kernels read. Matrices of any other type become Q8_0 while they are loaded.
LISTS = tomllib.loads((Path(__file__).parents[2] / "shaders" / "variants.toml").read_text())["lists"]
NATIVE = {Q[name.upper()] for name in LISTS["floats"] + LISTS["quantized"] if name.upper() in Q.__members__}

# name -> (type of a matrix by its GGUF name, the file type that GGUF records)
TYPES: dict[str, tuple[Callable[[str], GGMLQuantizationType], LlamaFileType]] = {
    "f32": (lambda _: Q.F32, LlamaFileType.ALL_F32),
    "f16": (lambda _: Q.F16, LlamaFileType.MOSTLY_F16),
    "bf16": (lambda _: Q.BF16, LlamaFileType.MOSTLY_BF16),
    "q8_0": (lambda _: Q.Q8_0, LlamaFileType.MOSTLY_Q8_0),
    "q4_0": (lambda _: Q.Q4_0, LlamaFileType.MOSTLY_Q4_0),
    "q4_1": (lambda _: Q.Q4_1, LlamaFileType.MOSTLY_Q4_1),
    "q5_0": (lambda _: Q.Q5_0, LlamaFileType.MOSTLY_Q5_0),
    "q5_1": (lambda _: Q.Q5_1, LlamaFileType.MOSTLY_Q5_1),
    "q4_k_m": (q4_k_m, LlamaFileType.MOSTLY_Q4_K_M),
    "q2_k": (lambda _: Q.Q2_K, LlamaFileType.MOSTLY_Q2_K),
    "q3_k": (lambda _: Q.Q3_K, LlamaFileType.MOSTLY_Q3_K_M),
    "q5_k": (lambda _: Q.Q5_K, LlamaFileType.MOSTLY_Q5_K_M),
    "q6_k": (lambda _: Q.Q6_K, LlamaFileType.MOSTLY_Q6_K),
    "iq4_nl": (lambda _: Q.IQ4_NL, LlamaFileType.MOSTLY_IQ4_NL),
    "iq4_xs": (lambda _: Q.IQ4_XS, LlamaFileType.MOSTLY_IQ4_XS),
    "mxfp4": (lambda _: Q.MXFP4, LlamaFileType.MOSTLY_MXFP4_MOE),
    "mixed": (mixed, LlamaFileType.MOSTLY_Q4_0),
}

# Parts of the names of matrices that stay F32.
SINGLE = ("_norm", "gate_inp", "position_embd", "shortconv.conv", "ssm_conv1d")

# Types of safetensors files: the quantized types are GGUF's own.
SAFETENSORS_TYPES = ("f32", "f16", "bf16")


def type_of(weight_type: str, tensor: str, shape: tuple[int, ...]) -> GGMLQuantizationType:
    """The GGML type of a tensor. Vectors, norms, routers, learned positions, and weights of convolutions and states are F32 in real files."""
    if len(shape) == 1 or not tensor.endswith(".weight") or any(part in tensor for part in SINGLE):
        return Q.F32
    kind = TYPES[weight_type][0](tensor)
    # Where rows are no whole blocks, llama.cpp's converter writes halves.
    return kind if shape[-1] % GGML_QUANT_SIZES[kind][0] == 0 else Q.F16


def check(weight_type: str, file_format: str, shape: Shape) -> None:
    """Raises BadArguments where no such file exists."""
    if weight_type not in TYPES:
        raise BadArguments(f"no type is called {weight_type!r}; there are {', '.join(TYPES)}")
    if file_format == "safetensors" and weight_type not in SAFETENSORS_TYPES:
        raise BadArguments(f"safetensors holds {', '.join(SAFETENSORS_TYPES)}; {weight_type} needs --format gguf")
    # The type of most matrices has the longest blocks.
    block = GGML_QUANT_SIZES[TYPES[weight_type][0]("")][0]
    for letter, k in shape.reduced_widths().items():
        if k % block:
            raise BadArguments(f"{weight_type} has blocks of {block}, and {letter} = {k} of shape {shape.name} is no multiple")


def pack(weights: np.ndarray, kind: GGMLQuantizationType) -> np.ndarray:
    """(N, K) f32 -> the array that GGUFWriter stores: (N, K) f32 or f16, or (N, bytes of a row) u8."""
    return quantizers.quantize(weights, kind)


def unpack(stored: np.ndarray, kind: GGMLQuantizationType) -> np.ndarray:
    """The inverse of pack, with the type's rounding and, for types that the engine converts to Q8_0, that of Q8_0."""
    values = np.array(quants.dequantize(stored, kind), dtype=np.float32)
    return values if kind in NATIVE else quants.dequantize(quants.quantize(values, Q.Q8_0), Q.Q8_0)
