"""Picking fields out of a sentence as JSON."""

from __future__ import annotations

import json
from random import Random

from ..words import CITIES, COLORS, DAYS, GOODS, HOBBIES, JOBS, LAST_NAMES, MONTHS, NAMES, ROOMS
from .base import Exchange, answer, casual, user
from .invent import value

PERSON = (
    "{name} is {age} years old, lives in {city} and works as a {job}.",
    "My neighbor {name}, {age}, is a {job} from {city}.",
    "{name} from {city} is a {job} and {age} years old.",
    "The {job} {name} lives in {city} and is {age}.",
    "In {city} lives {name}, a {job}, {age} years of age.",
    "{name} ({age}) has worked in {city} as a {job} for years.",
    "Meet {name}: a {age} year old {job} who lives in {city}.",
    "At {age}, {name} moved to {city} and became a {job}.",
    "I know a {job} in {city}. The name is {name}, age {age}.",
    "This is {name}, our new {job}. Age {age}, born in {city}.",
)
ORDER = (
    "{name} ordered {count} {color} {item}s for {price} euros.",
    "{count} {color} {item}s were sold to {name} for {price} euros.",
    "Please send {count} {color} {item}s to {name}. The price is {price} euros.",
    "For {price} euros {name} bought {count} {color} {item}s.",
    "New order: {count} {item}s in {color} for {name}, {price} euros.",
    "{name} paid {price} euros for {count} {color} {item}s.",
    "We shipped {count} {color} {item}s worth {price} euros to {name}.",
    "The customer {name} wants {count} {color} {item}s and pays {price} euros.",
    "{count} {item}s, {color}, {price} euros, for {name}.",
    "Yesterday {name} got {count} {color} {item}s and paid {price} euros.",
)
EVENT = (
    "The {hobby} class with {name} is on {day} at {hour} in the {room}.",
    "{name} leads {hobby} in the {room} on {day} at {hour}.",
    "On {day} at {hour} {name} teaches {hobby} in the {room}.",
    "Join {name} for {hobby} in the {room}, {day} at {hour}.",
    "There is {hobby} with {name} every {day} at {hour} in the {room}.",
    "At {hour} on {day} the {hobby} group of {name} meets in the {room}.",
    "{day}, {hour}: {hobby} with {name} in the {room}.",
    "Next {day} {name} will show us {hobby} in the {room} at {hour}.",
    "We do {hobby} in the {room} on {day}; {name} starts at {hour}.",
    "{name} invites you to {hobby} on {day} at {hour} in the {room}.",
)
TRIP = (
    "{name} flies from {city} to {goal} in {month} and pays {price} euros.",
    "In {month} {name} takes the train from {city} to {goal} for {price} euros.",
    "The trip of {name} from {city} to {goal} in {month} costs {price} euros.",
    "{name} booked {city} to {goal} for {month}: {price} euros.",
    "For {price} euros {name} travels from {city} to {goal} in {month}.",
    "From {city} to {goal} in {month}, {price} euros, passenger {name}.",
    "{name} leaves {city} for {goal} in {month}. The ticket was {price} euros.",
    "A ticket from {city} to {goal} for {name} in {month} is {price} euros.",
    "{name} will drive from {city} to {goal} in {month} and spend {price} euros.",
    "Ticket for {name}: {city} to {goal}, {month}, {price} euros.",
)
ASK = (
    "Give me {f} as JSON: {s}", "Extract {f} as JSON. {s}", "{s} Write {f} as JSON.", "{s} Give {f} as JSON.",
    "Pick out {f} as JSON from this sentence: {s}", "Return JSON with {f}: {s}", "{s}\nExtract {f} as JSON.",
    "From the text, get {f} as JSON. Text: {s}", "What are {f} in this sentence? Answer in JSON. {s}",
    "Turn this into JSON with {f}: {s}", "JSON with the fields {f}, please: {s}", "Read this and return {f} as JSON. {s}",
)
THEN = ("Now only {f}.", "And {f}?", "Now give me {f} as JSON.", "Now {f}, please.", "And as JSON only {f}?")


def record(rng: Random) -> tuple[str, dict]:
    kind = rng.choice(("person", "order", "event", "trip"))
    name = value(rng, NAMES) + (" " + value(rng, LAST_NAMES) if rng.random() < 0.2 else "")
    if kind == "person":
        values = {"name": name, "age": rng.randint(18, 90), "city": value(rng, CITIES), "job": rng.choice(JOBS)}
        return rng.choice(PERSON).format(**values), values
    if kind == "order":
        values = {"name": name, "count": rng.randint(2, 60), "color": rng.choice(COLORS), "item": rng.choice(GOODS),
                  "price": rng.randint(5, 900)}
        if values["item"] == "scarf":
            values["item"] = "shawl"
        return rng.choice(ORDER).format(**values), values
    if kind == "event":
        values = {"name": name, "hobby": rng.choice(HOBBIES), "day": rng.choice(DAYS), "hour": rng.randint(7, 22),
                  "room": rng.choice(ROOMS)}
        return rng.choice(EVENT).format(**values), values
    city, goal = value(rng, CITIES), value(rng, CITIES)
    values = {"name": name, "from": city, "to": goal, "month": rng.choice(MONTHS), "price": rng.randint(20, 900)}
    return rng.choice(TRIP).format(city=city, goal=goal, **values), values


def listed(fields: list[str]) -> str:
    return fields[0] if len(fields) == 1 else ", ".join(fields[:-1]) + " and " + fields[-1]


def sample(rng: Random) -> Exchange:
    sentence, values = record(rng)
    fields = rng.sample(list(values), rng.choices((1, 2, 3, 4), (10, 40, 35, 15))[0])
    picked = json.dumps({f: values[f] for f in fields})
    content = ":".join(str(v) for v in values.values())
    keys = [f"fields:{content}"]
    wording = ("the " if rng.random() < 0.4 else "") + listed(fields)
    phrasing = rng.choice(ASK)
    question = phrasing.format(f=wording, s=sentence)  # a sentence that comes first keeps its name's capital
    messages = [user(question if phrasing.startswith("{s}") else casual(rng, question, names=True)), answer(picked)]
    if rng.random() < 0.2:
        fields = rng.sample(list(values), rng.randint(1, 2))
        keys *= 2
        messages += [user(rng.choice(THEN).format(f="the " + listed(fields))),
                     answer(json.dumps({f: values[f] for f in fields}))]
    return Exchange("fields", keys, messages)
