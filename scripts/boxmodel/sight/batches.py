"""Rows of tokens with two pictures each, and rows of text alone."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from tokenizers import Tokenizer

from ..batches import IGNORE, Packer
from ..chat import IMAGE
from ..skills.about import CAN, CAN_SEE
from .config import EYE, Training
from .prepare import pixels
from .talk import ROWS_OF, chat, render, training_scene, without

ROOM = 330  # letters of the questions and answers to a picture


@dataclass
class Seen:
    tokens: np.ndarray  # (chats, length) int64
    targets: np.ndarray  # (chats, length) int64, IGNORE outside of the assistant's turns
    parts: np.ndarray  # (chats, length) int32, the number of the chat that a token belongs to; 0 is padding
    pixels: np.ndarray  # (2 * chats, side, side, 3) bytes


def spelled(text: str) -> str:
    """With what the engine puts in place of the template's <image>."""
    return text.replace(IMAGE, ROWS_OF.format(rows=IMAGE * EYE.rows))


class Painter:
    """Batch number i is a function of (seed, i) alone."""

    def __init__(self, tokenizer: Tokenizer, plan: Training):
        self.tokenizer, self.plan, self.packer = tokenizer, plan, TextPacker(tokenizer, plan.seed, plan.text_rows)

    def seen(self, index: int) -> Seen:
        rng, plan, L = Random(f"seen:{self.plan.seed}:{self.plan.chats}:{self.plan.length}:{index}"), self.plan, self.plan.length
        out = Seen(*(np.zeros((plan.chats, L), dtype=d) for d in (np.int64, np.int64, np.int32)),
                   np.zeros((2 * plan.chats, EYE.pixels, EYE.pixels, 3), dtype=np.uint8))
        out.targets[:] = IGNORE
        for row in range(plan.chats):
            while not self.fill(rng, out, row):
                pass
        return out

    def fill(self, rng: Random, out: Seen, row: int) -> bool:
        """Two scenes, in one chat or in two; False where they take more tokens than there is room for."""
        scenes = [training_scene(rng), training_scene(rng)]
        said, (first, second) = chat(rng, scenes, ROOM)
        together = rng.random() < 0.4
        if together and rng.random() < 0.3:
            asked, told = without(rng)
            if rng.choice((0, 1)) == 0:  # asked before the first picture is there
                first = [("user", asked), ("assistant", told), *first]
        texts = [render(first + second, said)] if together else [render(first, said), render(second, said)]
        at = 0
        tokens, targets, parts = out.tokens[row], out.targets[row], out.parts[row]
        tokens[:], targets[:], parts[:] = 0, IGNORE, 0
        for number, encoded in enumerate(self.tokenizer.encode_batch_fast([spelled(t) for t in texts]), 1):
            ids = np.array(encoded.ids, dtype=np.int64)
            if at + len(ids) > self.plan.length:
                return False
            where = slice(at, at + len(ids))
            tokens[where], targets[where], parts[where] = ids, self.packer.targets(ids), number
            at += len(ids)
        for i, scene in enumerate(scenes):
            out.pixels[2 * row + i] = pixels(scene.image)
        return True


class TextPacker(Packer):
    """The text's own batches, in which the model says that it can look at pictures, and asks for one where there is none."""

    def pieces(self, rng: Random, many: int) -> list[tuple[np.ndarray, np.ndarray]]:
        texts = []
        pieces = super().pieces(rng, many)
        for _ in range(max(1, many // 40)):
            asked, told = without(rng)
            texts.append(render([("user", asked), ("assistant", told)]))
        encoded = self.tokenizer.encode_batch_fast(texts)
        return pieces + [self.piece(True, e.ids) for e in encoded]

    def words_of(self, text: str) -> str:
        return text.replace(CAN, CAN_SEE)
