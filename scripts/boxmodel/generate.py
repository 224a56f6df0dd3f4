"""Greedy answers: one by one with a cache in f32 (the reference), and all at once (the quick evaluation)."""

from __future__ import annotations

import torch

from .model import Llama


@torch.inference_mode()
def greedy(model: Llama, prompt: list[int], stop: int, limit: int) -> tuple[list[int], float]:
    """(the new tokens with the stop token, the smallest distance between the two best logits)."""
    caches: list[list] = [[] for _ in model.blk]
    tokens, out, margin, start = torch.tensor([prompt]), [], float("inf"), 0
    while len(out) < limit:
        T = tokens.shape[1]
        mask = torch.ones(T, start + T, dtype=torch.bool).tril(start)
        hidden = model(tokens, mask, start, caches)
        best, ids = model.logits(hidden[0, -1]).topk(2)
        margin = min(margin, (best[0] - best[1]).item())
        out.append(int(ids[0]))
        if out[-1] == stop:
            break
        start += T
        tokens = ids[:1][None]
    return out, margin


@torch.inference_mode()
def greedy_all(model: Llama, prompts: list[list[int]], stop: int, limit: int, at_once: int = 256) -> list[list[int]]:
    """The new tokens of each prompt, the stop token included. Recomputes everything each step: short and for a GPU."""
    device = model.token_embd.weight.device
    answers: list[list[int]] = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for group in (order[i : i + at_once] for i in range(0, len(order), at_once)):
        open_ = list(group)
        while open_:
            rows = [prompts[i] + answers[i] for i in open_]
            length = max(map(len, rows))
            tokens = torch.tensor([r + [0] * (length - len(r)) for r in rows], device=device)
            mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()
            last = torch.tensor([len(r) - 1 for r in rows], device=device)
            hidden = model(tokens, mask)[torch.arange(len(rows), device=device), last]
            for i, token in zip(open_, model.logits(hidden).argmax(-1).tolist(), strict=True):
                answers[i].append(token)
            open_ = [i for i in open_ if answers[i][-1] != stop and len(answers[i]) < limit]
    return answers
