"""Folders whose matrices lie in two tensors, as published ones do: 8-bit floats, or MXFP4 of gpt-oss' experts, and their scales.

Their values are computed by PyTorch and, for MXFP4, by transformers' own function.
"""

import json
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

# name -> the type of the other tensors
TYPES = {"f8": torch.bfloat16, "mxfp4": torch.bfloat16}

BLOCK = 128
LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}

Tensors = dict[str, torch.Tensor]


def pack(folder: Path, weight_type: str) -> Tensors:
    """Packs the tensors of a folder of one file, and returns their values, in f32."""
    path = folder / "model.safetensors"
    packed: Tensors = {}
    meant: Tensors = {}
    for index, (name, tensor) in enumerate(sorted(load_file(path).items())):
        if weight_type == "f8" and name.endswith("_proj.weight"):
            stored, meant[name] = eight_bits(name, tensor.float(), index)
        elif weight_type == "mxfp4" and name.endswith(("gate_up_proj", "down_proj")):
            stored, meant[name] = mxfp4(name, tensor.float())
        else:
            stored, meant[name] = {name: tensor}, tensor.float()
        packed |= stored
    save_file(packed, path, metadata={"format": "pt"})
    if weight_type == "f8":
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return meant


def eight_bits(name: str, values: torch.Tensor, index: int) -> tuple[Tensors, torch.Tensor]:
    """Alternates scales for each 128 rows and columns, for each row, and for all; some with five bits of exponent."""
    rows, columns = values.shape
    down, across = ((BLOCK, BLOCK), (1, columns), (rows, columns))[index % 3]
    kind = torch.float8_e5m2 if index % 4 == 3 else torch.float8_e4m3fn
    scales = torch.empty(-(-rows // down), -(-columns // across))
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            block = values[i * down : (i + 1) * down, j * across : (j + 1) * across]
            scales[i, j] = block.abs().max() / LARGEST[kind]
    # Published scales are bfloat16 where their names say inverse, f32 elsewhere.
    ending = "_scale_inv" if index % 3 != 1 else "_scale"
    scales = scales.to(torch.bfloat16) if ending == "_scale_inv" else scales
    wide = scales.float().repeat_interleave(down, 0)[:rows].repeat_interleave(across, 1)[:, :columns]
    stored = (values / wide).to(kind)
    tensors = {name: stored, name + ending: scales[0, 0] if index % 3 == 2 else scales}
    if index % 3 == 2:
        tensors[name.removesuffix("weight") + "activation_scale"] = torch.tensor(0.5)
    return tensors, (stored.float() * wide).to(torch.bfloat16).float()


def mxfp4(name: str, values: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Rows of outputs, where transformers has columns. The gguf package makes the blocks, whose halves are neighbours here."""
    rows = np.ascontiguousarray(values.transpose(1, 2).numpy())
    blocks = quants.quantize(rows, GGMLQuantizationType.MXFP4).reshape(*rows.shape[:2], -1, 17)
    numbers = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], axis=-1)
    pairs = torch.from_numpy(numbers[..., ::2] | numbers[..., 1::2] << 4)
    scales = torch.from_numpy(np.ascontiguousarray(blocks[..., 0]))
    meant = convert_moe_packed_tensors(pairs, scales, dtype=torch.float32)
    return {f"{name}_blocks": pairs.contiguous(), f"{name}_scales": scales}, meant
