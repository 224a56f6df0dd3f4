"""The number of held-out questions that are answered exactly, and the reference answers that engines are compared with."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer

from . import heldout
from .chat import END, render
from .export import read
from .generate import greedy, greedy_all
from .skills.about import CAN, CAN_SEE

LIMIT = 64  # new tokens an answer


def prompt_tokens(tokenizer: Tokenizer, item: dict) -> list[int]:
    return tokenizer.encode(render(item["messages"], item.get("tools"), add_generation_prompt=True)).ids


def items(seed: int) -> list[dict]:
    """The held-out set, with what a model that looks at pictures says of itself."""
    return [{**item, "expected": item["expected"].replace(CAN, CAN_SEE)} for item in heldout.items(seed)]


def quick(model_file: Path, tokenizer: Tokenizer, seed: int, sets: int) -> dict[str, tuple[int, int]]:
    """Per skill (exact, asked) over `sets` held-out sets, the first of which is the one that ships. Prints misses."""
    model = read(model_file)
    if torch.cuda.is_available():
        model.cuda()
    rows = [item for i in range(sets) for item in items(seed + i)]
    stop = tokenizer.token_to_id(END)
    answers = greedy_all(model, [prompt_tokens(tokenizer, r) for r in rows], stop, LIMIT)
    asked, right, shown = Counter(), Counter(), Counter()
    for row, ids in zip(rows, answers, strict=True):
        text = tokenizer.decode(ids)
        asked[row["skill"]] += 1
        right[row["skill"]] += text == row["expected"]
        if text != row["expected"] and shown[row["skill"]] < 6:
            shown[row["skill"]] += 1
            print(json.dumps({"id": row["id"], "asked": row["messages"][-1]["content"][-160:], "expected": row["expected"],
                              "answer": text}))
    return {skill: (right[skill], asked[skill]) for skill in asked}


def reference(model_file: Path, tokenizer: Tokenizer, seed: int, path: Path) -> list[dict]:
    """Answers the held-out set one question at a time in f32 on the shipped weights and writes the file of it."""
    model, stop, rows = read(model_file), tokenizer.token_to_id(END), []
    for item in items(seed):
        del item["key"], item["text"]
        prompt = prompt_tokens(tokenizer, item)
        ids, margin = greedy(model, prompt, stop, LIMIT)
        text = tokenizer.decode(ids)
        rows.append({**item, "prompt_tokens": prompt, "reference_tokens": ids, "reference_text": text,
                     "exact": text == item["expected"], "min_margin": round(margin, 4)})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return rows


def table(counts: dict[str, tuple[int, int]]) -> str:
    """A Markdown table of exact answers per skill."""
    lines = ["| skill | exact | of | percent |", "|---|---|---|---|"]
    total = (sum(r for r, _ in counts.values()), sum(n for _, n in counts.values()))
    for skill, (right, asked) in [*counts.items(), ("all", total)]:
        lines.append(f"| {skill} | {right} | {asked} | {100 * right / asked:.1f} |")
    return "\n".join(lines)
