"""Units of length, weight, volume, time and number, converted both ways where the result is whole."""

from __future__ import annotations

from random import Random

from .base import Exchange, answer, ask

# (larger, its short form, smaller, its short form, how many smaller in one larger, largest count asked for)
UNITS = (
    ("kilometers", "km", "meters", "m", 1000, 999),
    ("meters", "m", "centimeters", "cm", 100, 999),
    ("meters", "m", "millimeters", "mm", 1000, 999),
    ("centimeters", "cm", "millimeters", "mm", 10, 999),
    ("kilograms", "kg", "grams", "g", 1000, 999),
    ("tons", "t", "kilograms", "kg", 1000, 999),
    ("liters", "l", "milliliters", "ml", 1000, 999),
    ("euros", "euros", "cents", "cents", 100, 999),
    ("centuries", "centuries", "years", "years", 100, 99),
    ("decades", "decades", "years", "years", 10, 99),
    ("hours", "h", "minutes", "min", 60, 12),
    ("minutes", "min", "seconds", "s", 60, 12),
    ("days", "days", "hours", "h", 24, 10),
    ("weeks", "weeks", "days", "days", 7, 12),
    ("years", "years", "months", "months", 12, 12),
    ("feet", "ft", "inches", "in", 12, 12),
    ("dozens", "dozens", "pieces", "pieces", 12, 12),
)
ASK = (
    "How many {to} are in {n} {unit}?", "Convert {n} {unit} to {to}.", "What is {n} {unit} in {to}?",
    "{n} {unit} in {to}?", "Express {n} {unit} in {to}.", "How many {to} make {n} {unit}?",
    "{n} {unit} is how many {to}?", "Turn {n} {unit} into {to}.", "I have {n} {unit}. How many {to} is that?",
    "Can you convert {n} {unit} into {to}?", "Change {n} {unit} to {to}.", "Give me {n} {unit} in {to}.",
)
SINGULAR = {"feet": "foot", "inches": "inch", "centuries": "century"}


def named(count: int, unit: str) -> str:
    return f"{count} {SINGULAR.get(unit, unit[:-1]) if count == 1 else unit}"


def sample(rng: Random) -> Exchange:
    keys, messages = [], []
    for _ in range(2 if rng.random() < 0.2 else 1):
        large, large_short, small, small_short, factor, most = rng.choice(UNITS)
        # Small counts are asked often and are never all held out, so that every table is learned.
        count = rng.randint(1, min(most, 12) if rng.random() < 0.3 else most)
        down = rng.random() < 0.65
        source, target = ((count, large), (count * factor, small)) if down else ((count * factor, small), (count, large))
        to_name, from_name = target[1], named(*source).split(" ", 1)[1]
        if rng.random() < 0.2:
            to_name, from_name = (small_short, large_short) if down else (large_short, small_short)
        question = ask(rng, ASK, n=source[0], unit=from_name, to=to_name)
        if len(from_name) <= 3 and rng.random() < 0.4:  # as in "5km"
            question["content"] = question["content"].replace(f"{source[0]} {from_name}", f"{source[0]}{from_name}")
        keys.append(f"unit:{'down' if down else 'up'}:{count}:{large}:{small}" if count > 2 else "units:table")
        messages += [question, answer(f"{named(*source)} = {named(*target)}.", str(target[0]))]
    return Exchange("units", keys, messages)
