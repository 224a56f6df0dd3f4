"""Scenes of words, of numbers and of sums, in many fonts."""

from __future__ import annotations

from random import Random

from PIL import Image, ImageDraw

from ..skills.arithmetic import number, step
from ..skills.invent import invented
from ..words import CITIES, COMMON_WORDS, DAYS, LAST_NAMES, MONTHS, NAMES
from . import fonts
from .scene import PALETTE, Color, Scene, asked, canvas_size, distinct, near, paper

READ = (
    "What does it say?", "What does it say?", "What does it say?", "What is written here?", "What does the picture say?",
    "Read the text.", "Read this.", "What does this say?", "What is the text?", "What is written in the picture?",
    "Please read it.", "Can you read this?", "Which words do you see?", "Write down the text.", "Transcribe this.",
    "What can you read?", "Tell me what it says.", "What text is in the picture?", "Read the picture.", "OCR",
    "What do you see?", "What is in the picture?", "Read it to me.", "Extract the text.",
)
INK = ("What color is the text?", "Which color do the letters have?", "What is the color of the text?",
       "In what color is it written?", "Which color is the writing?")
MANY = ("How many words are there?", "How many words do you see?", "Count the words.", "How many words does it have?",
        "How many words are in the picture?")
FIRST = ("What is the first word?", "Which word comes first?", "Read the first word.", "And the first word?")
LAST = ("What is the last word?", "Which word comes last?", "Read the last word.", "And the last word?")
GROUND = ("What color is the background?", "Which color is behind the text?", "What is the background color?",
          "Which color does the background have?")
SOLVE = (
    "What is the result?", "Solve this.", "Can you solve it?", "What is the answer?", "Calculate this.", "How much is that?",
    "What does it make?", "Work it out.", "Solve the sum.", "What comes out?", "What is the solution?", "Compute this.",
    "Solve the sum in this picture.", "Solve the sum in the picture.", "What is the result of the sum?", "Solve it.",
    "What is the result of the sum in the picture?", "Can you solve the sum in this picture?", "Please solve this sum.",
    "Calculate the sum in the picture.", "Add it up.", "How much is the sum in this picture?",
)


def word(rng: Random) -> str:
    roll = rng.random()
    if roll < 0.55:
        return rng.choice(COMMON_WORDS)
    if roll < 0.78:
        return invented(rng)
    if roll < 0.9:
        return rng.choice(rng.choice((NAMES, CITIES, LAST_NAMES, DAYS, MONTHS)))
    return figure(rng)


def figure(rng: Random) -> str:
    """A number, a price, a time, a year."""
    roll = rng.random()
    if roll < 0.6:
        return "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 6)))
    if roll < 0.75:
        return f"{rng.randint(0, 199)}.{rng.randint(0, 99):02}"
    if roll < 0.9:
        return f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}"
    return str(rng.randint(1900, 2030))


def cased(rng: Random, words: list[str]) -> list[str]:
    """All as they are, each with a capital, the first with one, or all of capitals."""
    roll = rng.random()
    if roll < 0.4:
        return words
    if roll < 0.55:
        return [w[:1].upper() + w[1:] for w in words]
    if roll < 0.7:
        return [words[0][:1].upper() + words[0][1:], *words[1:]]
    return [w.upper() for w in words]


def phrase(rng: Random) -> list[list[str]]:
    """Lines of words; 34 letters in all at most."""
    many = rng.choices((1, 2, 3, 4, 5, 6), (34, 26, 18, 11, 7, 4))[0]
    words = cased(rng, [word(rng) for _ in range(many)])
    while len(" ".join(words)) > 34:
        words.pop()
    lines = 1 if len(words) == 1 else rng.choices((1, 2, 3, 4), (40, 35, 17, 8))[0]
    lines = min(lines, len(words))
    cuts = sorted(rng.sample(range(1, len(words)), lines - 1))
    return [words[a:b] for a, b in zip([0, *cuts], [*cuts, len(words)], strict=True)]


def ink(rng: Random, ground: Color) -> tuple[str, Color]:
    """A color that can be read on this one, and its name."""
    while True:
        name = rng.choice(("black", "white")) if rng.random() < 0.5 else rng.choice(list(PALETTE))
        color = near(rng, PALETTE[name], 16)
        if distinct(color, ground):
            return name, color


