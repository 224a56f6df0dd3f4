"""What reads pictures as an mmproj file under llama.cpp's names, and back again as f32 weights."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize

from ..config import SHAPE
from .config import EYE
from .tower import Tower

# Only these are multiplied as Q8_0; patches and positions are F16 in every file of this kind.
HALVES = ("patch_embd.weight", "position_embd.weight")


def gguf_name(name: str) -> str:
    return "mm.model.fc.weight" if name == "fc.weight" else f"v.{name}"


def write(state: dict[str, torch.Tensor], seed: int, path: Path) -> None:
    e = EYE
    out = gguf.GGUFWriter(path, "clip")
    out.add_type("mmproj")
    out.add_name("What reads pictures for Millrace's model in the box")
    out.add_description(f"Trained by scripts/boxmodel on pictures that it draws, seed {seed}.")
    out.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    out.add_quantization_version(gguf.GGML_QUANT_VERSION)
    out.add_clip_has_vision_encoder(True)
    out.add_clip_projector_type(gguf.VisionProjectorType.IDEFICS3)
    out.add_vision_projection_dim(SHAPE.D)
    out.add_vision_image_size(e.pixels)
    out.add_vision_patch_size(e.patch)
    out.add_vision_embedding_length(e.D)
    out.add_vision_feed_forward_length(e.F)
    out.add_vision_block_count(e.layers)
    out.add_vision_head_count(e.H)
    out.add_vision_image_mean([0.5, 0.5, 0.5])
    out.add_vision_image_std([0.5, 0.5, 0.5])
    out.add_vision_attention_layernorm_eps(e.norm_eps)
    out.add_vision_projector_scale_factor(e.merge)
    out.add_vision_use_gelu(True)
    out.add_vision_preproc_image_size(e.pixels)
    for name, tensor in state.items():
        weight = tensor.detach().float().cpu().numpy()
        if name in HALVES:
            weight = weight.astype(np.float16)
            out.add_tensor(gguf_name(name), weight.reshape(e.D, 3, e.patch, e.patch) if "patch" in name else weight)
        elif weight.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            out.add_tensor(gguf_name(name), quantize(weight, kind), raw_dtype=kind)
        else:
            out.add_tensor(gguf_name(name), weight)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def read(path: Path) -> Tower:
    """The tower with the weights of a file written by `write`."""
    tower = Tower(EYE, SHAPE.D)
    names = {gguf_name(name): (name, p.shape) for name, p in tower.state_dict().items()}
    state = {}
    for tensor in gguf.GGUFReader(path).tensors:
        name, shape = names[tensor.name]
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        state[name] = torch.from_numpy(np.ascontiguousarray(weight)).view(shape)
    tower.load_state_dict(state)
    return tower.eval()
