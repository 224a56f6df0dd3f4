"""Evaluates the shipped file's retrieval among the held-out passages, beside BM25 and the teacher."""

from __future__ import annotations

from pathlib import Path

import bm25s
import numpy as np
import torch

from . import export, teacher
from .config import SHAPE, TEACHER_POSITIONS
from .data import Texts
from .model import Bert
from .train import Tokens, embed


def ranks(scores: np.ndarray, wanted: list[int]) -> np.ndarray:
    """The rank, from 1 on, of each query's passage."""
    own = scores[np.arange(len(wanted)), wanted][:, None]
    return 1 + (scores > own).sum(1)


def figures(found: np.ndarray) -> dict[str, float]:
    return {"recall@1": float((found <= 1).mean()), "recall@10": float((found <= 10).mean()), "MRR@10": float(np.where(found <= 10, 1 / found, 0).mean())}


def compare(made: Texts, work: Path, model: Path) -> dict[str, dict[str, dict[str, float]]]:
    torch.set_grad_enabled(False)
    ours = Bert(SHAPE).eval()
    ours.load_state_dict({name: torch.from_numpy(values) for name, values in export.read(model).items()})
    wise = Bert(teacher.SHAPE).eval()
    wise.load_state_dict({name: torch.from_numpy(values.astype(np.float32)) for name, values in np.load(work / "teacher.npz").items()})
    held = sorted({i for pair in (*made.asked, *made.reworded) for i in pair})
    place = {text: i for i, text in enumerate(held)}
    texts = [made.texts[i] for i in held]
    everything = np.arange(len(texts))
    vectors = {
        "this model": embed(ours, Tokens(work / "tokenizer.json", texts, SHAPE.C), everything, "cpu", 32).float().numpy(),
        "all-MiniLM-L6-v2": embed(wise, Tokens(work / "teacher.json", texts, TEACHER_POSITIONS), everything, "cpu", 32).float().numpy(),
    }
    result = {}
    for kind, pairs in (("headings", made.asked), ("headings, reworded", made.reworded)):
        passages = sorted({place[p] for _, p in made.asked})
        wanted = [passages.index(place[p]) for _, p in pairs]
        queries = [place[q] for q, _ in pairs]
        words = bm25s.tokenize([texts[p] for p in passages], stopwords="en", show_progress=False)
        index = bm25s.BM25()
        index.index(words, show_progress=False)
        asked = bm25s.tokenize([texts[q] for q in queries], stopwords="en", return_ids=False, show_progress=False)
        scores = {"BM25": np.stack([index.get_scores(query) if query else np.zeros(len(passages)) for query in asked])}
        scores |= {name: v[queries] @ v[passages].T for name, v in vectors.items()}
        # Ties, as of zero scores, are broken at random.
        result[kind] = {name: figures(ranks(s + np.random.default_rng(1).random(s.shape) * 1e-6, wanted)) for name, s in scores.items()}
        result[kind] = {name: {**f, "queries": len(pairs), "passages": len(passages)} for name, f in result[kind].items()}
    return result
