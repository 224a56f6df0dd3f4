"""The held-out pictures: in each one something is drawn that no picture of training has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random

from ..chat import IMAGE
from . import letters, shapes, tables
from .scene import Asked, Scene
from .talk import unseen_key

# (name in the card, how a scene is drawn, how many, how often the question is about the whole picture)
PLAN = (
    ("words", letters.words, 120, 0.7),
    ("words in unseen fonts", partial(letters.words, unseen=True), 60, 0.9),
    ("sums", letters.sums, 60, 0.7),
    ("shapes", shapes.placed, 120, 0.35),
    ("counts", shapes.crowd, 40, 0.3),
    ("tables", tables.table, 60, 0.3),
)
# Pictures of each that are kept for the tests.
KEPT = {"words": 6, "words in unseen fonts": 2, "sums": 4, "shapes": 7, "counts": 3, "tables": 4}


@dataclass
class Item:
    id: str
    skill: str
    scene: Scene
    asked: Asked
    keep: bool

    def messages(self) -> list[tuple[str, str]]:
        return [("user", IMAGE + self.asked.question)]


def items(seed: int) -> list[Item]:
    rng, out = Random(f"held-out pictures:{seed}"), []
    for name, sample, many, whole in PLAN:
        seen: set[tuple[str, ...]] = set()
        while len(seen) < many:
            scene = sample(rng)
            key = tuple(scene.keys)
            if key in seen or not any(map(unseen_key, scene.keys)):
                continue
            keep = len(seen) < KEPT[name]
            seen.add(key)
            out.append(Item(f"{name.replace(' ', '-')}-{len(out):03d}", name, scene, scene.ask(rng, whole), keep))
    return out
