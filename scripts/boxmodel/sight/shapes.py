"""Scenes of shapes: what, which color, where, how many."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from random import Random

from PIL import Image, ImageDraw

from ..skills.base import articles
from .scene import PALETTE, Asked, Color, Scene, asked, canvas_size, distinct, near, paper

SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "ring")
PLACES = ("top left", "top", "top right", "left", "middle", "right", "bottom left", "bottom", "bottom right")
SEE = (
    "What is in the picture?", "What do you see?", "What is this?", "Describe the picture.", "What does the picture show?",
    "What can you see?", "What is shown here?", "Describe what you see.", "Tell me what you see.", "What is there?",
    "Which shapes do you see?", "What are these?", "Look at this.", "What is on the picture?", "Describe this.",
)
MANY = ("How many shapes are there?", "How many shapes do you see?", "Count the shapes.", "How many are there?",
        "How many things are in the picture?", "How many do you see?")
MANY_OF = ("How many {what} are there?", "How many {what} do you see?", "Count the {what}.", "How many {what}?",
           "How many {what} are in the picture?", "What is the number of {what}?")
COLOR = ("What color is the {what}?", "Which color is the {what}?", "What is the color of the {what}?",
         "What color does the {what} have?", "Tell me the color of the {what}.")
WHERE = ("Where is the {what}?", "Where do you see the {what}?", "In which part is the {what}?", "Where is the {what} in the picture?",
         "Find the {what}.")
AT = ("What is in the {place}?", "What do you see in the {place}?", "Which shape is in the {place}?", "What is there in the {place}?",
      "And in the {place}?")
ANY = ("Is there a {what}?", "Do you see a {what}?", "Is a {what} in the picture?", "Can you see a {what}?", "Any {what}?")
BESIDE = ("Is the {what} {way} the {other}?", "Is the {what} {way} of the {other}?")
AS_JSON = ("List the shapes as JSON.", "Give me the shapes as JSON.", "Write what you see as JSON.", "Describe it as JSON.",
           "As JSON, please.", "Return the shapes as JSON.", "JSON of all shapes, please.", "Answer in JSON: which shapes are there?")
GROUND = ("What color is the background?", "What is the background color?", "Which color does the background have?",
          "Which color is behind the shapes?")


@dataclass
class Item:
    shape: str
    color: str
    place: int  # of PLACES

    @property
    def name(self) -> str:
        return f"{self.color} {self.shape}"


def outline(shape: str, x: float, y: float, r: float, turn: float) -> list[tuple[float, float]]:
    """The corners of a shape around (x, y)."""
    if shape == "square":
        angles, radii = [math.pi / 4 + i * math.pi / 2 for i in range(4)], [r * 1.12] * 4
    elif shape == "triangle":
        angles, radii = [-math.pi / 2 + i * 2 * math.pi / 3 for i in range(3)], [r * 1.15] * 3
    elif shape == "star":
        angles = [-math.pi / 2 + i * math.pi / 5 for i in range(10)]
        radii = [r * (1.15 if i % 2 == 0 else 0.47) for i in range(10)]
    elif shape == "cross":
        w = 0.33
        corners = [(-w, -1), (w, -1), (w, -w), (1, -w), (1, w), (w, w), (w, 1), (-w, 1), (-w, w), (-1, w), (-1, -w), (-w, -w)]
        return [(x + r * (a * math.cos(turn) - b * math.sin(turn)), y + r * (a * math.sin(turn) + b * math.cos(turn)))
                for a, b in corners]
    else:  # a heart
        steps = [i * 2 * math.pi / 40 for i in range(40)]
        points = [(16 * math.sin(t) ** 3 / 16,
                   -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)) / 16) for t in steps]
        return [(x + r * (a * math.cos(turn) - b * math.sin(turn)), y + r * (a * math.sin(turn) + b * math.cos(turn)))
                for a, b in points]
    return [(x + radius * math.cos(angle + turn), y + radius * math.sin(angle + turn))
            for angle, radius in zip(angles, radii, strict=True)]


def put(draw: ImageDraw.ImageDraw, shape: str, x: float, y: float, r: float, color: Color, turn: float, line: int) -> None:
    """Draws a shape; `line` is the width of its outline, where it is not filled."""
    box = (x - r, y - r, x + r, y + r)
    if shape == "ring":
        draw.ellipse(box, outline=color, width=max(3, int(r * 0.3)))
    elif shape == "circle":
        draw.ellipse(box, fill=None if line else color, outline=color if line else None, width=line or 1)
    elif line:
        corners = outline(shape, x, y, r, turn)
        draw.line([*corners, corners[0], corners[1]], fill=color, width=line, joint="curve")
    else:
        draw.polygon(outline(shape, x, y, r, turn), fill=color)


def plural(name: str) -> str:
    return name + ("es" if name.endswith("s") else "s")


def a(name: str) -> str:
    return articles(f" a {name}")[1:]


def some(count: int, name: str) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return a(name) if count == 1 else f"{words[count]} {plural(name)}"


def listed(parts: list[str]) -> str:
    text = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return text[0].upper() + text[1:] + "."


def counted(count: int, name: str) -> str:
    return f"There is 1 {name}." if count == 1 else f"There are {count or 'no'} {plural(name)}."


def colors_on(rng: Random, ground: Color, ground_name: str) -> list[str]:
    return [name for name in PALETTE if name != ground_name and distinct(PALETTE[name], ground)]


def placed(rng: Random, unseen: bool = False) -> Scene:
    """One to five shapes in a grid of three by three."""
    width, height = canvas_size(rng, wide=0.4)
    name, ground = paper(rng)
    names = colors_on(rng, ground, name)
    many = rng.choices((1, 2, 3, 4, 5), (30, 26, 22, 13, 9))[0]
    places = sorted(rng.sample(range(9), many))
    items = [Item(rng.choice(SHAPES), rng.choice(names), place) for place in places]
    if many == 1 and rng.random() < 0.5:
        items[0].place = 4
    image = Image.new("RGB", (width, height), ground)
    draw = ImageDraw.Draw(image)
    cell_w, cell_h = width / 3, height / 3
    for item in items:
        most = min(cell_w, cell_h) / 2.4
        r = most * rng.uniform(0.5, 1.0)
        if many == 1 and item.place == 4:
            r *= rng.uniform(1.0, 2.4)
        x = (item.place % 3 + 0.5) * cell_w + rng.uniform(-0.1, 0.1) * cell_w
        y = (item.place // 3 + 0.5) * cell_h + rng.uniform(-0.1, 0.1) * cell_h
        line = max(3, int(r * 0.16)) if rng.random() < 0.12 and r > 18 and item.shape != "ring" else 0
        put(draw, item.shape, x, y, r, near(rng, PALETTE[item.color]), rng.uniform(-0.2, 0.2), line)
    kinds = Counter(item.name for item in items)  # in the order of reading
    text = listed([some(n, k) for k, n in kinds.items()])
    by_shape, by_color = Counter(i.shape for i in items), Counter(i.color for i in items)
    single = [i for i in items if by_shape[i.shape] == 1]

    def how_many(r: Random) -> Asked:
        roll = r.random()
        if roll < 0.35:
            return asked(r, MANY, counted(many, "shape"), str(many))
        if roll < 0.7:
            shape = r.choice(items).shape if r.random() < 0.7 else r.choice(SHAPES)
            return asked(r, MANY_OF, counted(by_shape[shape], shape), str(by_shape[shape]), what=plural(shape))
        color = r.choice(items).color if r.random() < 0.8 else r.choice(names)
        what = f"{color} shape"
        return asked(r, MANY_OF, counted(by_color[color], what), str(by_color[color]), what=plural(what))

    def there(r: Random) -> Asked:
        shape = r.choice(SHAPES)
        found = [i for i in items if i.shape == shape]
        if not found:
            return asked(r, ANY, "No.", what=shape)
        kinds = Counter(i.name for i in found)
        seen = listed([some(n, k) for k, n in kinds.items()])
        return asked(r, ANY, f"Yes, {seen[0].lower()}{seen[1:]}", "Yes", what=shape)

    def at(r: Random) -> Asked:
        place = r.choice(items).place if r.random() < 0.75 else r.randrange(9)
        found = next((i for i in items if i.place == place), None)
        answer = f"{a(found.name).capitalize()}." if found else "Nothing."
        return asked(r, AT, answer, place=PLACES[place])

    def one(r: Random) -> Asked:
        item = r.choice(single)
        if r.random() < 0.5:
            return asked(r, COLOR, f"The {item.shape} is {item.color}.", item.color, what=item.shape)
        place = PLACES[item.place]
        return asked(r, WHERE, f"The {item.shape} is in the {place}.", place, what=item.shape)

    def beside(r: Random) -> Asked:
        one_, other = r.sample(single, 2)
        across = one_.place % 3 != other.place % 3 and (one_.place // 3 == other.place // 3 or r.random() < 0.5)
        if not across and one_.place // 3 == other.place // 3:
            across = True
        if across:
            way, right = r.choice((("left", one_.place % 3 < other.place % 3), ("right", one_.place % 3 > other.place % 3)))
            return asked(r, BESIDE[1:], "Yes." if right else "No.", what=one_.shape, way=way, other=other.shape)
        way, right = r.choice((("above", one_.place < other.place), ("below", one_.place > other.place)))
        return asked(r, BESIDE[:1], "Yes." if right else "No.", what=one_.shape, way=way, other=other.shape)

    written = json.dumps([{"shape": i.shape, "color": i.color} for i in items])
    others = [how_many, there, at, lambda r: asked(r, AS_JSON, written, written),
              lambda r: asked(r, GROUND, f"The background is {name}.", name), lambda r: asked(r, SEE, text)]
    if single:
        others += [one, one, one]
    if len({i.place % 3 for i in single}) > 1 or len({i.place // 3 for i in single}) > 1:
        others += [beside] if len(single) > 1 else []
    key = "shapes:" + ":".join(f"{i.name}@{i.place}" if many == 1 else i.name for i in items)
    return Scene("shapes", [key], image, asked(rng, SEE, text), others)


def crowd(rng: Random, unseen: bool = False) -> Scene:
    """Two to nine of one shape anywhere, sometimes with some of another one."""
    width, height = canvas_size(rng, wide=0.4)
    name, ground = paper(rng)
    names = colors_on(rng, ground, name)
    kinds = rng.sample(SHAPES, rng.choice((1, 1, 2)))
    colors = [rng.choice(names) for _ in kinds]
    counts = [rng.randint(2, 9)] if len(kinds) == 1 else [rng.randint(1, 5), rng.randint(1, 4)]
    image = Image.new("RGB", (width, height), ground)
    draw = ImageDraw.Draw(image)
    side = min(width, height)
    r = side * rng.uniform(0.07, 0.12)
    taken: list[tuple[float, float]] = []
    for kind, color, count in zip(kinds, colors, counts, strict=True):
        for _ in range(count):
            for _ in range(400):
                x, y = rng.uniform(1.3 * r, width - 1.3 * r), rng.uniform(1.3 * r, height - 1.3 * r)
                if all((x - p) ** 2 + (y - q) ** 2 > (2.5 * r) ** 2 for p, q in taken):
                    break
            else:
                return crowd(rng)  # no room is left
            taken.append((x, y))
            put(draw, kind, x, y, r * rng.uniform(0.85, 1.0), near(rng, PALETTE[color]), rng.uniform(-0.2, 0.2), 0)
    parts = sorted(((n, f"{c} {k}") for k, c, n in zip(kinds, colors, counts, strict=True)), key=lambda p: (-p[0], p[1]))
    text = listed([some(n, k) for n, k in parts])

    def how_many(r: Random) -> Asked:
        if len(kinds) == 1 or r.random() < 0.7:
            i = r.randrange(len(kinds))
            return asked(r, MANY_OF, counted(counts[i], kinds[i]), str(counts[i]), what=plural(kinds[i]))
        return asked(r, MANY, counted(sum(counts), "shape"), str(sum(counts)))

    key = "crowd:" + ":".join(f"{n} {k}" for n, k in parts)
    return Scene("counts", [key], image, asked(rng, SEE, text), [how_many, how_many, lambda r: asked(r, SEE, text)])
