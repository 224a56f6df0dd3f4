"""Words that do not exist: they teach the letters of tokens, and copying of unseen words."""

from __future__ import annotations

from random import Random

from ..words import COMMON_WORDS

COMMON_WORDS_SET = frozenset(COMMON_WORDS)
ONSETS = "b c d f g h j k l m n p qu r s t v w y z bl br ch cl cr dr fl fr gl gr pl pr sh sl sm sn sp st str sw th tr wh".split()
VOWELS = "a e i o u a e i o ai ea ee ie oa oo ou ay y".split()
CODAS = "b d ck ct d f g ft ght k l ld ll lk lt m mb mp n nd ng nk nt p pt r rd rk rm rn rt s sh sk ss st t th tch w x".split()


def invented(rng: Random) -> str:
    """A word that does not exist, 3 to 10 letters."""
    while True:
        roll, word = rng.random(), ""
        if roll < 0.12:  # letters at random reach every token of the vocabulary
            return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 8)))
        if roll < 0.55:  # the head of one word and the tail of another: the pieces that real words are made of
            head, tail = rng.choice(COMMON_WORDS), rng.choice(COMMON_WORDS)
            word = head[: rng.randint(1, len(head))] + tail[rng.randint(0, len(tail) - 1) :]
            if 3 <= len(word) <= 10 and word not in COMMON_WORDS_SET:
                return word
            continue
        for _ in range(rng.randint(1, 3)):
            word += rng.choice(ONSETS) + rng.choice(VOWELS) + (rng.choice(CODAS) if rng.random() < 0.5 else "")
        if 3 <= len(word) <= 10:
            return word


def value(rng: Random, known: list[str], share: float = 0.2) -> str:
    """One of the known words, or an invented one, with a capital where the known ones have it."""
    if rng.random() >= share:
        return rng.choice(known)
    word = invented(rng)
    return word.capitalize() if known[0][0].isupper() else word
