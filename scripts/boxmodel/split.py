"""The held-out split, decided by a hash of a question's content and never by its wording.

Every question carries a key such as `add:17:25`. The hash of the key puts it into the training side or the held-out
side for ever, so no phrasing of a held-out question can enter the training text. `normalise` gives the form in which
the questions' texts are compared as well, as a second and independent check.
"""

from __future__ import annotations

import re
from hashlib import blake2b

# Percent of the keys of a kind that are held out. Small worlds (days, months, words) need more for enough questions.
PERCENT = {
    "about": 12, "add": 2, "sub": 2, "day": 10, "month": 8, "unit": 5, "spell": 10, "reverse": 10, "letter": 5,
    "sort": 2, "fields": 3, "tool": 5, "toolreply": 5, "story": 3, "memory": 5,
}


def bucket(text: str) -> int:
    """A number from 0 to 99 that depends on `text` alone."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") % 100


def held_out(key: str) -> bool:
    """Whether the question with this key belongs to the held-out side."""
    kind, _, rest = key.partition(":")
    percent = PERCENT.get(kind, 0)  # kinds whose facts cannot be learned from other questions are never held out
    # Two directions of one fact are never both held out: the fact is learned from the other.
    if kind in ("spell", "reverse"):
        return 0 <= bucket("word:" + rest) - (50 if kind == "reverse" else 0) < percent
    if kind == "unit":
        direction, _, fact = rest.partition(":")
        return 0 <= bucket("unit:" + fact) - (50 if direction == "up" else 0) < percent
    return bucket(key) < percent


_NOT_WORD = re.compile(r"[^a-z0-9+*/<>=-]+")


def normalise(text: str) -> str:
    """Lower case, every run of other characters than letters, digits and operators one space."""
    return _NOT_WORD.sub(" ", text.lower()).strip()
