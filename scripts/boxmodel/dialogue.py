"""Chats composed of one or several exchanges, with system messages, and with late questions about early statements."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .skills import WEIGHTS, memory, stories, tools
from .skills.base import Exchange, Message
from .split import held_out

PLAIN = ("You are a helpful assistant.", "You are a friendly assistant.", "You are the model in the box.",
         "You are a small model that runs in a web page.", "Be kind and helpful.", "Answer briefly.",
         "You are an assistant that answers questions.", "Help the user.", "You help people with small tasks.",
         "You are Millrace's demo assistant.")
TERSE = ("Answer with the result only.", "Reply with the result only.", "Only give the result.", "Just the result, please.",
         "Give the bare result.", "Answer only with the result, no sentence.", "Say nothing but the result.",
         "You are a calculator. Answer with the result only.", "Be terse: only the result.",
         "Result only, without a sentence.")

_SKILLS, _CHANCES = list(WEIGHTS), list(WEIGHTS.values())


@dataclass
class Chat:
    messages: list[Message]
    tools: list[dict]


def training_exchange(rng: Random, sample) -> Exchange:
    """An exchange none of whose questions is held out."""
    while True:
        exchange = sample(rng)
        if not any(map(held_out, exchange.keys)):
            return exchange


def plain(message: Message, terse: bool = False) -> Message:
    """The message for the template; in its short form where the system message asks for that."""
    content = message.get("short") if terse else None
    return {"role": message["role"], "content": message["content"] if content is None else content}


def compose(rng: Random, exchanges: list[Exchange], system: str = "", terse: bool = False) -> Chat:
    """One chat of the exchanges in order; `late` messages come after all others."""
    messages = [{"role": "system", "content": system}] if system else []
    for exchange in exchanges:
        messages += [plain(m, terse) for m in exchange.messages]
    late = [e.late for e in exchanges if e.late]
    for part in late:
        messages += [plain(m, terse) for m in part]
    offered = next((e.tools for e in exchanges if e.tools), [])
    return Chat(messages, offered)


def training_chat(rng: Random) -> Chat:
    many = rng.choices((1, 2, rng.randint(3, 5), rng.randint(6, 12)), (60, 20, 14, 6))[0]
    exchanges: list[Exchange] = []
    while len(exchanges) < many:
        sample = rng.choices(_SKILLS, _CHANCES)[0]
        if sample is memory.sample and any(e.skill == "memory" for e in exchanges):
            continue  # two names in one chat would contradict each other
        if sample is tools.sample and any(e.tools for e in exchanges):
            continue  # one set of tools a chat
        exchanges.append(training_exchange(rng, sample))
    roll = rng.random()
    if roll < 0.08:
        return compose(rng, exchanges, rng.choice(TERSE), terse=True)
    return compose(rng, exchanges, rng.choice(PLAIN) if roll < 0.22 else "")


def training_document(rng: Random) -> str:
    """Plain text without a chat: a story."""
    return stories.document(rng)
