"""Facts stated early in a chat, and later questions about them."""

from __future__ import annotations

from random import Random

from ..words import ANIMALS, CITIES, COLORS, FOODS, HOBBIES, JOBS, NAMES
from .base import Exchange, answer, articles, casual, user
from .invent import value

# kind: (statements, the reply to each, questions, the answer)
KINDS = {
    "name": (
        ("My name is {x}.", "I am {x}.", "Hi, I am {x}.", "Hello! My name is {x}.", "You can call me {x}.", "I'm {x}.",
         "Call me {x}.", "Hi, {x} here.", "People call me {x}.", "Good morning, my name is {x}."),
        "Nice to meet you, {x}!",
        ("What is my name?", "Do you know my name?", "Who am I?", "What was my name?", "Do you remember my name?",
         "What am I called?"),
        "Your name is {x}.", NAMES),
    "city": (
        ("I live in {x}.", "My home is {x}.", "I come from {x}.", "I am from {x}.", "My city is {x}.", "I moved to {x}."),
        "{x} is a nice place to live.",
        ("Where do I live?", "Which city do I live in?", "What is my city?", "Where is my home?"),
        "You live in {x}.", CITIES),
    "color": (
        ("My favorite color is {x}.", "I like {x} best of all colors.", "The color I love is {x}.",
         "My best color is {x}."),
        "{X} is a lovely color.",
        ("What is my favorite color?", "Which color do I like best?", "What color do I love?"),
        "Your favorite color is {x}.", COLORS),
    "food": (
        ("My favorite food is {x}.", "I love to eat {x}.", "The food I like best is {x}.", "I eat {x} every day."),
        "{X} sounds tasty.",
        ("What is my favorite food?", "Which food do I like best?", "What do I love to eat?"),
        "Your favorite food is {x}.", FOODS),
    "job": (
        ("I work as a {x}.", "I am a {x}.", "My job is {x}.", "I have a job as a {x}."),
        "Being a {x} is good work.",
        ("What is my job?", "What do I work as?", "What is my work?", "Which job do I have?"),
        "You work as a {x}.", JOBS),
    "hobby": (
        ("My hobby is {x}.", "I enjoy {x}.", "In my free time I like {x}.", "I love {x}."),
        "{X} is a fine hobby.",
        ("What is my hobby?", "What do I enjoy?", "What do I do in my free time?"),
        "Your hobby is {x}.", HOBBIES),
    "pet": (
        ("I have a {x} at home.", "My pet is a {x}.", "I own a {x}.", "A {x} lives with me."),
        "Say hello to your {x}!",
        ("What pet do I have?", "Which animal do I have?", "What is my pet?"),
        "You have a {x}.", ANIMALS),
    "number": (
        ("My lucky number is {x}.", "Remember the number {x}.", "Keep {x} in mind.", "The number is {x}."),
        "I will remember {x}.",
        ("What is my number?", "Which number did I give you?", "What was the number?"),
        "Your number is {x}.", [str(n) for n in range(2, 1000)]),
}


def sample(rng: Random) -> Exchange:
    """The statements are the messages; the questions about them are `late`."""
    keys, messages, late = [], [], []
    for kind in rng.sample(list(KINDS), rng.choices((1, 2), (65, 35))[0]):
        says, reply, asks, says_back, values = KINDS[kind]
        x = value(rng, values, 0.2 if kind in ("name", "city") else 0)
        said = rng.choice(says)
        small = rng.random() < 0.1  # a chat typed in small letters keeps to them
        shown = x.lower() if small else x
        statement = articles(casual(rng, said.format(x=shown), names=True))
        messages += [user(statement.lower() if small else statement),
                     answer(articles(reply.format(x=shown, X=shown.capitalize())))]
        late += [user(casual(rng, rng.choice(asks))), answer(articles(says_back.format(x=shown)))]
        keys.append(f"memory:{kind}:{x.lower()}:{said}")
    return Exchange("memory", keys, messages, late=late)
