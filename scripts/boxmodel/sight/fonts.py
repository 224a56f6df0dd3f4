"""The fonts of drawn texts: those of PyPI's packages in requirements.txt."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from PIL import ImageFont

# Package: files of it.
TRAINED = {
    "font_roboto": ("Roboto-Regular", "Roboto-Bold", "Roboto-Italic", "Roboto-Medium", "Roboto-Black", "Roboto-Light"),
    "font_source_sans_pro": ("SourceSansPro-Regular", "SourceSansPro-Bold", "SourceSansPro-It"),
    "font_source_serif_pro": ("SourceSerifPro-Regular", "SourceSerifPro-Bold", "SourceSerifPro-It"),
    "font_fredoka_one": ("FredokaOne-Regular",),
    "font_manrope": ("Manrope-Regular", "Manrope-ExtraBold"),
    "font_amatic_sc": ("AmaticSC-Bold",),
    "matplotlib": ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSerif", "DejaVuSerif-Bold",
                   "DejaVuSans-Oblique"),
}
# Never drawn in training.
UNSEEN = {
    "font_caladea": ("Caladea-Regular", "Caladea-Bold"),
    "font_hanken_grotesk": ("HankenGrotesk-Regular", "HankenGrotesk-Bold"),
}
# All letters of these are capitals.
CAPITALS = ("AmaticSC-Bold",)


@cache
def files(unseen: bool) -> tuple[Path, ...]:
    """Every file of the list, in its order."""
    out = []
    for package, names in (UNSEEN if unseen else TRAINED).items():
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"the fonts of {package} are not installed: see requirements.txt")
        folder = Path(spec.origin).parent / ("mpl-data/fonts/ttf" if package == "matplotlib" else "files")
        for name in names:
            found = [folder / f"{name}.{kind}" for kind in ("ttf", "otf") if (folder / f"{name}.{kind}").exists()]
            if not found:
                raise FileNotFoundError(f"{package} has no font {name}")
            out.append(found[0])
    return tuple(out)


@cache
def font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(path), size)
