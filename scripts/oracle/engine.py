"""Runs the engine by its command line, and parses its output."""

import json
import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import EngineFailed
from .reference import Reference

ROOT = Path(__file__).resolve().parents[2]
# The first call builds the engine, or downloads a browser.
LIMIT_SECONDS = 1800


def command_of(engine: str) -> list[str]:
    """The start of the command line of "native" or "browser". MILLRACE_BIN and MILLRACE_GENERATE name built ones."""
    if engine == "native":
        if binary := os.environ.get("MILLRACE_BIN"):
            return [binary, "generate"]
        return ["cargo", "run", "--release", "--quiet", "--features", "cli", "--bin", "millrace", "--", "generate"]
    if command := os.environ.get("MILLRACE_GENERATE"):
        return shlex.split(command)
    return ["npm", "run", "--silent", "generate", "--"]


@dataclass(frozen=True)
class Answer:
    """The engine's results for the reference's tokens."""

    logits: np.ndarray  # (positions, V) f32, for the same positions as the reference's
    next_token: int
    adapter: str


def run(engine: str, model: Path, reference: Reference, options: list[str]) -> Answer:
    """Feeds the reference's tokens: the prompt through prefill, the rest one by one through decoding.

    Raises EngineFailed with the engine's output.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "logits.json"
        command = [
            *command_of(engine),
            *("--model", str(model), "--tokens", ",".join(map(str, reference.tokens))),
            *("--lane", "exact", "--max-tokens", "1", "--temperature", "0", "--ignore-eos", "--json"),
            *("--logits", str(file), "--logits-from", str(reference.start)),
            *options,
        ]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        except FileNotFoundError:
            raise EngineFailed(f"{command[0]} is not there to run") from None
        except subprocess.TimeoutExpired:
            raise EngineFailed(f"no answer after {LIMIT_SECONDS} s: {shlex.join(command)}") from None
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-12:]
            raise EngineFailed(f"exit status {done.returncode}: {shlex.join(command)}\n" + "\n".join(said))
        if not file.exists():
            raise EngineFailed(f"--logits wrote no file: {shlex.join(command)}")
        return read(done.stdout, file.read_text(), reference)


def read(stdout: str, logits: str, reference: Reference) -> Answer:
    """Checks the engine's two outputs against their contract."""
    try:
        summary = json.loads(stdout.strip().splitlines()[-1])
        generated, adapter = summary["tokens"], summary["adapter"]["name"]
        written = json.loads(logits)
        last, start, rows = written["logits"], written["from"], written["all"]
    except (IndexError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise EngineFailed(f"output that is not the contract: {error!r}") from None
    if summary["prompt_tokens"] != len(reference.tokens):
        raise EngineFailed(f"prompt_tokens is {summary['prompt_tokens']}, {len(reference.tokens)} were given")
    if start != reference.start or len(rows) != len(reference.logits):
        wanted = f"{len(reference.logits)} rows from {reference.start}"
        raise EngineFailed(f"--logits holds {len(rows)} rows from {start}, not {wanted}")
    widths = {len(row) for row in [*rows, last]}
    if widths != {reference.logits.shape[1]}:
        raise EngineFailed(f"rows of {sorted(widths)} logits, V is {reference.logits.shape[1]}")
    if len(generated) != 1:
        raise EngineFailed(f"--max-tokens 1 gave {len(generated)} tokens")
    # JSON has no NaN: a null is one.
    table = np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float32)
    if last != rows[-1]:
        raise EngineFailed("`logits` is not the last row of `all`")
    return Answer(table, generated[0], adapter)
