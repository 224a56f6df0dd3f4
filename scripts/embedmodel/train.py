"""Training on one GPU, by the teacher's similarities and the contrast of pairs. Needs torch, numpy and tokenizers."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from . import teacher
from .config import SEED, SHAPE, TEACHER_POSITIONS, TRAINING
from .data import Texts
from .model import Bert


class Tokens:
    """The tokens of all texts, concatenated."""

    def __init__(self, tokenizer: Path, texts: list[str], most: int) -> None:
        made = Tokenizer.from_file(str(tokenizer))
        made.no_padding()
        made.enable_truncation(most)
        ids = [np.asarray(e.ids, np.int32) for e in made.encode_batch(texts)]
        self.lengths = np.asarray([len(i) for i in ids])
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.ids = np.concatenate(ids)

    def batch(self, which: np.ndarray, device: str) -> tuple[Tensor, Tensor]:
        lengths = self.lengths[which]
        padded = np.zeros((len(which), -(-int(lengths.max()) // 16) * 16), np.int32)
        for row, text in enumerate(which):
            padded[row, : lengths[row]] = self.ids[self.starts[text] : self.starts[text + 1]]
        return torch.from_numpy(padded).to(device, torch.long), torch.from_numpy(lengths).to(device)


@torch.no_grad()
def embed(model: Bert, tokens: Tokens, which: np.ndarray, device: str, rows: int = 1024) -> Tensor:
    order = which[np.argsort(tokens.lengths[which], kind="stable")]
    size = model.token_embd.weight.shape[1]
    made = torch.empty(len(tokens.lengths) if len(which) == len(tokens.lengths) else int(which.max()) + 1, size, device=device, dtype=torch.half)
    for at in range(0, len(order), rows):
        part = order[at : at + rows]
        with torch.autocast(device, torch.bfloat16):
            made[torch.from_numpy(part).to(device)] = model(*tokens.batch(part, device)).half()
    return made


def recall(made: Tensor, pairs: list[tuple[int, int]], most: int = 10) -> float:
    """The share of queries whose passage is among the ten nearest of all held-out ones."""
    passages = sorted({p for _, p in pairs})
    place = {p: i for i, p in enumerate(passages)}
    scores = made[[q for q, _ in pairs]].float() @ made[passages].float().T
    best = scores.topk(most).indices.cpu().numpy()
    return float(np.mean([place[p] in row for (_, p), row in zip(pairs, best, strict=True)]))


def loss_of(student: tuple[Tensor, Tensor], taught: tuple[Tensor, Tensor], bridge: nn.Linear) -> Tensor:
    near = sum((1 - functional.cosine_similarity(bridge(s), t, dim=-1)).mean() for s, t in zip(student, taught, strict=True))
    scores, wanted = (a[0] @ a[1].T / TRAINING.temperature for a in (student, taught))
    agree = sum(functional.kl_div(s.log_softmax(-1), w.softmax(-1), reduction="batchmean") for s, w in ((scores, wanted), (scores.T, wanted.T)))
    own = torch.arange(len(scores), device=scores.device)
    # Passages that the teacher finds nearer than the pair's own may be right too, and are masked.
    better = (wanted > wanted.diagonal()[:, None]) & ~torch.eye(len(own), dtype=torch.bool, device=own.device)
    contrast = functional.cross_entropy(scores.masked_fill(better, -1e4), own)
    return near + agree + TRAINING.contrast * contrast


def train(made: Texts, tokenizer: Path, theirs: Path, weights: Path, to: Path, seconds: float) -> None:
    started = time.monotonic()
    said = lambda text: print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)
    torch.manual_seed(SEED)
    dice = np.random.default_rng(SEED)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    wise = Bert(teacher.SHAPE).to(device)
    wise.load_state_dict({name: torch.from_numpy(values.astype(np.float32)) for name, values in np.load(weights).items()})
    theirs_of, ours_of = Tokens(theirs, made.texts, TEACHER_POSITIONS), Tokens(tokenizer, made.texts, SHAPE.C)
    said(f"{len(made.texts)} texts, {len(ours_of.ids)} tokens; {len(made.documents)} pairs of documents, {len(made.meanings)} of meanings")
    everything = np.arange(len(made.texts))
    taught = embed(wise.eval(), theirs_of, everything, device)
    said(f"teacher: recall@10 {recall(taught, made.asked):.3f} asked, {recall(taught, made.reworded):.3f} reworded")

    model, bridge = Bert(SHAPE).to(device), nn.Linear(SHAPE.D, teacher.SHAPE.D).to(device)
    parameters = [*model.parameters(), *bridge.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=TRAINING.rate, weight_decay=TRAINING.weight_decay, betas=(0.9, 0.98), fused=device == "cuda")
    forward = torch.compile(model, dynamic=True) if device == "cuda" else model
    kinds = [np.asarray(made.documents), np.asarray(made.meanings)]
    held = np.asarray(sorted({i for pair in (*made.asked, *made.reworded) for i in pair}))
    begun, step, total = time.monotonic(), 0, 0.0
    while (share := (time.monotonic() - begun) / seconds) < 1:
        rate = min(step / TRAINING.warmup, 1) * 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = TRAINING.rate * max(rate, 1e-3)
        # Two of three steps read documents.
        kind = kinds[step % 3 == 2]
        pairs = kind[dice.integers(len(kind), size=TRAINING.rows)]
        sides = [pairs[:, 0], pairs[:, 1]]
        with torch.autocast(device, torch.bfloat16):
            student = tuple(forward(*ours_of.batch(side, device)) for side in sides)
        goals = tuple(taught[torch.from_numpy(side).to(device)].float() for side in sides)
        loss = loss_of(student, goals, bridge)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0:
            total = loss.item()
        if step % 500 == 0:
            ours = embed(model.eval(), ours_of, held, device)
            model.train()
            said(f"step {step}: loss {total:.3f}, recall@10 {recall(ours, made.asked):.3f} asked, {recall(ours, made.reworded):.3f} reworded")
    ours = embed(model.eval(), ours_of, held, device)
    said(f"step {step}: recall@10 {recall(ours, made.asked):.3f} asked, {recall(ours, made.reworded):.3f} reworded")
    gpu = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    about = {"steps": step, "minutes": (time.monotonic() - started) / 60, "device": gpu, "torch": torch.__version__}
    state = {name: values.float().cpu().numpy().astype(np.float16) for name, values in model.state_dict().items()}
    np.savez_compressed(to, about=np.asarray(repr(about)), **state)
