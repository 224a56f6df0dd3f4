"""Addition and subtraction up to three digits, with follow-up questions about the result."""

from __future__ import annotations

from random import Random

from .base import Exchange, answer, ask

ADD = (
    "What is {a} + {b}?", "What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a} + {b} = ?", "What's {a} plus {b}?",
    "Add {a} and {b}.", "Calculate {a} + {b}.", "How much is {a} plus {b}?", "Can you add {a} and {b}?",
    "What do {a} and {b} make together?", "What is the sum of {a} and {b}?", "Please work out {a} + {b}.",
    "I have {a} coins and get {b} more. How many coins do I have?", "Compute {a} + {b}.", "What is {a}+{b}?",
    "{a} plus {b}", "Tell me {a} plus {b}.", "{a}+{b}=", "{a} + {b} =",
)
SUB = (
    "What is {a} - {b}?", "What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "{a} - {b} = ?", "What's {a} minus {b}?",
    "Subtract {b} from {a}.", "Calculate {a} - {b}.", "How much is {a} minus {b}?", "Take {b} away from {a}.",
    "What is left of {a} when {b} is taken away?", "What is the difference {a} - {b}?", "Please work out {a} - {b}.",
    "I have {a} coins and give away {b}. How many coins do I have?", "Compute {a} - {b}.", "What is {a}-{b}?",
    "{a} minus {b}", "Tell me {a} minus {b}.", "{a}-{b}=", "{a} - {b} =",
)
MORE = ("Now add {b}.", "And plus {b}?", "Add {b} to that.", "And {b} more?", "What if you add {b}?", "Plus {b}?")
LESS = ("Now subtract {b}.", "And minus {b}?", "Take {b} away from that.", "And {b} less?",
        "What if you subtract {b}?", "Minus {b}?")
AGAIN_ADD = ("And {a} + {b}?", "And what is {a} plus {b}?", "What about {a} + {b}?", "Now {a} + {b}.")
AGAIN_SUB = ("And {a} - {b}?", "And what is {a} minus {b}?", "What about {a} - {b}?", "Now {a} - {b}.")

LIMIT = "I can only add and subtract whole numbers of up to three digits."
TOO_HARD = (
    "What is {a} * {b}?", "{a} * {b}", "What is {a}*{b}?", "{a}*{b}", "{a}x{b}", "What is {a} times {b}?", "Multiply {a} by {b}.", "{a} x {b}",
    "What is {a} / {b}?", "Divide {a} by {b}.", "{a} / {b}", "What is {a} divided by {b}?", "What is {big} + {b}?",
    "What is {big} - {b}?", "{b} + {big}", "What is the square root of {a}?", "What is {a} squared?",
)


def number(rng: Random) -> int:
    digits = rng.choices((1, 2, 3), (15, 35, 50))[0]
    return rng.randint(0 if digits == 1 else 10 ** (digits - 1), 10**digits - 1)


def step(op: str, a: int, b: int) -> tuple[str, str, int]:
    """The key, the answer and the result of `a op b`."""
    if op == "+":  # the key does not depend on the order of the two
        return f"add:{min(a, b)}:{max(a, b)}", f"{a} + {b} = {a + b}.", a + b
    return f"sub:{a}:{b}", f"{a} - {b} = {a - b}.", a - b


def sample(rng: Random, op: str = "") -> Exchange:
    if not op and rng.random() < 0.03:
        question = ask(rng, TOO_HARD, a=number(rng), b=number(rng), big=rng.randint(1000, 99999))
        return Exchange("about", [], [question, answer(LIMIT)])
    op = op or rng.choice("+-")
    a, b = number(rng), number(rng)
    if op == "-" and a < b and rng.random() < 0.8:
        a, b = b, a
    key, text, result = step(op, a, b)
    keys = [key]
    messages = [ask(rng, ADD if op == "+" else SUB, a=a, b=b), answer(text, str(result))]
    while rng.random() < 0.22 and len(keys) < 4:
        op = rng.choice("+-")
        if 0 <= result <= 999 and rng.random() < 0.7:
            a, b = result, number(rng)
            if op == "-" and a < b:
                op = "+"
            phrasing = MORE if op == "+" else LESS
        else:
            a, b = number(rng), number(rng)
            if op == "-" and a < b:
                a, b = b, a
            phrasing = AGAIN_ADD if op == "+" else AGAIN_SUB
        key, text, result = step(op, a, b)
        keys.append(key)
        messages += [ask(rng, phrasing, a=a, b=b), answer(text, str(result))]
    return Exchange("addition" if op == "+" else "subtraction", keys, messages)
