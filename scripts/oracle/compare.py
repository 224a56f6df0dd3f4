"""Decides whether the engine agrees with the reference, and reports where it does not."""

from dataclasses import dataclass

import numpy as np

from .engine import Answer
from .reference import TOLERANCE, Reference


@dataclass(frozen=True)
class Comparison:
    """`relative` (positions): max |difference| over max |reference logit|; NaN or infinity count as infinite."""

    relative: np.ndarray
    wrong_argmax: list[int]  # positions in `tokens`, ties left out
    ties: list[int]
    details: list[str]  # one line for each position that disagrees

    @property
    def agrees(self) -> bool:
        return not self.details

    def summary(self) -> str:
        """The cells of the table: worst of the prefilled position, worst of the decoded ones, argmax, ties, verdict."""
        decoded = self.relative[1:].max() if len(self.relative) > 1 else 0.0
        return (
            f"{self.relative[0]:9.2e} {decoded:9.2e} {len(self.wrong_argmax):7d} {len(self.ties):5d}  "
            f"{'agrees' if self.agrees else 'DISAGREES'}"
        )


HEADER = f"{'engine':8} {'positions':>9} {'prefill':>9} {'decode':>9} {'argmax!':>7} {'ties':>5}  verdict"


def compare(reference: Reference, answer: Answer) -> Comparison:
    largest = np.abs(reference.logits).max(axis=1)
    with np.errstate(invalid="ignore"):
        difference = np.abs(answer.logits - reference.logits)
    difference[~np.isfinite(answer.logits)] = np.inf
    relative = difference.max(axis=1) / largest
    ties = reference.ties()

    wrong, details = [], []
    for row, expected in enumerate(reference.greedy):
        position = reference.start + row
        found = int(np.nan_to_num(answer.logits[row], nan=-np.inf).argmax())
        if found != expected and position not in ties:
            wrong.append(position)
        if relative[row] > TOLERANCE or position in wrong:
            token = int(difference[row].argmax())
            details.append(
                f"position {position} ({'prefill' if row == 0 else 'decode'}): logit of token {token} is "
                f"{answer.logits[row, token]:.6g}, not {reference.logits[row, token]:.6g} ({relative[row]:.1e} of the "
                f"largest, {np.count_nonzero(difference[row] > TOLERANCE * largest[row])} of {reference.logits.shape[1]} "
                f"logits are off); argmax {found}, not {expected}, margin {reference.margins()[row]:.3g}"
            )
    last = reference.start + len(reference.greedy) - 1
    if answer.next_token != reference.greedy[-1] and last not in ties:
        details.append(f"the generated token is {answer.next_token}, not {reference.greedy[-1]}")
    return Comparison(relative, wrong, ties, details)
