"""All sizes and settings of the model and its training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL_FILE = ROOT / "www/models/box.gguf"
CARD_FILE = ROOT / "www/models/box.md"
HELD_OUT_FILE = ROOT / "tests/data/box/heldout.jsonl"
TOKENIZER_FILE = ROOT / "tests/data/box/tokenizer.json"


@dataclass(frozen=True)
class Shape:
    """LlamaForCausalLM. 11.3 million parameters."""

    layers: int = 5
    D: int = 512  # model width
    H: int = 8  # query heads
    G: int = 2  # kv heads
    E: int = 64  # head width
    F: int = 768  # feed-forward width
    V: int = 4096  # vocabulary
    C: int = 1024  # context
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

    def parameters(self) -> int:
        attention = 2 * self.D * self.H * self.E + 2 * self.D * self.G * self.E
        return self.V * self.D + self.layers * (attention + 3 * self.D * self.F + 2 * self.D) + self.D


@dataclass(frozen=True)
class Training:
    seed: int = 20261121
    rows: int = 64  # sequences of Shape.C tokens a step
    steps: int = 7500
    warmup: int = 200
    decay: float = 0.4  # the last part of the steps, in which the rate falls to zero
    rate: float = 2e-3
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.98
    clip: float = 1.0


SHAPE = Shape()
TRAINING = Training()


def as_dict() -> dict:
    return {"shape": asdict(SHAPE), "training": asdict(TRAINING)}
