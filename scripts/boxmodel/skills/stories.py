"""Tiny stories: told on request, and read: questions about a story just told."""

from __future__ import annotations

from random import Random

from ..words import ANIMALS, COLORS, FEELINGS, NAMES, PLACES, THINGS, TRAITS
from .base import Exchange, answer, articles, ask, casual, user
from .invent import invented

OPEN = (
    "Once upon a time there was a {trait} {animal} named {name}.",
    "There once was a {trait} {animal} called {name}.",
    "{name} was a {trait} {animal}.",
    "A {trait} {animal} named {name} lived near the {home}.",
)
GO = (
    "One morning {name} went to the {place}.", "One day {name} walked to the {place}.",
    "On a sunny day {name} visited the {place}.", "Early one day {name} ran to the {place}.",
)
FIND = (
    "There {name} found a {color} {thing}.", "Under a bench lay a {color} {thing}.",
    "{name} saw a {color} {thing} in the grass.", "Behind a wall {name} discovered a {color} {thing}.",
)
HELP = (
    "It belonged to {friend}, the {other}.", "The {other} {friend} had lost it.",
    "{friend} the {other} was looking for it.", "It was the lost treasure of {friend}, a {other}.",
)
GIVE = (
    "{name} gave it back, and {friend} was {feeling}.", "{name} brought it to {friend}, who felt {feeling}.",
    "So {name} returned it, and {friend} was very {feeling}.", "{friend} got it back and was {feeling}.",
)
END = (
    "From that day on they were friends.", "Then they shared a cake and went home.", "They played until the evening.",
    "That night both slept well.", "And so they became the best of friends.",
)
TELL = (
    "Tell me a story.", "Tell me a tiny story.", "Can you tell a short story?", "I want to hear a story.",
    "Please tell me a little story.", "Write a tiny story.", "Make up a short story.", "Do you know a story?",
    "A story, please.", "Tell me a bedtime story.", "Write me a short story.",
)
TELL_ABOUT = (
    "Tell me a story about a {animal}.", "Write a tiny story about a {animal}.", "Tell a story with a {animal}.",
    "Can you tell me a story about a {animal}?", "I want a story about a {animal}.", "A story about a {animal}, please.",
    "Make up a story about a {animal} and a {thing}.", "Tell me a story about a {trait} {animal}.",
    "Tell me a story about a {animal} named {name}.", "Write a story about {name} the {animal}.",
    "Write a tiny story about a {thing} and a {animal}.",
)
READ = (
    "Read this story and answer. {s} {q}", "{s} {q}", "{s}\n{q}", "Here is a story: {s} {q}", "Story: {s} Question: {q}",
    "{q} Here is the story: {s}", "Listen: {s} Now tell me: {q}", "I will tell you a story. {s} {q}",
    "Answer from the story. {s} {q}", "A story for you: {s} So, {q}", "{s} My question: {q}",
)
ANOTHER = ("Another one!", "Tell me another one.", "One more, please.", "Another story, please.", "And another story?",
           "Tell me one more.", "Again!", "More stories!")
QUESTIONS = {
    "who": (("Who was {name}?", "What kind of animal was {name}?", "Which animal was {name}?"),
            "{name} was a {trait} {animal}."),
    "name": (("What was the name of the {animal}?", "What was the {animal} called?", "Which name did the {animal} have?",
              "What was its name?", "What was the name?"),
             "The {animal} was called {name}."),
    "where": (("Where did {name} go?", "Which place did {name} visit?", "Where was the {thing}?"),
              "{name} went to the {place}."),
    "what": (("What did {name} find?", "What was found?", "Which thing did {name} find?"),
             "{name} found a {color} {thing}."),
    "color": (("What color was the {thing}?", "Which color did the {thing} have?"), "The {thing} was {color}."),
    "owner": (("Who had lost the {thing}?", "Whose {thing} was it?", "To whom did the {thing} belong?"),
              "The {thing} belonged to {friend} the {other}."),
    "feeling": (("How did {friend} feel in the end?", "How was {friend} at the end?", "How did {friend} feel?"),
                "{friend} was {feeling}."),
}


def cast(rng: Random) -> dict[str, str]:
    name, friend = rng.sample(NAMES, 2)
    if rng.random() < 0.15:
        name = invented(rng).capitalize()
    animal, other = rng.sample(ANIMALS, 2)
    if rng.random() < 0.15:
        animal = invented(rng)
    home, place = rng.sample(PLACES, 2)
    return {
        "name": name, "friend": friend, "animal": animal, "other": other, "home": home, "place": place,
        "trait": rng.choice(TRAITS), "color": rng.choice(COLORS), "thing": rng.choice(THINGS),
        "feeling": rng.choice(FEELINGS),
    }


def story(rng: Random, who: dict[str, str], end: bool = True) -> str:
    parts = (OPEN, GO, FIND, HELP, GIVE) + ((END,) if end else ())
    return articles(" ".join(rng.choice(part) for part in parts).format(**who))


def questions(rng: Random, who: dict[str, str], many: int) -> list[tuple[str, str]]:
    """(question, answer) of `many` different kinds."""
    out = []
    for kind in rng.sample(list(QUESTIONS), many):
        asked, reply = QUESTIONS[kind]
        out.append((articles(rng.choice(asked).format(**who)), articles(reply.format(**who))))
    return out


def sample(rng: Random, tell: float = 0.4) -> Exchange:
    who = cast(rng)
    content = ":".join(who.values())
    if rng.random() < tell:
        question = ask(rng, TELL) if rng.random() < 0.3 else user(articles(casual(rng, rng.choice(TELL_ABOUT).format(**who), names=True)))
        messages, keys = [question, answer(story(rng, who))], ["tell"]
        if rng.random() < 0.2:
            who = cast(rng)
            content = ":".join(who.values())
            messages += [ask(rng, ANOTHER), answer(story(rng, who))]
            keys.append("tell")
        asked = questions(rng, who, rng.choices((0, 1, 2), (60, 30, 10))[0])
    else:
        (first, reply), *asked = questions(rng, who, rng.choices((1, 2, 3), (70, 20, 10))[0])
        text = story(rng, who, end=rng.random() < 0.5)
        messages = [user(rng.choice(READ).format(s=text, q=first)), answer(reply)]
        keys = [f"story:{content}"]
    for question, reply in asked:
        messages += [user(question), answer(reply)]
        keys.append(f"story:{content}")
    return Exchange("stories", keys, messages)


def document(rng: Random) -> str:
    """A story without a chat around it, so that plain prompts can be continued."""
    return story(rng, cast(rng))
