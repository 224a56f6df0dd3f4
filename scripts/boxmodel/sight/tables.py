"""Scenes of small tables: a column of words, one or two of numbers."""

from __future__ import annotations

from random import Random

from PIL import Image, ImageDraw

from ..skills.invent import value
from ..words import ANIMALS, CITIES, FOODS, GOODS, NAMES
from . import fonts
from .letters import ink
from .scene import Asked, Scene, asked, near, paper

KINDS = (
    ("Item", FOODS, (("Price", 1, 20), ("Count", 1, 60), ("Weight", 1, 90))),
    ("Item", GOODS, (("Price", 5, 99), ("Stock", 0, 50), ("Size", 10, 80))),
    ("Name", NAMES, (("Age", 5, 90), ("Points", 0, 99), ("Goals", 0, 12))),
    ("City", CITIES, (("Days", 1, 14), ("Price", 20, 999), ("Rain", 0, 40))),
    ("Animal", ANIMALS, (("Legs", 0, 8), ("Age", 1, 30), ("Count", 1, 40))),
)
READ = (
    "Read the table.", "What does the table say?", "What is in the table?", "Write the table as Markdown.", "Copy the table.",
    "What does it say?", "What do you see?", "What is in the picture?", "Give me the table.", "Transcribe the table.",
    "Read this.", "What is this?", "Write down the table.",
)
CELL = (
    "What is the {column} of {row}?", "Which {column} does {row} have?", "{row}: what is the {column}?",
    "What is the {column} for {row}?", "Tell me the {column} of {row}.", "And the {column} of {row}?",
)
WHO = ("Which {head} has the {column} {cell}?", "Which {head} has {column} {cell}?", "The {column} {cell} belongs to which {head}?")
MOST = ("Which {head} has the highest {column}?", "Which {head} has the most {column}?", "Where is the {column} highest?")
ROWS = ("How many rows does the table have?", "How many rows are there?", "Count the rows.", "How many lines has the table?")


def table(rng: Random, unseen: bool = False) -> Scene:
    head, words, columns = rng.choice(KINDS)
    columns = rng.sample(columns, rng.choice((1, 1, 2)))
    many = rng.choice((2, 3, 3, 4))
    rows: list[str] = []
    while len(rows) < many:
        word = value(rng, words, share=0.15)
        if word not in rows and len(word) <= 9:
            rows.append(word)
    cells = [[rng.randint(low, high) for _, low, high in columns] for _ in rows]
    names = [head, *(name for name, _, _ in columns)]
    lines = [names, *([row, *map(str, c)] for row, c in zip(rows, cells, strict=True))]
    image = drawn(rng, lines, unseen)
    text = "\n".join(["| " + " | ".join(names) + " |", "|" + "---|" * len(names),
                      *("| " + " | ".join(line) + " |" for line in lines[1:])])

    def cell(r: Random) -> Asked:
        i, j = r.randrange(many), r.randrange(len(columns))
        name = columns[j][0].lower()
        return asked(r, CELL, f"The {name} of {rows[i]} is {cells[i][j]}.", str(cells[i][j]), column=name, row=rows[i])

    def who(r: Random) -> Asked:
        j = r.randrange(len(columns))
        column = [c[j] for c in cells]
        i = r.randrange(many)
        name = columns[j][0].lower()
        if column.count(column[i]) > 1:
            return cell(r)
        return asked(r, WHO, f"{rows[i][0].upper()}{rows[i][1:]}.", rows[i], head=head.lower(), column=name, cell=column[i])

    def most(r: Random) -> Asked:
        j = r.randrange(len(columns))
        column = [c[j] for c in cells]
        if column.count(max(column)) > 1:
            return cell(r)
        row = rows[column.index(max(column))]
        return asked(r, MOST, f"{row[0].upper()}{row[1:]}.", row, head=head.lower(), column=columns[j][0].lower())

    key = "table:" + ":".join(f"{row}={c[0]}" for row, c in zip(rows, cells, strict=True))
    rows_text = f"The table has {many} rows."
    return Scene("tables", [key], image, asked(rng, READ, text),
                 [cell, cell, cell, who, most, lambda r: asked(r, ROWS, rows_text, str(many)), lambda r: asked(r, READ, text)])


def drawn(rng: Random, lines: list[list[str]], unseen: bool) -> Image.Image:
    """The cells in a grid, with lines between them or without, and a head that may be marked."""
    name, ground = ("white", near(rng, (250, 250, 250), 10)) if rng.random() < 0.7 else paper(rng)
    _, color = ink(rng, ground)
    path = rng.choice([p for p in fonts.files(unseen) if p.stem not in fonts.CAPITALS])
    size = rng.randint(18, 30)
    face = fonts.font(path, size)
    pad_x, pad_y = rng.randint(6, 20), rng.randint(4, 14)
    widths = [max(face.getlength(line[j]) for line in lines) + 2 * pad_x for j in range(len(lines[0]))]
    step = size * 1.25 + 2 * pad_y
    margin = rng.randint(4, 40)
    width, height = int(sum(widths) + 2 * margin), int(step * len(lines) + 2 * margin)
    height = max(height, int(width * 0.4))
    image = Image.new("RGB", (width, height), ground)
    draw = ImageDraw.Draw(image)
    grid, head = rng.random(), rng.random()
    right = rng.random() < 0.5
    if head < 0.3:
        soft = tuple(int(g + (c - g) * 0.18) for g, c in zip(ground, color, strict=True))
        draw.rectangle((margin, margin, width - margin, margin + step), fill=soft)
    for i, line in enumerate(lines):
        x = float(margin)
        for j, text in enumerate(line):
            at = x + widths[j] - pad_x - face.getlength(text) if right and j else x + pad_x
            draw.text((at, margin + i * step + pad_y), text, font=face, fill=color)
            x += widths[j]
        if grid < 0.65 or (i == 0 and head > 0.5):
            draw.line((margin, margin + (i + 1) * step, width - margin, margin + (i + 1) * step), fill=color, width=1)
    if grid < 0.45:
        edges = [margin + sum(widths[:j]) for j in range(len(widths) + 1)]
        for x in edges:
            draw.line((x, margin, x, margin + step * len(lines)), fill=color, width=1)
        draw.line((margin, margin, width - margin, margin), fill=color, width=1)
    return image
