"""python -m embedmodel COMMAND: prepare, train, export, evaluate, reference; README.md says what each does."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def prepare(work: Path) -> None:
    from . import corpus, data, teacher, tokenizer

    corpus.write(work / "packages", work / "pairs.jsonl.gz")
    made = data.read(list(corpus.read(work / "pairs.jsonl.gz")), corpus.synonyms(work / "packages"))
    held = {i for pair in (*made.asked, *made.reworded) for i in pair}
    tokenizer.train((text for i, text in enumerate(made.texts) if i not in held), work / "tokenizer.json")
    data.save(made, work / "texts.json.xz")
    model = teacher.fetch(work / "teacher")
    teacher.pack(model, work / "teacher.npz")
    (work / "teacher.json").write_bytes((model / "tokenizer.json").read_bytes())


def train(work: Path, seconds: float) -> None:
    from . import data
    from .train import train

    train(data.load(work / "texts.json.xz"), work / "tokenizer.json", work / "teacher.json", work / "teacher.npz", work / "student.npz", seconds)


def export(work: Path, to: Path) -> None:
    from . import export

    export.write(work / "student.npz", work / "tokenizer.json", to)


def evaluate(work: Path, model: Path, card: Path) -> None:
    from . import card as cards
    from . import data, evaluate

    figures = evaluate.compare(data.load(work / "texts.json.xz"), work, model)
    cards.write(work / "student.npz", work / "pairs.jsonl.gz", model, figures, card)


def reference(work: Path, model: Path) -> None:
    from . import reference

    reference.write(work / "tokenizer.json", model, ROOT / "tests/data/box/embed.json")


def main() -> None:
    parser = argparse.ArgumentParser(prog="embedmodel", description=__doc__)
    parser.add_argument("command", choices=("prepare", "train", "export", "evaluate", "reference"))
    parser.add_argument("--work", type=Path, default=ROOT / ".cache/embedmodel", help="where what lies between is kept")
    parser.add_argument("--model", type=Path, default=ROOT / "www/models/embed.gguf")
    parser.add_argument("--seconds", type=float, default=270, help="how long train takes steps")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    match args.command:
        case "prepare":
            prepare(args.work)
        case "train":
            train(args.work, args.seconds)
        case "export":
            export(args.work, args.model)
        case "reference":
            reference(args.work, args.model)
        case "evaluate":
            evaluate(args.work, args.model, args.model.with_suffix(".md"))


main()
