"""Writes a GGUF file with random weights in the shape of a Llama, or of Qwen3-Embedding: what it costs to load and to run does not depend on what it knows.

    python3 scripts/random_gguf.py OUT.gguf --shape llama-3.1-8b --type q8_0

Needs numpy only. Blocks are random bytes under small scales, so that activations stay finite; one run of random rows is written again and again,
each matrix from another place of it. The tokenizer has the 256 bytes and made-up tokens.
"""

import argparse
import math
import struct
from pathlib import Path

import numpy as np

# layers, D, F, H, G, E, V
SHAPES = {
    "llama-3.1-8b": (32, 4096, 14336, 32, 8, 128, 128256),
    "llama-3.2-1b": (16, 2048, 8192, 32, 8, 64, 128256),
    "deep": (64, 64, 128, 2, 1, 32, 512),
    "layer": (1, 4096, 14336, 32, 8, 128, 1024),
    "qwen3-embedding-0.6b": (28, 1024, 3072, 16, 8, 128, 151669),
}

# name -> GGML's number, values and bytes of a block, where its scales (halves) are
TYPES = {
    "f32": (0, 1, 4, None),
    "f16": (1, 1, 2, None),
    "bf16": (30, 1, 2, None),
    "q4_0": (2, 32, 18, [0]),
    "q4_1": (3, 32, 20, [0, 2]),
    "q5_0": (6, 32, 22, [0]),
    "q5_1": (7, 32, 24, [0, 2]),
    "q8_0": (8, 32, 34, [0]),
    "q2_k": (10, 256, 84, [80, 82]),
    "q3_k": (11, 256, 110, [108]),
    "q4_k": (12, 256, 144, [0, 2]),
    "q5_k": (13, 256, 176, [0, 2]),
    "q6_k": (14, 256, 210, [208]),
    "iq4_nl": (20, 32, 18, [0]),
    "iq4_xs": (23, 256, 136, [0]),
    "mxfp4": (39, 32, 17, None),
    "q1_0": (41, 128, 18, [0]),
    "q2_0": (42, 64, 18, [0]),
    "iq2_xs": (17, 256, 74, [0]),
    "iq3_s": (21, 256, 110, [0]),
    "tq2_0": (35, 256, 66, [64]),
}

RUN = 64 << 20  # bytes that are random


