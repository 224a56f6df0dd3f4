"""The card that ships beside the model."""

from __future__ import annotations

import ast
import gzip
import json
from pathlib import Path

import numpy as np

from .config import HELD_OUT, SEED, SHAPE, TEACHER, TRAINING

CARD = """# The embedding model in the box

A small English model that tells how near two texts are, so that a fresh checkout can search documents without a
download. It is a demonstration: for more than that take one of the published models of docs/MODELS.md.

- architecture: `BertModel`: {layers} layers, width {D}, {H} heads of {E}, feed-forward {F}; the mean of a text's rows, length 1
- parameters: {parameters:,}
- context: {C} tokens; what is longer is cut
- vocabulary: {V}: WordPiece without case
- file: `{name}`, GGUF v3, matrices Q8_0, the rest F32, {size:,} bytes
- prompts: none
- seed: {seed}
- licence: Apache-2.0, as its teacher's

## How it was made

By `scripts/embedmodel/`, from {pairs:,} pairs of a query and a passage: headings of Debian 12's documentation with what
stands below them ({documents:,}, of {packages} packages), sentences with the passage they are from, and words with what
they mean, of WordNet 3.0, GCIDE and FOLDOC. all-MiniLM-L6-v2 (Apache-2.0; PyPI: `{teacher}`) was
its teacher: of each batch of {rows} pairs it learns the teacher's vectors through a product that is then left out, the teacher's order of all {rows}
passages for each query, and which passage belongs to which query. {steps:,} steps, {minutes:.1f} minutes on one {device}
with PyTorch {torch}, AdamW, rate {rate}, cosine decay. No text of the packages is in the file.

## What it finds

One page of {held_out}, chosen by a hash of its name, is held out with all its headings: no passage of it was trained on,
nor seen when the vocabulary was made. A heading is the query; its own passage is to be found among all held-out
passages. "Reworded" are headings in which half of the words that have a synonym in WordNet are replaced by it: some
read oddly, all share fewer words with the passage. The file itself is measured (`scripts/embedmodel/run.sh evaluate`), its weights
dequantized:

| queries | | recall@1 | recall@10 | MRR@10 |
|---|---|---|---|---|
{table}

Headings often repeat words of their passages, which is what BM25 looks for.
"""


def write(student: Path, pairs: Path, model: Path, figures: dict[str, dict[str, dict[str, float]]], to: Path) -> None:
    weights = dict(np.load(student))
    about = ast.literal_eval(str(weights.pop("about")))
    lines = [json.loads(line) for line in gzip.open(pairs, "rt")]
    documents = [line for line in lines if "/" in line["page"] and not line["held_out"]]
    rows = [
        f"| {kind} ({f['queries']:,} in {f['passages']:,}) | {name} | {f['recall@1']:.3f} | {f['recall@10']:.3f} | {f['MRR@10']:.3f} |"
        for kind, of in figures.items()
        for name, f in of.items()
    ]
    s = SHAPE
    sizes = {"layers": s.layers, "D": s.D, "H": s.H, "E": s.D // s.H, "F": s.F, "C": s.C, "V": s.V}
    text = CARD.format(
        **sizes,
        **about,
        parameters=sum(values.size for values in weights.values()),
        name=model.name,
        size=model.stat().st_size,
        seed=SEED,
        pairs=sum(not line["held_out"] for line in lines),
        documents=len(documents),
        packages=len({line["page"].split("/")[0] for line in documents}),
        teacher=TEACHER,
        rows=TRAINING.rows,
        rate=TRAINING.rate,
        held_out=HELD_OUT,
        table="\n".join(rows),
    )
    to.write_text(text)
