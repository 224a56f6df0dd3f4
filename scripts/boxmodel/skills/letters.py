"""Spelling and reversing words, counting and naming their letters; invented words teach the letters of tokens."""

from __future__ import annotations

from random import Random

from ..words import COMMON_WORDS
from .base import Exchange, answer, ask
from .invent import invented

SPELL = (
    "Spell {w}.", "Spell the word {w}.", "How do you spell {w}?", "How is {w} spelled?", "Can you spell {w}?",
    "What letters are in {w}?", "Please spell {w} for me.", "Give me the letters of {w}.", "Spell out {w}.",
    "Write {w} letter by letter.", "What is the spelling of {w}?", "Which letters make the word {w}?",
)
REVERSE = (
    "Reverse {w}.", "Reverse the word {w}.", "What is {w} backwards?", "Write {w} backwards.", "Spell {w} backwards.",
    "How do you write {w} in reverse?", "Turn the word {w} around.", "Can you reverse {w}?", "Say {w} backwards.",
    "What is the reverse of {w}?", "Flip the letters of {w}.", "Give me {w} from back to front.",
)
COUNT = ("How many letters does {w} have?", "How many letters are in {w}?", "Count the letters of {w}.",
         "What is the length of the word {w}?", "{w} has how many letters?")
FIRST = ("What is the first letter of {w}?", "Which letter does {w} start with?", "{w} starts with which letter?",
         "With which letter does {w} begin?", "First letter of {w}?")
LAST = ("What is the last letter of {w}?", "Which letter does {w} end with?", "{w} ends with which letter?",
        "What letter is at the end of {w}?", "Last letter of {w}?")
THEN_REVERSE = ("And backwards?", "Now backwards.", "And in reverse?", "Reverse it.", "What is it backwards?",
                "Now reverse that.")
THEN_SPELL = ("And forwards?", "How is it spelled?", "Now spell it.", "And the right way round?", "Spell it normally.")
THEN_COUNT = ("How many letters is that?", "How many letters does it have?", "Count them.", "And its length?")


def spelled(word: str) -> str:
    return "-".join(word)


def reversal(word: str) -> str:
    return f"{spelled(word)} backwards is {spelled(word[::-1])}: {word[::-1]}"


def quoted(rng: Random, word: str) -> str:
    if rng.random() < 0.12:
        word = word.capitalize()  # the answer keeps small letters
    roll = rng.random()
    return word if roll < 0.6 else f'"{word}"' if roll < 0.95 else f"'{word}'"


def part(rng: Random, op: str, word: str, phrasings: tuple[str, ...] = ()) -> tuple[str, list]:
    asked, reply, short = {
        "spell": (SPELL, spelled(word), None),
        "reverse": (REVERSE, reversal(word), word[::-1]),
        "count": (COUNT, f"{spelled(word)}: {word} has {len(word)} letters.", str(len(word))),
        "first": (FIRST, f"{word} starts with {word[0]}.", word[0]),
        "last": (LAST, f"{word} ends with {word[-1]}.", word[-1]),
    }[op]
    if phrasings:
        question = ask(rng, phrasings)
    else:
        question = ask(rng, asked, w=quoted(rng, word))
    # A count shows the spelling, so it is held out with it.
    kind = {"count": f"spell:{word}", "first": f"letter:first:{word}", "last": f"letter:last:{word}"}
    return kind.get(op, f"{op}:{word}"), [question, answer(reply, short)]


def sample(rng: Random, real_words: bool = False) -> Exchange:
    common = real_words or rng.random() < 0.6
    word = rng.choice(COMMON_WORDS) if common else invented(rng)
    op = rng.choices(("spell", "reverse", "count", "first", "last"), (34, 40, 10, 8, 8))[0]
    key, messages = part(rng, op, word)
    keys = [key]
    if op in ("spell", "reverse") and rng.random() < 0.25:
        then, phrasings = rng.choice((("reverse", THEN_REVERSE), ("count", THEN_COUNT))) if op == "spell" else (
            "spell", THEN_SPELL)
        key, more = part(rng, then, word, phrasings)
        keys.append(key)
        messages += more
    return Exchange("letters", keys, messages)
