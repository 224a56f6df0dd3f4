"""Writes a LoRA adapter with random weights, as PEFT saves it, for the shapes of random_gguf.py: what it costs does not depend on what it knows.

    python3 scripts/random_lora.py OUT_FOLDER --shape llama-3.2-1b --rank 16

All seven products of every layer are adapted, in halves. Needs numpy only.
"""

import argparse
import json
import struct
from pathlib import Path

import numpy as np
from random_gguf import SHAPES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--rank", type=int, default=16)
    args = parser.parse_args()
    layers, d, f, heads, groups, width, _ = SHAPES[args.shape]
    products = {
        "self_attn.q_proj": (heads * width, d),
        "self_attn.k_proj": (groups * width, d),
        "self_attn.v_proj": (groups * width, d),
        "self_attn.o_proj": (d, heads * width),
        "mlp.gate_proj": (f, d),
        "mlp.up_proj": (f, d),
        "mlp.down_proj": (d, f),
    }
    random = np.random.default_rng(0)
    header, data, at = {}, [], 0
    for layer in range(layers):
        for product, (n, k) in products.items():
            for side, shape in (("A", (args.rank, k)), ("B", (n, args.rank))):
                values = (random.standard_normal(shape) * 0.01).astype(np.float16).tobytes()
                name = f"base_model.model.model.layers.{layer}.{product}.lora_{side}.weight"
                header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + len(values)]}
                data.append(values)
                at += len(values)
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(written)) + written + b"".join(data))
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": args.rank,
        "lora_alpha": args.rank,
        "target_modules": [product.split(".")[1] for product in products],
        "bias": "none",
    }
    (args.out / "adapter_config.json").write_text(json.dumps(config, indent=2))
    print(f"{args.out}: {at / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
