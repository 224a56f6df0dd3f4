"""The checkpoint as Q8_0 GGUF under llama.cpp's names, and back again as f32 weights."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from tokenizers import Tokenizer

from .chat import END, END_OF_TEXT, PICTURE, SPECIAL, TEMPLATE
from .config import SHAPE, Shape
from .model import Llama

LICENSE = "apache-2.0"


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Reorders rows of q or k from rotation of halves to rotation of neighbours, llama.cpp's order."""
    rows, K = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, K).swapaxes(1, 2).reshape(rows, K)


def halve(weight: np.ndarray, heads: int) -> np.ndarray:
    """The inverse of `interleave`."""
    rows, K = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, K).swapaxes(1, 2).reshape(rows, K)


def heads_of(name: str, shape: Shape) -> int:
    """The number of heads of a tensor whose rows must be reordered; 0 for all other tensors."""
    return shape.H if name.endswith("attn_q.weight") else shape.G if name.endswith("attn_k.weight") else 0


def merges(tokenizer_file: Path) -> list[str]:
    pairs = json.loads(tokenizer_file.read_text())["model"]["merges"]
    return [pair if isinstance(pair, str) else " ".join(pair) for pair in pairs]


def write(state: dict[str, torch.Tensor], tokenizer: Tokenizer, tokenizer_file: Path, seed: int, path: Path) -> None:
    """Writes the model file."""
    s = SHAPE
    path.parent.mkdir(parents=True, exist_ok=True)
    out = gguf.GGUFWriter(path, "llama")
    out.add_type("model")
    out.add_name("Millrace model in the box")
    out.add_description(f"Trained by scripts/boxmodel on text that it generates, seed {seed}.")
    out.add_size_label("11M")
    out.add_languages(["en"])
    out.add_context_length(s.C)
    out.add_embedding_length(s.D)
    out.add_block_count(s.layers)
    out.add_feed_forward_length(s.F)
    out.add_head_count(s.H)
    out.add_head_count_kv(s.G)
    out.add_key_length(s.E)
    out.add_value_length(s.E)
    out.add_rope_dimension_count(s.E)
    out.add_rope_freq_base(s.rope_theta)
    out.add_layer_norm_rms_eps(s.norm_eps)
    out.add_vocab_size(s.V)
    out.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    out.add_quantization_version(gguf.GGML_QUANT_VERSION)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list([tokenizer.id_to_token(i) for i in range(s.V)])
    out.add_token_types([gguf.TokenType.CONTROL if tokenizer.id_to_token(i) in SPECIAL + PICTURE else gguf.TokenType.NORMAL
                         for i in range(s.V)])
    out.add_token_merges(merges(tokenizer_file))
    out.add_bos_token_id(tokenizer.token_to_id(END_OF_TEXT))
    out.add_eos_token_id(tokenizer.token_to_id(END))
    out.add_pad_token_id(tokenizer.token_to_id(END_OF_TEXT))
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)
    for name, tensor in state.items():
        weight = tensor.detach().float().cpu().numpy()
        if heads_of(name, s):
            weight = interleave(weight, heads_of(name, s))
        if weight.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            out.add_tensor(name, quantize(weight, kind), raw_dtype=kind)
        else:
            out.add_tensor(name, weight)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def read(path: Path) -> Llama:
    """The model with the weights dequantized from a model file written by `write`."""
    state = {}
    for tensor in gguf.GGUFReader(path).tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if heads_of(tensor.name, SHAPE):
            weight = halve(weight, heads_of(tensor.name, SHAPE))
        state[tensor.name] = torch.from_numpy(np.ascontiguousarray(weight))
    model = Llama(SHAPE)
    model.load_state_dict(state)
    return model.eval()
