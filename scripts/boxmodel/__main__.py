"""`python -m boxmodel COMMAND`: see README.md beside this file."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

from .config import CARD_FILE, HELD_OUT_FILE, MODEL_FILE, ROOT, TOKENIZER_FILE, TRAINING


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="boxmodel", description=__doc__)
    parser.add_argument("command", choices=("check", "tokenizer", "train", "export", "evaluate", "reference", "card"))
    parser.add_argument("--checkpoint", type=Path, default=ROOT / ".cache/boxmodel/checkpoint.pt")
    parser.add_argument("--model", type=Path, default=MODEL_FILE)
    parser.add_argument("--card", type=Path, default=CARD_FILE)
    parser.add_argument("--held-out", type=Path, default=HELD_OUT_FILE)
    parser.add_argument("--tokenizer", type=Path, default=TOKENIZER_FILE)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--max-seconds", type=float, default=460, help="length of one slice of training")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="processes that make text")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="torch.compile; on by default on a GPU")
    parser.add_argument("--steps", type=int, default=TRAINING.steps)
    parser.add_argument("--rows", type=int, default=TRAINING.rows, help="sequences a step")
    parser.add_argument("--seed", type=int, default=TRAINING.seed)
    parser.add_argument("--sets", type=int, default=1, help="held-out sets to evaluate on")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    plan = replace(TRAINING, steps=args.steps, rows=args.rows, seed=args.seed)
    if args.command == "check":
        from . import check

        check.rendering(args.seed)
        print(f"check: no held-out question among {check.separation(args.seed)} of training")
    elif args.command == "tokenizer":
        from . import tokenizer

        tokenizer.train(args.seed, args.tokenizer)
    elif args.command == "train":
        from . import train

        done = train.train(plan, args.tokenizer, args.checkpoint, args.resume, args.max_seconds, args.workers,
                           args.compile)
        if not done:
            print("train: slice over; run again with --resume")
            return 3
    elif args.command == "export":
        import torch

        from . import export, tokenizer

        saved = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
        export.write(saved["model"], tokenizer.load(args.tokenizer), args.tokenizer, args.seed, args.model)
    elif args.command == "evaluate":
        from . import evaluate, tokenizer

        print(evaluate.table(evaluate.quick(args.model, tokenizer.load(args.tokenizer), args.seed, args.sets)))
    elif args.command == "reference":
        from . import evaluate, tokenizer

        evaluate.reference(args.model, tokenizer.load(args.tokenizer), args.seed, args.held_out)
    elif args.command == "card":
        from . import card, check

        rows = [json.loads(line) for line in args.held_out.read_text().splitlines()]
        checked = check.separation(args.seed)
        card.write(args.card, rows, plan, args.checkpoint.with_suffix(".json"), args.model, checked)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
