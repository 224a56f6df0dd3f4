"""The type of a skill's samples: an exchange of messages with the keys of its questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from ..split import normalise

Message = dict  # {"role", "content"} as in the chat template; an assistant's may hold "tool_calls", and "short"


@dataclass
class Exchange:
    """One or more questions with their right answers; the last message is the assistant's."""

    skill: str
    keys: list[str]  # of every question, in order; see split.py
    messages: list[Message]
    tools: list[dict] = field(default_factory=list)  # JSON schemas in OpenAI's shape
    late: list[Message] = field(default_factory=list)  # further messages that may come after other exchanges

    def texts(self) -> list[str]:
        """For each question: its normalised text together with those asked before it in this exchange."""
        asked = [normalise(m["content"]) for m in self.messages + self.late if m["role"] in ("user", "tool")]
        return [" | ".join(asked[: i + 1]) for i in range(len(asked))]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def answer(text: str, short: str | None = None) -> Message:
    """An answer; `short` replaces it where the system message asks for the bare result."""
    message = {"role": "assistant", "content": text}
    if short is not None:
        message["short"] = short
    return message


def casual(rng: Random, text: str, names: bool = False) -> str:
    """A question as people type it: a greeting before it, small letters, no last mark, "what's".

    With `names` the capitals stay, because the answer copies them.
    """
    roll = rng.random()
    if roll < 0.06:
        text = rng.choice(("Hi! ", "Hello, ", "Please: ", "Hey, ", "OK. ", "Thanks! ", "Next: ", "Sure. ")) + text
    elif roll < 0.14 and text[0].isalpha() and not text.startswith("I ") and not names:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.1:
        text = text.replace("What is ", "What's ").replace("what is ", rng.choice(("what's ", "whats ")))
    if text[-1] in "?." and rng.random() < 0.18:
        text = text[:-1]
    if not names and rng.random() < 0.12:
        text = text.lower()
    return text


def ask(rng: Random, phrasings: tuple[str, ...], **values: object) -> Message:
    """One of the phrasings, filled in."""
    return user(casual(rng, rng.choice(phrasings).format(**values)))


def articles(text: str) -> str:
    """`a` before a vowel's letter becomes `an`; the words of the lists are all regular here."""
    for vowel in "aeiou":
        text = text.replace(f" a {vowel}", f" an {vowel}").replace(f"A {vowel}", f"An {vowel}")
    return text
