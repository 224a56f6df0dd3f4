"""A drawn picture with what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from PIL import Image

from ..skills.base import casual

PALETTE = {
    "red": (214, 40, 40), "blue": (38, 84, 214), "green": (40, 150, 60), "yellow": (247, 214, 40),
    "orange": (245, 130, 32), "purple": (130, 50, 170), "pink": (250, 130, 180), "black": (20, 20, 20),
    "white": (250, 250, 250), "gray": (135, 135, 135), "brown": (120, 72, 36),
}
Color = tuple[int, int, int]


@dataclass
class Asked:
    """A question with its answer; `short` is the bare result, where the system message asks for it."""

    question: str
    answer: str
    short: str


@dataclass
class Scene:
    kind: str
    keys: list[str]  # what is seen, in words of its content: split.py decides by them what is held out
    image: Image.Image
    whole: Asked  # what is answered to a picture without words, too
    others: list[Callable[[Random], Asked]] = field(default_factory=list)

    def ask(self, rng: Random, whole: float = 0.5) -> Asked:
        """A question; `whole` is how likely it is the one about the whole picture."""
        if not self.others or rng.random() < whole:
            return self.whole
        return rng.choice(self.others)(rng)


def asked(rng: Random, phrasings: tuple[str, ...], answer: str, short: str | None = None, **values: object) -> Asked:
    """One of the phrasings, filled in, as people type it."""
    question = casual(rng, rng.choice(phrasings).format(**values), names=any(isinstance(v, str) for v in values.values()))
    return Asked(question, answer, answer.rstrip(".") if short is None else short)


def near(rng: Random, color: Color, by: int = 22) -> Color:
    """A color that still has the same name."""
    shift = rng.randint(-by // 2, by // 2)
    return tuple(max(0, min(255, c + shift + rng.randint(-by // 2, by // 2))) for c in color)


def light(color: Color) -> float:
    return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]


def paper(rng: Random) -> tuple[str, Color]:
    """A background: its name and its color. Mostly white, as of paper and screens."""
    roll = rng.random()
    name = "white" if roll < 0.5 else "black" if roll < 0.6 else rng.choice(list(PALETTE))
    return name, near(rng, PALETTE[name], 14)


def distinct(color: Color, other: Color) -> bool:
    """Whether both can be told apart when one lies on the other."""
    far = sum((a - b) ** 2 for a, b in zip(color, other, strict=True)) ** 0.5
    return far > 110 and abs(light(color) - light(other)) > 32


def canvas_size(rng: Random, wide: float = 0.5) -> tuple[int, int]:
    """A size as of screenshots and photographs: squares, up to 2.5 times as wide as high, sometimes upright."""
    longest = rng.choice((240, 320, 320, 400, 480, 640))
    ratio = 1.0 if rng.random() > wide else rng.uniform(1.0, 2.5)
    other = max(96, int(longest / ratio))
    return (other, longest) if ratio > 1 and rng.random() < 0.12 else (longest, other)
