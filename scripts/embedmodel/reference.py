"""tests/data/box/embed.json: questions, a passage that answers each, and PyTorch's embeddings of both with the shipped weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from . import export
from .config import SHAPE
from .model import Bert
from .train import Tokens, embed

PAIRS = {
    "How do I make the screen brighter?": "Open the settings of the display and move the slider to the right until the picture is light enough.",
    "What turns the wheel of a mill?": "Water that is led through a narrow channel falls onto the paddles and sets them in motion.",
    "removing a program that is no longer needed": "Uninstall the package with the package manager; its configuration files stay unless you purge it.",
    "Where are my deleted files?": "Items go to the trash first, and can be restored from there until it is emptied.",
    "joining two tables": "A query may combine rows of several relations; the condition says which of them belong together.",
    "my password is forgotten": "An administrator can set a new secret for your account, with which you log in and choose another.",
    "cutting away the border of a photograph": "Crop the image: draw a rectangle over the part that you want to keep, and press Enter.",
    "when does the train leave": "Departures are listed on the board in the hall of the station, with the platform and the delay.",
    "sending a letter to many people": "Mail merge fills in names and addresses from a spreadsheet, one copy for each recipient.",
    "reading a file line by line": "Iterate over the open stream: each step yields the text up to the next newline.",
}


@torch.no_grad()
def write(tokenizer: Path, model: Path, to: Path) -> None:
    texts = [*PAIRS, *PAIRS.values(), "word " * 400]
    ours = Bert(SHAPE).eval()
    ours.load_state_dict({name: torch.from_numpy(values) for name, values in export.read(model).items()})
    tokens = Tokens(tokenizer, texts, SHAPE.C)
    vectors = torch.cat([ours(*tokens.batch(np.asarray([i]), "cpu")) for i in range(len(texts))])
    found = (vectors[: len(PAIRS)] @ vectors[len(PAIRS) : 2 * len(PAIRS)].T).argmax(1).tolist()
    print("found:", found)
    said = {"questions": list(PAIRS), "passages": list(PAIRS.values()), "long": texts[-1], "found": found}
    said["embeddings"] = [[round(value, 7) for value in vector] for vector in vectors.tolist()]
    to.write_text(json.dumps(said) + "\n")
