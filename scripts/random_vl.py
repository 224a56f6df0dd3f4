"""A random model that reads pictures, in the shapes of LFM2.5-VL-450M, as a folder: for measuring, since published weights need a download.

    python3 scripts/random_vl.py OUTDIR [--tokenizer tests/data/oracle/lfm2vl-hf/model]

Needs numpy alone. Weights are BF16, drawn so that numbers stay small; what it says is noise.
"""

import argparse
import json
import shutil
import struct
from pathlib import Path

import numpy as np

TEXT = {"D": 1024, "L": 16, "H": 16, "G": 8, "F": 4608, "V": 65536, "attention": (2, 5, 8, 10, 12, 14)}
VISION = {"D": 768, "F": 3072, "L": 12, "H": 12, "patch": 16, "positions": 256}
PROJECTOR = 2048


def tensors():
    """Names, shapes, and whether each is a norm's weight."""
    d, f, e = TEXT["D"], TEXT["F"], TEXT["D"] // TEXT["H"]
    text = "model.language_model."
    yield text + "embed_tokens.weight", (TEXT["V"], d), False
    yield text + "embedding_norm.weight", (d,), True
    for i in range(TEXT["L"]):
        at = f"{text}layers.{i}."
        yield at + "operator_norm.weight", (d,), True
        yield at + "ffn_norm.weight", (d,), True
        if i in TEXT["attention"]:
            yield at + "self_attn.q_proj.weight", (d, d), False
            yield at + "self_attn.k_proj.weight", (TEXT["G"] * e, d), False
            yield at + "self_attn.v_proj.weight", (TEXT["G"] * e, d), False
            yield at + "self_attn.out_proj.weight", (d, d), False
            yield at + "self_attn.q_layernorm.weight", (e,), True
            yield at + "self_attn.k_layernorm.weight", (e,), True
        else:
            yield at + "conv.in_proj.weight", (3 * d, d), False
            yield at + "conv.conv.weight", (d, 1, 3), False
            yield at + "conv.out_proj.weight", (d, d), False
        yield at + "feed_forward.w1.weight", (f, d), False
        yield at + "feed_forward.w3.weight", (f, d), False
        yield at + "feed_forward.w2.weight", (d, f), False
    d, f = VISION["D"], VISION["F"]
    tower = "model.vision_tower.vision_model."
    yield tower + "embeddings.patch_embedding.weight", (d, 3 * VISION["patch"] ** 2), False
    yield tower + "embeddings.patch_embedding.bias", (d,), False
    yield tower + "embeddings.position_embedding.weight", (VISION["positions"], d), False
    for i in range(VISION["L"]):
        at = f"{tower}encoder.layers.{i}."
        for part, n, k in [("self_attn.q_proj", d, d), ("self_attn.k_proj", d, d), ("self_attn.v_proj", d, d), ("self_attn.out_proj", d, d), ("mlp.fc1", f, d), ("mlp.fc2", d, f)]:
            yield f"{at}{part}.weight", (n, k), False
            yield f"{at}{part}.bias", (n,), False
        for part in ("layer_norm1", "layer_norm2"):
            yield f"{at}{part}.weight", (d,), True
            yield f"{at}{part}.bias", (d,), False
    yield tower + "post_layernorm.weight", (d,), True
    yield tower + "post_layernorm.bias", (d,), False
    for part, n, k in [("linear_1", PROJECTOR, 4 * d), ("linear_2", TEXT["D"], PROJECTOR)]:
        yield f"model.multi_modal_projector.{part}.weight", (n, k), False
        yield f"model.multi_modal_projector.{part}.bias", (n,), False


CONFIG = {
    "architectures": ["Lfm2VlForConditionalGeneration"],
    "model_type": "lfm2_vl",
    "downsample_factor": 2,
    "image_token_id": 396,
    "projector_hidden_size": PROJECTOR,
    "projector_hidden_act": "gelu",
    "projector_bias": True,
    "projector_use_layernorm": False,
    "text_config": {
        "model_type": "lfm2",
        "vocab_size": TEXT["V"],
        "hidden_size": TEXT["D"],
        "intermediate_size": 6656,
        "num_hidden_layers": TEXT["L"],
        "num_attention_heads": TEXT["H"],
        "num_key_value_heads": TEXT["G"],
        "max_position_embeddings": 128000,
        "norm_eps": 1e-5,
        "rope_theta": 1000000.0,
        "conv_L_cache": 3,
        "conv_bias": False,
        "block_auto_adjust_ff_dim": True,
        "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 256,
        "tie_word_embeddings": True,
        "layer_types": ["full_attention" if i in TEXT["attention"] else "conv" for i in range(TEXT["L"])],
    },
    "vision_config": {
        "model_type": "siglip2_vision_model",
        "hidden_size": VISION["D"],
        "intermediate_size": VISION["F"],
        "num_hidden_layers": VISION["L"],
        "num_attention_heads": VISION["H"],
        "num_channels": 3,
        "num_patches": VISION["positions"],
        "patch_size": VISION["patch"],
        "layer_norm_eps": 1e-6,
        "hidden_act": "gelu_pytorch_tanh",
        "vision_use_head": False,
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, default=Path("tests/data/oracle/lfm2vl-hf/model"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(given.tokenizer / name, given.out / name)
    (given.out / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    random = np.random.default_rng(1)
    header, at, listed = {}, 0, list(tensors())
    for name, shape, _ in listed:
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(given.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape, norm in listed:
            scale = 0.02 if len(shape) == 1 else 1.0 / np.sqrt(shape[-1] if len(shape) == 2 else 3)
            values = random.standard_normal(shape, dtype=np.float32) * np.float32(scale) + np.float32(norm)
            file.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())


if __name__ == "__main__":
    main()
