"""The tokenizer with the three tokens of pictures, which take the places of the last merges, the rarest ones."""

from __future__ import annotations

import json
from pathlib import Path

from ..chat import PICTURE
from ..config import SHAPE


def put(path: Path) -> None:
    """Rewrites tokenizer.json; leaves it as it is where the tokens are there already."""
    whole = json.loads(path.read_text())
    model, added = whole["model"], whole["added_tokens"]
    if any(token["content"] in PICTURE for token in added):
        return
    first = SHAPE.V - len(PICTURE)
    gone = {token for token, i in model["vocab"].items() if i >= first}
    joined = lambda pair: "".join(pair) if isinstance(pair, list) else pair.replace(" ", "")
    model["vocab"] = {token: i for token, i in model["vocab"].items() if i < first}
    model["merges"] = [pair for pair in model["merges"] if joined(pair) not in gone]
    for i, token in enumerate(PICTURE, first):
        model["vocab"][token] = i
        added.append({**added[0], "id": i, "content": token})
    path.write_text(json.dumps(whole, ensure_ascii=False, indent=2))
