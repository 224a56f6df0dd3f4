"""The card of what reads pictures, beside its file."""

from __future__ import annotations

import textwrap
from pathlib import Path

from ..config import SHAPE
from ..evaluate import table
from .config import EYE
from .fonts import TRAINED, UNSEEN

CARD = """# What reads pictures for the model in the box

`mmproj-box.gguf` lets the model in the box (`box.gguf`, box.md) read simple pictures, so that a fresh checkout can
answer "What does it say?" about a dropped picture without a download. It is a demonstration: it reads what is drawn as
in its training and nothing of photographs.

- architecture: SigLIP before Llama, as Idefics 3 and SmolVLM have it: {layers} blocks, width {D}, {H} heads, feed-forward
  {F}, patches of {patch} pixels
- pictures: made {pixels} x {pixels} pixels, whatever their ratio: {patches} patches, {rows} rows of the prompt
- parameters: {parameters:,}
- file: GGUF v3, `clip`, matrices Q8_0, patches and positions F16, norms and biases F32, {size:,} bytes
- seeds: {seeds}

## What it can do

Printed words, numbers and short lines of up to 34 letters; sums of two numbers ("What is the result?"); shapes
(circle, square, triangle, star, heart, cross, ring) of eleven colors: which, how many, where, beside what, as JSON;
tables of up to four rows and three columns, as Markdown or cell by cell; colors of text and background. Several
pictures in one chat, each with several questions.

## How it was made

Everything is made by `scripts/boxmodel/sight/` from the seeds: no picture from elsewhere went into it. Scenes are drawn
with {trained} fonts of packages of PyPI; half of the pictures are turned, scaled, blurred, brightened or made noisy a
little. Tower and language model were trained together, the tower from random weights, the language model from what its
training on text had made of it.
{stages}
Each step has {chats} chats of two pictures and {text_rows} rows of text alone, so that the text is not forgotten (box.md has
its figures after this). AdamW, bf16 autocast, loss on what the assistant says. PyTorch {torch} on one
{device}. The same seed gives the same pictures and initial weights; a GPU's order of summation does not repeat to
the bit. Three tokens of pictures took the places of the three rarest ones.
Ten of the wordings that ask for a sum, "Solve the sum in this picture." among them, came with the last stage alone.

## Held-out pictures

460 pictures in each of which something is drawn that no picture of the training has: a word, a number, a sum, a set of
shapes, a table's values, by a hash of the content as box.md describes it. An answer counts when it is exact to the
character; greedy decoding, at most 96 tokens, the weights dequantized from the shipped files:

{table}

A quarter of the words are invented ones, which no dictionary would mend; many texts are small, or of colors that are
hard to tell apart. "Unseen fonts" are {unseen} of families
that training never draws.

`tests/data/box/pictures/` has 26 of them with the question, the right answer, what PyTorch answers in f32 and the
smallest distance between the two best logits on the way.

## Limits

English and Latin letters without accents only. No handwriting, no photographs, no faces, no charts. Long or small text
is read with mistakes, words that do not exist more often; pictures much wider or higher than 2.5 to 1 are squeezed
until letters touch. Read what matters yourself.
"""


def write(path: Path, facts: list[dict], counts: dict[str, list[int]], eye_file: Path) -> None:
    """`facts`: of each stage of training, as training wrote it beside its checkpoint; `counts`: as evaluate wrote them."""
    e, first = EYE, facts[0]
    stages = textwrap.fill(" Then ".join(
        f"{f['step']:,} steps at a rate of {f['plan']['rate']:g} (of {f['plan']['steps']:,} planned), {f['seconds'] / 60:.1f} minutes."
        for f in facts), 120)
    path.write_text(CARD.format(
        layers=e.layers, D=e.D, H=e.H, F=e.F, patch=e.patch, pixels=e.pixels, patches=e.side**2, rows=e.rows,
        parameters=e.parameters(SHAPE.D), size=eye_file.stat().st_size, seeds=", ".join(str(f["plan"]["seed"]) for f in facts),
        trained=sum(map(len, TRAINED.values())), unseen=sum(map(len, UNSEEN.values())), stages=stages,
        chats=first["plan"]["chats"], text_rows=first["plan"]["text_rows"], torch=first["torch"], device=first["device"],
        table=table({k: tuple(v) for k, v in counts.items()})))
