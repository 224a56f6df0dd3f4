"""Days and months: predecessors and successors, ranges, distances, lengths and numbers of months."""

from __future__ import annotations

from random import Random

from ..words import DAYS, MONTHS
from .base import Exchange, answer, ask

AFTER = (
    "What {unit} is {n} {units} after {x}?", "Which {unit} comes {n} {units} after {x}?",
    "If it is {x} now, what {unit} is it in {n} {units}?", "It is {x}. What {unit} will it be in {n} {units}?",
    "{n} {units} after {x} is which {unit}?", "Name the {unit} {n} {units} after {x}.",
    "Start at {x} and go forward {n} {units}. Which {unit} is it?", "What {unit} is {x} plus {n} {units}?",
    "Tell me the {unit} that is {n} {units} later than {x}.", "Count {n} {units} on from {x}.",
    "What {unit} follows {x} by {n} {units}?",
)
BEFORE = (
    "What {unit} is {n} {units} before {x}?", "Which {unit} comes {n} {units} before {x}?",
    "If it is {x} now, what {unit} was it {n} {units} ago?", "It is {x}. What {unit} was it {n} {units} ago?",
    "{n} {units} before {x} is which {unit}?", "Name the {unit} {n} {units} before {x}.",
    "Start at {x} and go back {n} {units}. Which {unit} is it?", "What {unit} is {x} minus {n} {units}?",
    "Tell me the {unit} that is {n} {units} earlier than {x}.", "Count {n} {units} back from {x}.",
    "What {unit} precedes {x} by {n} {units}?",
)
NEXT = ("What {unit} comes after {x}?", "Which {unit} is after {x}?", "What is the {unit} after {x}?",
        "Which {unit} follows {x}?", "What {unit} comes next after {x}?")
PREVIOUS = ("What {unit} comes before {x}?", "Which {unit} is before {x}?", "What is the {unit} before {x}?",
            "Which {unit} precedes {x}?", "What {unit} comes just before {x}?")
RANGE = (
    "List the {units} from {x} to {y}.", "Name the {units} from {x} to {y}.", "Which {units} go from {x} to {y}?",
    "Write the {units} {x} to {y}.", "Give me the {units} from {x} through {y}.", "Count from {x} to {y}.",
    "What are the {units} from {x} to {y}?", "Say the {units} from {x} until {y}.", "Go from {x} to {y}.",
    "Tell me all {units} from {x} to {y}.",
)
DISTANCE = (
    "How many {units} is it from {x} to {y}?", "How many {units} after {x} is {y}?", "How far is {y} from {x}?",
    "From {x} to the next {y}, how many {units} is it?", "How many {units} from {x} until {y}?",
    "It is {x}. In how many {units} is it {y}?", "Count the {units} from {x} to {y}.",
    "How many {units} must I wait from {x} to {y}?", "What is the distance from {x} to {y} in {units}?",
    "How many {units} later than {x} is {y}?",
)
LENGTH = ("How many days does {x} have?", "How many days are in {x}?", "How long is {x}?", "{x} has how many days?",
          "Tell me the number of days in {x}.", "What is the length of {x} in days?", "How many days has {x}?",
          "Does {x} have 30 or 31 days?", "Number of days in {x}?", "How many days are there in {x}?")
ORDINAL = ("What number is the month {x}?", "Which number does {x} have?", "{x} is which month of the year?",
           "What is the number of {x}?", "Which month of the year is {x}?")
NTH = ("Which is month {n} of the year?", "What is month number {n}?", "Name month {n}.", "Which month is number {n}?",
       "Month {n} is which one?")
LISTS = (
    (("What are the days of the week?", "List the days of the week.", "Name all days of the week.",
      "Tell me the seven days.", "Which days does a week have?"), ", ".join(DAYS) + "."),
    (("What are the months of the year?", "List the months of the year.", "Name all months.",
      "Tell me the twelve months.", "Which months does a year have?"), ", ".join(MONTHS) + "."),
    (("How many days does a week have?", "How many days are in a week?"), "A week has 7 days."),
    (("How many months does a year have?", "How many months are in a year?"), "A year has 12 months."),
)
LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def counted(path: list[str]) -> str:
    """The steps of the path, numbered: a small model can count what it cannot memorize."""
    return ", ".join(f"{name} ({i})" for i, name in enumerate(path, 1)) + "."


def shift(rng: Random, unit: str, names: list[str], sign: int) -> tuple[str, list]:
    n = rng.randint(1, 10 if unit == "day" else 9)
    start = rng.randrange(len(names))
    path = [names[(start + sign * i) % len(names)] for i in range(1, n + 1)]
    x, there, word = names[start], path[-1], "after" if sign > 0 else "before"
    if n == 1:
        question = ask(rng, (NEXT if sign > 0 else PREVIOUS), unit=unit, x=x)
        return "", [question, answer(f"The {unit} {word} {x} is {there}.", there)]
    question = ask(rng, AFTER if sign > 0 else BEFORE, unit=unit, units=unit + "s", n=n, x=x)
    return f"{unit}:{word}:{n}:{x}", [question, answer(f"{counted(path)} {n} {unit}s {word} {x} is {there}.", there)]


def span(rng: Random, unit: str, names: list[str]) -> tuple[str, list]:
    start, steps = rng.randrange(len(names)), rng.randint(1, len(names) - 1)
    path = [names[(start + i) % len(names)] for i in range(steps + 1)]
    x, y = path[0], path[-1]
    if steps > 9 or rng.random() < 0.5:  # counting further would be too long an answer
        return f"{unit}:range:{x}:{y}", [ask(rng, RANGE, units=unit + "s", x=x, y=y), answer(", ".join(path) + ".")]
    total = f"{steps} {unit}{'s' if steps > 1 else ''}"
    question = ask(rng, DISTANCE, units=unit + "s", x=x, y=y)
    return f"{unit}:distance:{x}:{y}", [question, answer(f"{counted(path[1:])} From {x} to {y} it is {total}.", str(steps))]


def fact(rng: Random) -> list:
    i, roll = rng.randrange(12), rng.random()
    if roll < 0.4:
        days = "28 days, or 29 in a leap year" if i == 1 else f"{LENGTHS[i]} days"
        return [ask(rng, LENGTH, x=MONTHS[i]), answer(f"{MONTHS[i]} has {days}.")]
    if roll < 0.6:
        return [ask(rng, ORDINAL, x=MONTHS[i]), answer(f"{MONTHS[i]} is month {i + 1} of the year.")]
    if roll < 0.8:
        return [ask(rng, NTH, n=i + 1), answer(f"Month {i + 1} of the year is {MONTHS[i]}.")]
    questions, text = rng.choice(LISTS)
    return [ask(rng, questions), answer(text)]


def sample(rng: Random) -> Exchange:
    keys, messages = [], []
    for _ in range(2 if rng.random() < 0.2 else 1):
        unit, names = ("day", DAYS) if rng.random() < 0.5 else ("month", MONTHS)
        roll = rng.random()
        if roll < 0.55:
            key, part = shift(rng, unit, names, rng.choice((1, -1)))
        elif roll < 0.85:
            key, part = span(rng, unit, names)
        else:
            key, part = "", fact(rng)
        keys.append(key or "calendar:fact")
        messages += part
    return Exchange("calendar", keys, messages)
