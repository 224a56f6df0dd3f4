"""The number of held-out pictures about which the answer is exact, and the pictures and answers of the tests."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer

from ..chat import END, IMAGE, START
from ..export import read as read_text
from ..model import Llama
from . import heldout
from .batches import spelled
from .export import read
from .prepare import pixels
from .talk import render
from .tower import Tower, with_rows

LIMIT = 96  # new tokens an answer


def prompt(tokenizer: Tokenizer, item: heldout.Item) -> list[int]:
    return tokenizer.encode(spelled(render(item.messages())) + f"{START}assistant\n").ids


@torch.inference_mode()
def answers(model: Llama, tower: Tower, prompts: list[list[int]], pictures: torch.Tensor, image: int, stop: int
            ) -> list[list[int]]:
    """Greedy answers, many at once. Recomputes everything each step: short and for a GPU."""
    device = model.token_embd.weight.device
    rows = torch.cat([tower(part.to(device)) for part in pictures.split(64)])
    out: list[list[int]] = [[] for _ in prompts]
    for group in torch.arange(len(prompts)).split(128):
        going = group.tolist()
        while going:
            texts = [prompts[i] + out[i] for i in going]
            length = max(map(len, texts))
            tokens = torch.tensor([t + [0] * (length - len(t)) for t in texts], device=device)
            x = with_rows(model, tokens, rows[going], image)
            mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()
            last = torch.tensor([len(t) - 1 for t in texts], device=device)
            hidden = model.embedded(x, mask)[torch.arange(len(going), device=device), last]
            for i, token in zip(going, model.logits(hidden).argmax(-1).tolist(), strict=True):
                out[i].append(token)
            going = [i for i in going if out[i][-1] != stop and len(out[i]) < LIMIT]
    return out


@torch.inference_mode()
def one(model: Llama, tower: Tower, ids: list[int], picture: torch.Tensor, image: int, stop: int) -> tuple[list[int], float]:
    """(the new tokens with the stop token, the smallest distance between the two best logits), in f32."""
    rows = tower(picture[None])
    x, out, margin = with_rows(model, torch.tensor([ids]), rows, image), [], float("inf")
    caches: list[list] = [[] for _ in model.blk]
    start = 0
    while len(out) < LIMIT:
        T = x.shape[1]
        hidden = model.embedded(x, torch.ones(T, start + T, dtype=torch.bool).tril(start), start, caches)
        best, found = model.logits(hidden[0, -1]).topk(2)
        margin = min(margin, (best[0] - best[1]).item())
        out.append(int(found[0]))
        if out[-1] == stop:
            break
        start += T
        x = model.token_embd(found[:1][None])
    return out, margin


def quick(model: Llama, tower: Tower, tokenizer: Tokenizer, seed: int, show: int = 5) -> dict[str, tuple[int, int]]:
    """Per skill (exact, asked). Prints some misses."""
    rows = heldout.items(seed)
    pictures = torch.stack([torch.from_numpy(pixels(r.scene.image).copy()) for r in rows])
    stop, image = tokenizer.token_to_id(END), tokenizer.token_to_id(IMAGE)
    asked, right, shown = Counter(), Counter(), Counter()
    for row, ids in zip(rows, answers(model, tower, [prompt(tokenizer, r) for r in rows], pictures, image, stop), strict=True):
        text = tokenizer.decode(ids)
        asked[row.skill] += 1
        right[row.skill] += text == row.asked.answer
        if text != row.asked.answer and shown[row.skill] < show:
            shown[row.skill] += 1
            print(json.dumps({"id": row.id, "asked": row.asked.question, "expected": row.asked.answer, "answer": text}))
    return {skill: (right[skill], asked[skill]) for skill in asked}


def of_files(model_file: Path, eye_file: Path) -> tuple[Llama, Tower]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return read_text(model_file).to(device), read(eye_file).to(device)


def reference(model_file: Path, eye_file: Path, tokenizer: Tokenizer, seed: int, folder: Path) -> None:
    """Writes the kept pictures and what PyTorch answers, one at a time in f32 on the shipped weights."""
    model, tower = read_text(model_file), read(eye_file)
    stop, image = tokenizer.token_to_id(END), tokenizer.token_to_id(IMAGE)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    lines = []
    for item in heldout.items(seed):
        if not item.keep:
            continue
        name = f"{item.id}.png"
        item.scene.image.save(folder / name, optimize=True)
        ids = prompt(tokenizer, item)
        picture = torch.from_numpy(pixels(item.scene.image).copy())
        tokens, margin = one(model, tower, ids, picture, image, stop)
        text = tokenizer.decode(tokens)
        lines.append({"id": item.id, "picture": name, "size": item.scene.image.size, "question": item.asked.question,
                      "expected": item.asked.answer, "prompt_tokens": len(ids), "reference_tokens": tokens, "reference_text": text,
                      "exact": text == item.asked.answer, "min_margin": round(margin, 4)})
    (folder / "answers.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
