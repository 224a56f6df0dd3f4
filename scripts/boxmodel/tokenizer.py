"""Byte-level BPE with single-digit tokens, trained on the training text itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from .chat import SPECIAL, render_fast
from .config import SHAPE
from .dialogue import training_chat, training_document
from .words import COMMON_WORDS, NAMES

CHATS = 80_000


def text(seed: int) -> Iterator[str]:
    """Training chats, and every word of the lists on its own and after a blank, so that each becomes a token."""
    rng = Random(f"tokenizer:{seed}")
    for _ in range(CHATS):
        chat = training_chat(rng)
        yield render_fast(chat.messages, chat.tools)
        if rng.random() < 0.1:
            yield training_document(rng)
    for _ in range(40):
        yield " ".join(rng.sample(COMMON_WORDS, len(COMMON_WORDS)))
        yield "\n".join(rng.sample(COMMON_WORDS + NAMES, len(COMMON_WORDS) + len(NAMES)))


def train(seed: int, path: Path) -> Tokenizer:
    """Trains the tokenizer and writes it as tokenizer.json; exactly SHAPE.V tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SHAPE.V, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(text(seed), trainer)
    if tokenizer.get_vocab_size() != SHAPE.V:
        raise ValueError(f"the text gave {tokenizer.get_vocab_size()} tokens, not {SHAPE.V}: it needs more words")
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))
    return tokenizer


def load(path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(path))
