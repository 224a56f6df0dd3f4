"""The 500 held-out items: each one's last question has a held-out key; earlier questions may be trained."""

from __future__ import annotations

from random import Random

from .dialogue import compose, training_exchange
from .skills import about, arithmetic, calendar, fields, letters, memory, sorting, stories, tools, units
from .skills.base import Exchange
from .split import held_out

# (name in the card, how an exchange is drawn, how many)
PLAN = (
    ("chat", about.sample, 30),
    ("memory", memory.sample, 20),
    ("addition", lambda rng: arithmetic.sample(rng, "+"), 60),
    ("subtraction", lambda rng: arithmetic.sample(rng, "-"), 60),
    ("calendar", calendar.sample, 50),
    ("units", units.sample, 50),
    ("spelling", lambda rng: letters.sample(rng, real_words=True), 35),
    ("reversing", lambda rng: letters.sample(rng, real_words=True), 40),
    ("sorting", sorting.sample, 50),
    ("fields", fields.sample, 40),
    ("tools", tools.sample, 35),
    ("stories", lambda rng: stories.sample(rng, tell=0.3), 30),
)
SEVERAL_TURNS = 0.25  # of the items start with another exchange
BETWEEN = (arithmetic.sample, calendar.sample, units.sample, sorting.sample, letters.sample)


def wanted(name: str, key: str) -> bool:
    """Whether a question with this key counts for the skill `name`."""
    kind = key.partition(":")[0]
    if name in ("addition", "subtraction"):
        return kind == name[:3]
    if name in ("spelling", "reversing"):
        return (kind == "reverse") == (name == "reversing")
    return True


def cut(exchange: Exchange, name: str) -> tuple[Exchange, str, str] | None:
    """The exchange up to its last held-out question, the right answer, the key; None where it has none."""
    asked = [i for i, m in enumerate(exchange.messages) if m["role"] in ("user", "tool")]
    for key, i in reversed(list(zip(exchange.keys, asked, strict=True))):
        if held_out(key) and wanted(name, key):
            part = Exchange(name, [key], exchange.messages[: i + 1], exchange.tools)
            return part, exchange.messages[i + 1]["content"], key
    return None


def draw(rng: Random, name: str, sample) -> dict | None:
    """One item, or None where this draw holds no held-out question."""
    exchange = sample(rng)
    if name == "memory":  # said, then one or two other exchanges, then asked
        if not held_out(exchange.keys[0]):
            return None
        between = [training_exchange(rng, rng.choice(BETWEEN)) for _ in range(rng.randint(1, 2))]
        ask, reply = exchange.late[:2]
        part = Exchange(name, [], [ask])
        exchanges, expected, key = [Exchange(name, [], exchange.messages), *between, part], reply["content"], exchange.keys[0]
        text = Exchange(name, [], [*exchange.messages, ask]).texts()[-1]
    else:
        found = cut(exchange, name)
        if found is None:
            return None
        part, expected, key = found
        before = not exchange.tools and rng.random() < SEVERAL_TURNS
        exchanges = [training_exchange(rng, rng.choice(BETWEEN))] if before else []
        exchanges.append(part)
        text = part.texts()[-1]
    chat = compose(rng, exchanges)
    return {"skill": name, "messages": chat.messages, "tools": chat.tools, "expected": expected, "key": key, "text": text}


def items(seed: int) -> list[dict]:
    """The held-out set in order; no two items ask the same. `key` and `text` serve the checks only."""
    rng, out, seen = Random(f"held-out:{seed}"), [], set()
    for name, sample, many in PLAN:
        while many:
            item = draw(rng, name, sample)
            if item is None or item["text"] in seen or item["key"] in seen:
                continue
            seen |= {item["text"], item["key"]}
            out.append({"id": f"{name}-{len(out):03d}", **item})
            many -= 1
    return out
