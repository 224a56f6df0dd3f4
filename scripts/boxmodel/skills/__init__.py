"""The skills of the bundled model. Each module makes exchanges: questions in many wordings, with right answers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from . import about, arithmetic, calendar, fields, letters, memory, sorting, stories, tools, units
from .base import Exchange

# Weights by which skills are drawn for the training text. Skills that need most practice have most.
WEIGHTS: dict[Callable[[Random], Exchange], int] = {
    arithmetic.sample: 24, letters.sample: 18, sorting.sample: 14, fields.sample: 9, tools.sample: 9,
    calendar.sample: 9, units.sample: 7, stories.sample: 6, about.sample: 9, memory.sample: 5,
}
