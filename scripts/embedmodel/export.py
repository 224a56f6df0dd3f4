"""The student as GGUF under llama.cpp's names, matrices in Q8_0."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

from .config import SEED, SHAPE
from .tokenizer import CLS, MASK, PAD, SEP, SPECIAL, UNKNOWN


def write(student: Path, tokenizer: Path, to: Path) -> None:
    s = SHAPE
    vocabulary = json.loads(tokenizer.read_text())["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    to.parent.mkdir(parents=True, exist_ok=True)
    out = gguf.GGUFWriter(to, "bert")
    out.add_type("model")
    out.add_name("Millrace embedding model in the box")
    out.add_description(f"Made by scripts/embedmodel, seed {SEED}; taught by all-MiniLM-L6-v2.")
    out.add_size_label("7M")
    out.add_license("apache-2.0")
    out.add_languages(["en"])
    out.add_context_length(s.C)
    out.add_embedding_length(s.D)
    out.add_block_count(s.layers)
    out.add_feed_forward_length(s.F)
    out.add_head_count(s.H)
    out.add_layer_norm_eps(s.eps)
    out.add_causal_attention(False)
    out.add_pooling_type(gguf.PoolingType.MEAN)
    out.add_token_type_count(1)
    out.add_vocab_size(s.V)
    out.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    out.add_quantization_version(gguf.GGML_QUANT_VERSION)
    out.add_tokenizer_model("bert")
    out.add_tokenizer_pre("default")
    # llama.cpp marks the beginnings of words, not their continuations.
    out.add_token_list([t if t in SPECIAL else t[2:] if t.startswith("##") else "\u2581" + t for t in tokens])
    kinds = {t: gguf.TokenType.CONTROL for t in SPECIAL} | {UNKNOWN: gguf.TokenType.UNKNOWN}
    out.add_token_types([kinds.get(t, gguf.TokenType.NORMAL) for t in tokens])
    for add, token in ((out.add_bos_token_id, CLS), (out.add_sep_token_id, SEP), (out.add_pad_token_id, PAD), (out.add_mask_token_id, MASK)):
        add(vocabulary[token])
    out.add_unk_token_id(vocabulary[UNKNOWN])
    for name, values in np.load(student).items():
        if name == "about":
            continue
        values = values.astype(np.float32)
        if values.ndim == 2 and not name.startswith(("position_embd", "token_types")):
            kind = gguf.GGMLQuantizationType.Q8_0
            out.add_tensor(name, quantize(values, kind), raw_dtype=kind)
        else:
            out.add_tensor(name, values)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def read(model: Path) -> dict[str, np.ndarray]:
    """The weights as the file has them, in floats."""
    return {t.name: dequantize(t.data, t.tensor_type).astype(np.float32).reshape(tuple(t.shape[::-1])) for t in gguf.GGUFReader(model).tensors}
