"""The reference of transformers: the greedy continuation of a prompt, and the logits at each of its positions."""

from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

# The contract of the `exact` lane: the engine's logits may differ by this share of a position's largest |logit|.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Reference:
    """`logits[i]` (V) are the logits after `tokens[..=start + i]`; `greedy[i]` is the largest of them.

    `tokens` is the prompt followed by `greedy` without its last, so that every position has its logits.
    """

    prompt: list[int]
    tokens: list[int]
    logits: np.ndarray  # (positions, V) f32
    greedy: list[int]

    @property
    def start(self) -> int:
        """The position of the first row of `logits`: the prompt's last token."""
        return len(self.prompt) - 1

    def tolerance(self) -> np.ndarray:
        """(positions): the largest difference that still agrees."""
        return TOLERANCE * np.abs(self.logits).max(axis=1)

    def margins(self) -> np.ndarray:
        """(positions): the difference of the two best logits."""
        best = np.sort(self.logits, axis=1)
        return best[:, -1] - best[:, -2]

    def ties(self) -> list[int]:
        """Positions in `tokens` whose two best logits are too close for their order to mean anything."""
        return [self.start + int(row) for row in np.flatnonzero(self.margins() < self.tolerance())]


def random_prompt(seed: int, length: int, ordinary: int) -> list[int]:
    """`length` token ids below `ordinary`, the number of tokens that are not special."""
    return np.random.default_rng([seed, length]).integers(0, ordinary, size=length).tolist()


def run(model: PreTrainedModel, prompt: list[int], steps: int) -> Reference:
    """Greedy decoding for `steps` tokens, without a cache: each row of logits comes from a plain forward pass."""
    # One thread sums in a fixed order, so that the committed fixtures are reproducible.
    torch.set_num_threads(1)
    tokens, rows, greedy = list(prompt), [], []
    with torch.no_grad():
        for _ in range(steps):
            row = model(torch.tensor([tokens]), use_cache=False).logits[0, -1].float().numpy()
            rows.append(row)
            greedy.append(int(row.argmax()))
            tokens.append(greedy[-1])
    return Reference(prompt, tokens[:-1], np.stack(rows), greedy)
