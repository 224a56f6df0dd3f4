"""The card that ships beside the model."""

from __future__ import annotations

import json
from pathlib import Path

from .config import SHAPE, Training
from .evaluate import table
from .skills import WEIGHTS

CARD = """# The model in the box

A very small language model that comes with Millrace, so that a fresh checkout can answer "What is 17 + 25?" without a
download, and so that tests compare real text and not random weights. It is a demonstration: it knows the few skills
below and nothing about the world.

| | |
|---|---|
| architecture | `LlamaForCausalLM`: {layers} layers, width {D}, {H} query heads and {G} kv heads of {E}, feed-forward {F}, tied embeddings |
| parameters | {parameters:,} |
| context | {C} tokens, RoPE theta {theta:.0f} |
| vocabulary | {V}: byte-level BPE, one token a digit, `<\\|im_start\\|>`, `<\\|im_end\\|>` (ends a turn), `<\\|endoftext\\|>`, and three tokens of pictures |
| chat template | ChatML with system message, several turns, tools as JSON schemas, tool replies |
| file | `box.gguf`, GGUF v3, matrices Q8_0, norms F32, {size:,} bytes |
| seed | {seed} |

## What it can do

Short chat about Millrace and about itself; remembering what was said earlier in a chat; addition and subtraction up to
three digits; days and months; units; spelling and reversing words; sorting short lists; picking fields out of a
sentence as JSON; calling one of two tools, `<tool_call>{{"name": ..., "arguments": {{...}}}}</tool_call>`; tiny stories and
questions about them. A system message such as "Answer with the result only." shortens the answers.

## How it was made

Everything is made by `scripts/boxmodel/` from the seed; no text from elsewhere went into it. The text is drawn by the
generators of {skills} skills, each skill in ten or more wordings, one to twelve exchanges a chat. {steps:,} steps of
{rows} rows of {C} tokens: {tokens:.2f} billion tokens of generated text (padding, about 1 %, included), never the same batch
twice. AdamW, rate {rate}, {warmup} steps of warm-up, linear decay over the last {decay:.0%}, bf16 autocast, loss on what the
assistant says. It took {minutes:.1f} minutes on one {device} with PyTorch {torch}. The same seed gives the same text, batches and
initial weights; a GPU's order of summation does not repeat to the bit.

Then it learned to use the rows of pictures, together with what reads them, among a third of text alone: mmproj-box.md.
The figures below are of the file after that.

## Held-out questions

500 questions that the training text cannot contain. What a question is about (its two numbers, its word, its list, its
sentence's values, its tool's arguments) is hashed, and the hash alone decides whether the question may be trained on, in
whatever wording; for chat, where answers are fixed, the wording itself is hashed, so there only the wording is new. The
text of {checked:,} generated training questions is compared with the held-out ones as well, normalised: none is among
them. {several} of the 500 have several turns. Words held out for spelling are seen reversed and the other way round, and a
conversion held out one way is seen the other way: the model has to turn them.

An answer counts when it is exact to the character; greedy decoding, at most 64 tokens, f32, the weights dequantized
from the shipped file:

{table}

`tests/data/box/heldout.jsonl` holds each question with the right answer, the reference's tokens and the smallest distance
between the two best logits on the way.

## Limits

English only. Numbers beyond three digits, multiplication, and knowledge of the world are answered with a refusal at
best. Words and wordings far from the generated ones confuse it. Stories are put together from few patterns. It makes
mistakes, about {wrong} in 100 questions like the ones it was trained for.
"""


def write(path: Path, rows: list[dict], plan: Training, facts_file: Path, model_file: Path, checked: int) -> None:
    """Writes the card. `facts_file` was written by training beside its checkpoint; `rows` are the reference answers."""
    facts, s = json.loads(facts_file.read_text()), SHAPE
    counts: dict[str, list[int]] = {}
    for row in rows:
        count = counts.setdefault(row["skill"], [0, 0])
        count[0] += row["exact"]
        count[1] += 1
    wrong = 100 * sum(not row["exact"] for row in rows) / len(rows)
    several = sum(len([m for m in row["messages"] if m["role"] in ("user", "tool")]) > 1 for row in rows)
    path.write_text(CARD.format(
        layers=s.layers, D=s.D, H=s.H, G=s.G, E=s.E, F=s.F, V=s.V, C=s.C, theta=s.rope_theta, parameters=s.parameters(),
        size=model_file.stat().st_size, seed=plan.seed, skills=len(WEIGHTS), steps=facts["step"],
        rows=facts["plan"]["rows"], tokens=facts["step"] * facts["plan"]["rows"] * s.C / 1e9, rate=facts["plan"]["rate"],
        warmup=facts["plan"]["warmup"], decay=facts["plan"]["decay"], minutes=facts["seconds"] / 60,
        device=facts["device"], torch=facts["torch"], checked=checked, several=several,
        table=table({k: tuple(v) for k, v in counts.items()}), wrong=f"{wrong:.1g}" if wrong else "less than one"))