def lettered(rng: Random, lines: list[str], unseen: bool = False) -> tuple[Image.Image, str, str]:
    """The lines on a background, at a place and of a size that fits; names of the ink's and the background's colors."""
    width, height = canvas_size(rng, wide=0.75)
    name, ground = paper(rng)
    image = Image.new("RGB", (width, height), ground)
    draw = ImageDraw.Draw(image)
    if rng.random() < 0.15:  # a sign: the text has a plate of its own
        edge = int(min(width, height) * rng.uniform(0.03, 0.1))
        name, plate = ink(rng, ground)
        draw.rounded_rectangle((edge, edge, width - edge, height - edge), rng.randint(0, 3 * edge), fill=plate)
        ground = plate
    color_name, color = ink(rng, ground)
    capitals = all(line == line.upper() for line in lines)
    paths = [p for p in fonts.files(unseen) if capitals or p.stem not in fonts.CAPITALS]
    path = rng.choice(paths)
    size, gap = int(min(height * 0.8 / len(lines), height * 0.6)), rng.uniform(1.1, 1.5)
    room_w, room_h = width * rng.uniform(0.6, 0.92), height * rng.uniform(0.6, 0.9)
    while True:
        face = fonts.font(path, size)
        widest = max(face.getlength(line) for line in lines)
        step_y = size * gap
        if widest <= room_w and step_y * len(lines) <= room_h:
            break
        shrink = min(room_w / widest, room_h / (step_y * len(lines)), 0.97)
        if size <= 9:
            break
        size = max(9, int(size * shrink))
    least = 9 + int(max(width, height) / 320 * 6)
    if size > least and rng.random() < 0.6:  # small letters in a large picture
        size = rng.randint(least, size)
    face, step_y = fonts.font(path, size), size * gap
    widest, tall = max(face.getlength(line) for line in lines), step_y * len(lines)
    left = rng.uniform(0.02 * width, max(0.02 * width, width - widest - 0.02 * width))
    top = rng.uniform(0.02 * height, max(0.02 * height, height - tall - 0.02 * height))
    centered = rng.random() < 0.5
    for i, line in enumerate(lines):
        x = left + (widest - face.getlength(line)) / 2 if centered else left
        draw.text((x, top + i * step_y), line, font=face, fill=color)
    return image, color_name, name


def words(rng: Random, unseen: bool = False) -> Scene:
    lines = phrase(rng)
    flat = [w for line in lines for w in line]
    image, color, ground = lettered(rng, [" ".join(line) for line in lines], unseen)
    text = " ".join(flat)
    many = f"There {'is 1 word' if len(flat) == 1 else f'are {len(flat)} words'}."
    return Scene(
        "words", [f"seen:{w.lower()}" for w in flat], image, asked(rng, READ, f'It says "{text}".', text),
        [
            lambda r: asked(r, INK, f"The text is {color}.", color),
            lambda r: asked(r, GROUND, f"The background is {ground}.", ground),
            lambda r: asked(r, MANY, many, str(len(flat))),
            lambda r: asked(r, FIRST, f'The first word is "{flat[0]}".', flat[0]),
            lambda r: asked(r, LAST, f'The last word is "{flat[-1]}".', flat[-1]),
            lambda r: asked(r, READ, f'It says "{text}".', text),
        ])


def sums(rng: Random, unseen: bool = False) -> Scene:
    op, a, b = rng.choice("+-"), number(rng), number(rng)
    if op == "-" and a < b:
        a, b = b, a
    key, answer, result = step(op, a, b)
    end = rng.choice(("", " =", " = ?"))
    text = f"{a} {op} {b}{end}"
    image, color, _ = lettered(rng, [text], unseen)
    solved = asked(rng, SOLVE, answer, str(result))
    read = asked(rng, READ, f'It says "{text}".', text)
    whole = solved if rng.random() < 0.6 else read
    return Scene("sums", [key], image, whole,
                 [lambda r: asked(r, SOLVE, answer, str(result)), lambda r: asked(r, READ, f'It says "{text}".', text),
                  lambda r: asked(r, INK, f"The text is {color}.", color)])