def run_of(kind: str) -> bytes:
    """About RUN bytes of random blocks."""
    _, values, size, halves = TYPES[kind]
    random = np.random.default_rng(0)
    if kind in ("f32", "f16", "bf16"):
        x = (random.standard_normal(RUN // size, dtype=np.float32) * 0.02).astype(np.float32)
        return (x if kind == "f32" else x.astype(np.float16) if kind == "f16" else (x.view(np.uint32) >> 16).astype(np.uint16)).tobytes()
    blocks = random.integers(0, 256, (RUN // size, size), dtype=np.uint8)
    for at in halves or []:
        # A super-block's scale is multiplied by another of six or eight bits.
        scale = np.float16(2e-5 if values == 256 else 2e-4)
        blocks[:, at : at + 2] = np.frombuffer(scale.tobytes(), np.uint8)
    if kind == "mxfp4":
        blocks[:, 0] = 120
    return blocks.tobytes()


def text(s: str) -> bytes:
    return struct.pack("<Q", len(s.encode())) + s.encode()


def pair(key: str, value) -> bytes:
    match value:
        case str():
            return text(key) + struct.pack("<I", 8) + text(value)
        case float():
            return text(key) + struct.pack("<If", 6, value)
        case bool():
            return text(key) + struct.pack("<I?", 7, value)
        case int():
            return text(key) + struct.pack("<II", 4, value)
        case [str(), *_]:
            return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        case [float(), *_]:
            return text(key) + struct.pack("<IIQ", 9, 6, len(value)) + struct.pack(f"<{len(value)}f", *value)
        case [int(), *_]:
            return text(key) + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    raise TypeError(key)


def byte_tokens() -> list[str]:
    """The letters by which byte-level tokenizers write bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) if b in plain else chr(256 + [x for x in range(256) if x not in plain].index(b)) for b in range(256)]


def tokenizer(v: int, control: tuple[str, ...] = ()) -> dict:
    """Of `v` tokens, the last ones before the end token by these names."""
    tokens = byte_tokens() + [f"<{i}>" for i in range(v - 256)]
    tokens[v - 1 - len(control) : v - 1] = control
    pairs = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": tokens,
        # 3: control.
        "tokenizer.ggml.token_type": [1] * (v - 1 - len(control)) + [3] * len(control) + [1],
        "tokenizer.ggml.merges": [f"{tokens[0]} {tokens[1]}"],
        "tokenizer.ggml.eos_token_id": v - 1,
        "tokenizer.chat_template": "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}",
    }
    # The merge needs its result.
    tokens[256] = tokens[0] + tokens[1]
    return pairs


def write(out: Path, pairs: dict, tensors: list[tuple]) -> None:
    """Of each tensor its name, its shape with rows last, its type and its value: a number, an array, or None for random blocks."""
    table, offset, lengths = b"", 0, []
    for name, shape, kind, _ in tensors:
        number, values, size, _ = TYPES[kind]
        length = math.prod(shape) // values * size
        table += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", number, offset)
        lengths.append(length)
        offset += (length + 31) // 32 * 32
    runs = {kind: memoryview(run_of(kind)) for kind in {kind for _, _, kind, value in tensors if value is None}}
    with out.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pair(*item) for item in pairs.items()) + table)
        file.write(bytes(-file.tell() % 32))
        for i, ((_, shape, kind, value), length) in enumerate(zip(tensors, lengths, strict=True)):
            if value is not None:
                file.write(np.broadcast_to(np.float32(value), shape).tobytes())
                file.write(bytes(-length % 32))
                continue
            size = TYPES[kind][2]
            whole = len(runs[kind]) // size * size
            at, left = i * 7919 * size % whole, length
            while left:
                piece = runs[kind][at : min(at + left, whole)]
                file.write(piece)
                left -= len(piece)
                at = 0
            file.write(bytes(-length % 32))
    print(f"{out}: {out.stat().st_size / 1e9:.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.1-8b")
    parser.add_argument("--type", choices=TYPES, default="q8_0")
    options = parser.parse_args()
    layers, d, f, h, g, e, v = SHAPES[options.shape]
    embeds = options.shape.startswith("qwen3")
    arch = "qwen3" if embeds else "llama"
    pairs = {
        "general.architecture": arch,
        "general.name": f"random {options.shape} {options.type}",
        f"{arch}.block_count": layers,
        f"{arch}.context_length": 8192,
        f"{arch}.embedding_length": d,
        f"{arch}.feed_forward_length": f,
        f"{arch}.attention.head_count": h,
        f"{arch}.attention.head_count_kv": g,
        f"{arch}.attention.key_length": e,
        f"{arch}.attention.value_length": e,
        f"{arch}.rope.freq_base": 500000.0,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        **tokenizer(v),
        # 3: a text is its last token.
        **({"qwen3.pooling_type": 3} if embeds else {}),
    }
    tensors = [("token_embd.weight", (v, d)), ("output_norm.weight", (d,))]
    for i in range(layers):
        tensors += [
            (f"blk.{i}.attn_norm.weight", (d,)),
            (f"blk.{i}.attn_q.weight", (h * e, d)),
            (f"blk.{i}.attn_k.weight", (g * e, d)),
            (f"blk.{i}.attn_v.weight", (g * e, d)),
            (f"blk.{i}.attn_output.weight", (d, h * e)),
            (f"blk.{i}.ffn_norm.weight", (d,)),
            (f"blk.{i}.ffn_gate.weight", (f, d)),
            (f"blk.{i}.ffn_up.weight", (f, d)),
            (f"blk.{i}.ffn_down.weight", (d, f)),
        ]
        if embeds:
            tensors += [(f"blk.{i}.attn_{part}_norm.weight", (e,)) for part in "qk"]
    if not embeds:
        tensors.append(("output.weight", (v, d)))
    write(options.out, pairs, [(name, shape, *(("f32", 1.0) if len(shape) == 1 else (options.type, None))) for name, shape in tensors])


if __name__ == "__main__":
    main()
