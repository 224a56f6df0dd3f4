"""Chats about pictures: scenes, questions, and what is said where there is no picture."""

from __future__ import annotations

from random import Random

from ..chat import AROUND, END, IMAGE, START, WHOLE
from ..dialogue import PLAIN, TERSE
from ..skills.base import casual
from ..split import bucket, held_out
from . import letters, shapes, tables
from .scene import Scene

# What stands for a picture, as the engine puts it in place of the template's <image>.
ROWS_OF = AROUND + WHOLE + "{rows}" + AROUND

SCENES = {letters.words: 46, letters.sums: 10, shapes.placed: 26, shapes.crowd: 8, tables.table: 10}
_SCENES, _CHANCES = list(SCENES), list(SCENES.values())

# Percent of the keys of a kind that are held out.
PERCENT = {"seen": 4, "shapes": 6, "crowd": 6, "table": 5}

NONE = "I see no picture. Drop one onto the page, and ask me again."
NONE_ASKED = tuple(dict.fromkeys((*letters.READ, *shapes.SEE, *letters.SOLVE[:4], *letters.INK, *shapes.MANY[:3])))
SEES = "Yes, simple ones: printed words, sums, small tables, shapes and colors. Drop one onto the page."
SEES_ASKED = (
    "Can you see pictures?", "Can you look at a picture?", "Do you understand pictures?", "Can you read pictures?",
    "Can I show you a picture?", "Can you see images?", "Do you read images?", "Which pictures can you read?",
    "What kind of pictures can you see?", "Can you look at photos?", "Can you read text in an image?", "Do you have eyes?",
)


def unseen_key(key: str) -> bool:
    """Whether a scene with this key is held out. Sums are held out as the text's are."""
    kind, _, _ = key.partition(":")
    return bucket(key) < PERCENT[kind] if kind in PERCENT else held_out(key)


def training_scene(rng: Random) -> Scene:
    """A scene nothing of which is held out."""
    while True:
        scene = rng.choices(_SCENES, _CHANCES)[0](rng)
        if not any(map(unseen_key, scene.keys)):
            return scene


def render(messages: list[tuple[str, str]], system: str = "") -> str:
    """The text that the chat template gives."""
    head = f"{START}system\n{system}{END}\n" if system else ""
    return head + "".join(f"{START}{role}\n{text}{END}\n" for role, text in messages)


def chat(rng: Random, scenes: list[Scene], room: int) -> tuple[str, list[list[tuple[str, str]]]]:
    """The system message, and for each scene its messages, the first with the picture; as many questions as `room`
    letters have room for."""
    parts, terse = [], rng.random() < 0.08
    for scene in scenes:
        messages: list[tuple[str, str]] = []
        left = room
        for n in range(rng.choice((1, 2, 3, 4, 5))):
            it = scene.ask(rng, whole=0.6 if n == 0 else 0.15)
            answer = it.short if terse else it.answer
            question = it.question
            if n == 0:
                roll = rng.random()
                if roll < 0.08 and it is scene.whole:
                    question = IMAGE
                else:
                    question = IMAGE + question if roll < 0.85 else question + IMAGE
            left -= len(question) + len(answer) + 24
            if left < 0 and messages:
                break
            messages += [("user", question), ("assistant", answer)]
        parts.append(messages)
    return (rng.choice(TERSE if terse else PLAIN) if terse or rng.random() < 0.1 else ""), parts


def without(rng: Random) -> tuple[str, str]:
    """A question about pictures in a chat that has none, and its answer."""
    roll = rng.random()
    if roll < 0.5:
        return casual(rng, rng.choice(NONE_ASKED)), NONE
    return casual(rng, rng.choice(SEES_ASKED)), SEES
