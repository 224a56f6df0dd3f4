"""Checks that the training text cannot contain a held-out question, and that both renderings of a chat agree."""

from __future__ import annotations

from random import Random

from . import heldout
from .chat import render, render_fast
from .dialogue import training_chat, training_exchange
from .skills import WEIGHTS

EXCHANGES = 200_000


def separation(seed: int, exchanges: int = EXCHANGES) -> int:
    """Draws this many training exchanges and compares the normalised texts of their questions; returns the questions."""
    rows = heldout.items(seed)
    if len(rows) != 500 or len({row["text"] for row in rows}) != 500:
        raise AssertionError("the held-out set must hold 500 different questions")
    forbidden = {row["text"] for row in rows}
    rng, asked = Random(f"check:{seed}"), 0
    skills, chances = list(WEIGHTS), list(WEIGHTS.values())
    for _ in range(exchanges):
        texts = training_exchange(rng, rng.choices(skills, chances)[0]).texts()
        asked += len(texts)
        found = forbidden.intersection(texts)
        if found:
            raise AssertionError(f"held-out question in the training text: {found}")
    return asked


def rendering(seed: int, chats: int = 500) -> None:
    """The Jinja template and the fast rendering give the same text."""
    rng = Random(f"render:{seed}")
    for _ in range(chats):
        chat = training_chat(rng)
        if render(chat.messages, chat.tools) != render_fast(chat.messages, chat.tools):
            raise AssertionError(f"renderings differ: {chat}")
