"""`python -m boxmodel.sight COMMAND`: see README.md beside boxmodel."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

from ..config import MODEL_FILE, ROOT, TOKENIZER_FILE
from .config import CARD_FILE, EYE_FILE, PICTURES_FOLDER, TRAINING


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="boxmodel.sight", description=__doc__)
    parser.add_argument("command", choices=("tokens", "sheet", "train", "export", "evaluate", "reference", "card"))
    parser.add_argument("--checkpoint", type=Path, default=ROOT / ".cache/boxmodel/sight.pt")
    parser.add_argument("--model", type=Path, default=MODEL_FILE, help="the language model's file")
    parser.add_argument("--eye", type=Path, default=EYE_FILE, help="the file of what reads pictures")
    parser.add_argument("--out", type=Path, default=PICTURES_FOLDER, help="where pictures are written")
    parser.add_argument("--tokenizer", type=Path, default=TOKENIZER_FILE)
    parser.add_argument("--card", type=Path, default=CARD_FILE)
    stages = ("sight", "sight-2", "sight-3", "sight-4")
    parser.add_argument("--facts", type=Path, nargs="*", default=[ROOT / f".cache/boxmodel/{stage}.json" for stage in stages],
                        help="what each stage of training wrote beside its checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--max-seconds", type=float, default=460, help="length of one slice of training")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="processes that draw pictures")
    parser.add_argument("--steps", type=int, default=TRAINING.steps)
    parser.add_argument("--chats", type=int, default=TRAINING.chats, help="chats with two pictures a step")
    parser.add_argument("--text-rows", type=int, default=TRAINING.text_rows, help="rows of text alone a step")
    parser.add_argument("--rate", type=float, default=TRAINING.rate)
    parser.add_argument("--warmup", type=int, default=TRAINING.warmup, help="steps in which the rate rises")
    parser.add_argument("--decay", type=float, default=TRAINING.decay, help="the part of the steps in which it falls")
    parser.add_argument("--on", action="store_true", help="train: go on from the tower's file, with a plan of its own")
    parser.add_argument("--seed", type=int, default=TRAINING.seed)
    return parser.parse_args()


def main() -> int:
    args = arguments()
    plan = replace(TRAINING, steps=args.steps, chats=args.chats, text_rows=args.text_rows, rate=args.rate,
                   warmup=args.warmup, decay=args.decay, seed=args.seed)
    if args.command == "tokens":
        from . import tokens

        tokens.put(args.tokenizer)
    elif args.command == "sheet":
        from . import sheet

        sheet.write(args.seed, args.out)
    elif args.command == "train":
        from ..export import read
        from . import export, train

        # The language model goes on from the weights of its file, which was trained on text before.
        eye = export.read(args.eye) if args.on else None
        if not train.train(plan, read(args.model), eye, args.tokenizer, args.checkpoint, args.resume, args.max_seconds, args.workers):
            print("train: slice over; run again with --resume")
            return 3
    elif args.command == "export":
        import torch

        from .. import export as text_export
        from .. import tokenizer
        from . import export

        saved = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
        text_export.write(saved["model"], tokenizer.load(args.tokenizer), args.tokenizer, args.seed, args.model)
        export.write(saved["tower"], args.seed, args.eye)
    elif args.command == "evaluate":
        from .. import tokenizer
        from ..evaluate import table
        from . import evaluate

        counts = evaluate.quick(*evaluate.of_files(args.model, args.eye), tokenizer.load(args.tokenizer), args.seed)
        args.checkpoint.with_name("sight-heldout.json").write_text(json.dumps(counts) + "\n")
        print(table(counts))
    elif args.command == "reference":
        from .. import tokenizer
        from . import evaluate

        evaluate.reference(args.model, args.eye, tokenizer.load(args.tokenizer), args.seed, args.out)
    elif args.command == "card":
        from . import card

        facts = [json.loads(path.read_text()) for path in args.facts]
        card.write(args.card, facts, json.loads(args.checkpoint.with_name("sight-heldout.json").read_text()), args.eye)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
