"""A sheet of training pictures, to look at."""

from __future__ import annotations

from pathlib import Path
from random import Random

from PIL import Image

from .config import EYE
from .prepare import pixels
from .talk import training_scene

COLUMNS, LINES, GAP = 8, 5, 6


def write(seed: int, folder: Path) -> None:
    rng, step = Random(f"sheet:{seed}"), EYE.pixels + GAP
    sheet = Image.new("RGB", (COLUMNS * step + GAP, LINES * step + GAP), (90, 0, 90))
    for i in range(COLUMNS * LINES):
        scene = training_scene(rng)
        sheet.paste(Image.fromarray(pixels(scene.image)), (i % COLUMNS * step + GAP, i // COLUMNS * step + GAP))
        print(f"{i}: {scene.whole.question} {scene.whole.answer}")
    folder.mkdir(parents=True, exist_ok=True)
    sheet.save(folder / "sheet.png")
