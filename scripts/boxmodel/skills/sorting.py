"""Sorting short lists of numbers and of words, with follow-up questions about the list."""

from __future__ import annotations

from random import Random

from ..words import COMMON_WORDS
from .base import Exchange, answer, ask
from .invent import value

UP = (
    "Sort {x}.", "Sort these numbers: {x}", "Sort from smallest to largest: {x}", "Put {x} in order.",
    "Order {x} from small to large.", "Arrange {x} in ascending order.", "Sort the list {x}.", "Can you sort {x}?",
    "What is the sorted order of {x}?", "Please sort {x} for me.", "Sort ascending: {x}", "Put these in order: {x}",
)
DOWN = (
    "Sort {x} in descending order.", "Sort from largest to smallest: {x}", "Put {x} in descending order.",
    "Order {x} from large to small.", "Arrange {x} from the largest to the smallest.", "Sort descending: {x}",
    "Sort {x}, largest first.", "Can you sort {x} from high to low?", "Sort these numbers downwards: {x}",
    "Please put the largest first: {x}",
)
ALPHABET = (
    "Sort {x}.", "Sort these words: {x}", "Sort alphabetically: {x}", "Put {x} in alphabetical order.",
    "Order {x} from A to Z.", "Arrange {x} alphabetically.", "Sort the words {x}.", "Can you sort {x} by alphabet?",
    "What is the alphabetical order of {x}?", "Please sort {x} for me.", "Put these words in order: {x}",
)
THEN_DOWN = ("Now from largest to smallest.", "And in descending order?", "Now the other way round.", "And backwards?",
             "Largest first, please.")
THEN_LARGEST = ("Which is the largest?", "What is the biggest number?", "And the largest of them?", "What is the maximum?")
THEN_SMALLEST = ("Which is the smallest?", "What is the lowest number?", "And the smallest of them?",
                 "What is the minimum?")
THEN_COUNT = ("How many numbers are there?", "How many are they?", "How many did I give you?", "Count them.")


def written(rng: Random, items: list[str]) -> str:
    roll = rng.random()
    if roll < 0.7:
        return ", ".join(items)
    if roll < 0.85 and len(items) > 1:
        return ", ".join(items[:-1]) + " and " + items[-1]
    return " ".join(items)


def numbers(rng: Random) -> Exchange:
    top = rng.choice((20, 99, 99, 999, 999))
    items = rng.sample(range(1, top + 1), rng.choices((3, 4, 5, 6), (25, 30, 30, 15))[0])
    down = rng.random() < 0.35
    ordered = sorted(items, reverse=down)
    keys = ["sort:" + ":".join(map(str, sorted(items)))]
    question = ask(rng, DOWN if down else UP, x=written(rng, [str(i) for i in items]))
    messages = [question, answer(", ".join(map(str, ordered)))]
    if rng.random() < 0.3:
        then = rng.choice(("largest", "smallest", "count") + (() if down else ("down", "down")))
        asked, reply = {
            "down": (THEN_DOWN, ", ".join(map(str, sorted(items, reverse=True)))),
            "largest": (THEN_LARGEST, f"The largest is {max(items)}."),
            "smallest": (THEN_SMALLEST, f"The smallest is {min(items)}."),
            "count": (THEN_COUNT, f"There are {len(items)} numbers."),
        }[then]
        keys *= 2
        messages += [ask(rng, asked), answer(reply)]
    return Exchange("sorting", keys, messages)


def words(rng: Random) -> Exchange:
    items = rng.sample(COMMON_WORDS, rng.choices((3, 4, 5), (45, 40, 15))[0])
    if rng.random() < 0.3:
        items = list(dict.fromkeys(value(rng, [word], 0.5) for word in items))
    question = ask(rng, ALPHABET, x=written(rng, items))
    return Exchange("sorting", ["sort:" + ":".join(sorted(items))], [question, answer(", ".join(sorted(items)))])


def sample(rng: Random) -> Exchange:
    return numbers(rng) if rng.random() < 0.6 else words(rng)
