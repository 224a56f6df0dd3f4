"""All sizes and settings of what reads pictures, and of its training."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import ROOT

CARD_FILE = ROOT / "www/models/mmproj-box.md"
EYE_FILE = ROOT / "www/models/mmproj-box.gguf"
PICTURES_FOLDER = ROOT / "tests/data/box/pictures"


@dataclass(frozen=True)
class Eye:
    """A SigLIP tower and Idefics 3's projector: 6.6 million parameters."""

    layers: int = 7
    D: int = 256  # width
    H: int = 4  # heads
    F: int = 1024  # feed-forward width
    patch: int = 16  # pixels of a patch's side
    side: int = 20  # patches of a picture's side
    merge: int = 2  # patches of a side that become one row of the prompt
    norm_eps: float = 1e-6

    @property
    def pixels(self) -> int:
        return self.patch * self.side

    @property
    def rows(self) -> int:
        """Rows of the prompt that a picture takes."""
        return (self.side // self.merge) ** 2

    def parameters(self, width: int) -> int:
        block = 4 * (self.D * self.D + self.D) + 2 * self.D * self.F + self.F + self.D + 4 * self.D
        outside = (3 * self.patch**2 + 1) * self.D + self.side**2 * self.D + 2 * self.D
        return self.layers * block + outside + self.D * self.merge**2 * width


@dataclass(frozen=True)
class Training:
    seed: int = 20261130
    steps: int = 12_500
    chats: int = 96  # rows of two pictures a step
    length: int = 512  # tokens of such a row
    text_rows: int = 24  # rows of text alone a step, of Shape.C tokens
    warmup: int = 300
    decay: float = 0.4  # the last part of the steps, in which the rate falls to zero
    rate: float = 1e-3
    weight_decay: float = 0.05
    beta1: float = 0.9
    beta2: float = 0.98
    clip: float = 1.0


EYE = Eye()
TRAINING = Training()
