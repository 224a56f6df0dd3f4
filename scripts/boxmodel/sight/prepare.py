"""From a picture of any size to the tower's pixels, as Idefics 3's processor does it where a picture is one tile."""

from __future__ import annotations

import numpy as np
from PIL import Image

from .config import EYE


def first_size(width: int, height: int, longest: int) -> tuple[int, int]:
    """The longer side becomes `longest`, the other one is even."""
    ratio = width / height
    even = lambda side: max(1, int(side) + int(side) % 2)
    return (longest, even(longest / ratio)) if width >= height else (even(longest * ratio), longest)


def pixels(image: Image.Image) -> np.ndarray:
    """(side, side, 3) bytes: first with the picture's own ratio, then square."""
    size = first_size(*image.size, EYE.pixels)
    if image.size != size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    if size != (EYE.pixels, EYE.pixels):
        image = image.resize((EYE.pixels, EYE.pixels), Image.Resampling.LANCZOS)
    return np.asarray(image)
