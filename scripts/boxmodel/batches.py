"""Rows of tokens for training: whole chats packed side by side, each seeing only itself."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from tokenizers import Tokenizer

from .chat import END, START, render_fast
from .config import SHAPE
from .dialogue import training_chat, training_document

IGNORE = -100  # a target that is not learned
DOCUMENTS = 0.02  # plain stories among the chats


@dataclass
class Batch:
    tokens: np.ndarray  # (rows, C) int64
    targets: np.ndarray  # (rows, C) int64, IGNORE outside of the assistant's turns
    chats: np.ndarray  # (rows, C) int32, the number of the chat that a token belongs to; 0 is padding


class Packer:
    """Batch number i is a function of (seed, i) alone, so that a resumed run continues with the same text."""

    def __init__(self, tokenizer: Tokenizer, seed: int, rows: int):
        self.tokenizer, self.seed, self.rows = tokenizer, seed, rows
        self.start, self.end = tokenizer.token_to_id(START), tokenizer.token_to_id(END)
        self.assistant = np.array(tokenizer.encode("assistant\n").ids)

    def targets(self, ids: np.ndarray) -> np.ndarray:
        """The next token where the assistant speaks, its closing <|im_end|> included; else IGNORE."""
        out = np.full(len(ids), IGNORE, dtype=np.int64)
        ends = np.flatnonzero(ids == self.end)
        skip = len(self.assistant)
        for at in np.flatnonzero(ids == self.start):
            begin = at + 1 + skip
            if np.array_equal(ids[at + 1 : begin], self.assistant):
                end = ends[np.searchsorted(ends, at)]
                out[begin - 1 : end] = ids[begin : end + 1]
        return out

    def piece(self, chat: bool, ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and targets of one chat, or of a document, which ends as a turn does."""
        tokens = np.array(ids, dtype=np.int64)
        if chat:
            return tokens, self.targets(tokens)
        tokens = np.append(tokens, self.end)
        return tokens[:-1], tokens[1:]

    def words_of(self, text: str) -> str:
        """What a rendered chat becomes before it is cut into tokens."""
        return text

    def pieces(self, rng: Random, many: int) -> list[tuple[np.ndarray, np.ndarray]]:
        texts, chats = [], []
        for _ in range(many):
            is_chat = rng.random() >= DOCUMENTS
            if is_chat:
                chat = training_chat(rng)
                texts.append(self.words_of(render_fast(chat.messages, chat.tools)))
            else:
                texts.append(training_document(rng))
            chats.append(is_chat)
        encoded = self.tokenizer.encode_batch_fast(texts)
        return [self.piece(c, e.ids) for c, e in zip(chats, encoded, strict=True)]

    def batch(self, index: int) -> Batch:
        """Best fit of pieces into `rows` rows; longer pieces are cut at the row's end."""
        rng = Random(f"batch:{self.seed}:{index}")
        C, rows = SHAPE.C, self.rows
        out = Batch(*(np.zeros((rows, C), dtype=d) for d in (np.int64, np.int64, np.int32)))
        out.targets[:] = IGNORE
        used, number = np.zeros(rows, dtype=np.int64), 0
        while used.min() < C - 64 and used.sum() < 0.985 * rows * C:
            for tokens, targets in self.pieces(rng, max(8, int((rows * C - used.sum()) / 200))):
                size = min(len(tokens), C)
                room = C - used - size
                fits = np.flatnonzero(room >= 0)
                if len(fits) == 0:
                    continue
                row = fits[np.argmin(room[fits])]
                number += 1
                at = slice(used[row], used[row] + size)
                out.tokens[row, at], out.targets[row, at], out.chats[row, at] = tokens[:size], targets[:size], number
                used[row] += size
        return out
