"""Pairs of texts, and their split into training and held-out ones."""

from __future__ import annotations

import json
import lzma
import random
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from .config import SEED
from .corpus import Pair

DICTIONARIES = ("wordnet", "gcide", "foldoc")


@dataclass
class Texts:
    texts: list[str]  # each once
    documents: list[tuple[int, int]]  # query and passage, by number
    meanings: list[tuple[int, int]]
    asked: list[tuple[int, int]]  # held out: headings
    reworded: list[tuple[int, int]]  # held out: headings in other words


def reword(query: str, others: dict[str, list[str]], dice: random.Random) -> str | None:
    """A query with half of the words that have synonyms, at least one, replaced by these."""
    words = query.split()
    places = [i for i, word in enumerate(words) if word.isalpha() and len(word) > 3 and others.get(word.lower())]
    if not places:
        return None
    for i in dice.sample(places, (len(places) + 1) // 2):
        words[i] = dice.choice(others[words[i].lower()])
    return " ".join(words)


def sentence(passage: str, dice: random.Random) -> str | None:
    """A random sentence of a passage; None where it has fewer than three."""
    found = [s for s in re.split(r"(?<=[.!?]) ", passage) if 5 <= len(s.split()) <= 40]
    return dice.choice(found) if len(found) > 2 else None


def read(pairs: list[Pair], others: dict[str, list[str]]) -> Texts:
    dice = random.Random(SEED)
    numbers: dict[str, int] = {}
    number = lambda text: numbers.setdefault(text, len(numbers))
    made = Texts([], [], [], [], [])
    for pair in pairs:
        passage, other = number(pair.passage), reword(pair.query, others, dice)
        if pair.page in DICTIONARIES:
            made.meanings.append((number(pair.query), passage))
        elif pair.held_out:
            made.asked.append((number(pair.query), passage))
            if other:
                made.reworded.append((number(other), passage))
        else:
            queries = [pair.query, other, sentence(pair.passage, dice)]
            made.documents.extend((number(query), passage) for query in queries if query)
    made.texts = list(numbers)
    return made


def save(made: Texts, file: Path) -> None:
    file.write_bytes(lzma.compress(json.dumps(asdict(made), ensure_ascii=False).encode(), preset=6))


def load(file: Path) -> Texts:
    return Texts(**json.loads(lzma.decompress(file.read_bytes())))
