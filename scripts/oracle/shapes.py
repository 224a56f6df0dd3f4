"""The sizes of the random models: together they cover the widths that kernels can get wrong.

Letters are the project's: D model width, H query heads, G kv heads, E head width, F feed-forward width, V vocabulary.
"""

from dataclasses import dataclass

from .errors import BadArguments

# The vocabulary of the small tokenizer every model carries. Odd, so that a head whose rows are dealt out in pairs,
# fours or sixty-fours always has a remainder.
VOCABULARY = 301


@dataclass(frozen=True)
class Shape:
    """One size of model. Most have 2 layers, so that the step from one layer to the next is covered."""

    name: str
    d: int
    h: int
    g: int
    e: int
    f: int
    tied: bool
    llama3_rope: bool = False
    biases: bool = False  # of every product, where the family has them
    layers: int = 2
    # For layers with a recurrent state: groups that share keys, heads of values, and the width of a state.
    groups: int = 2
    states: int = 4
    state: int = 32
    vocabulary: int = VOCABULARY
    context: int = 512

    def reduced_widths(self) -> dict[str, int]:
        """Every K that a matrix product of this shape reduces over; a block type must divide them all."""
        return {"D": self.d, "H*E": self.h * self.e, "F": self.f}


SHAPES = {
    shape.name: shape
    for shape in [
        # One query head per kv head, narrow heads; K=100 is a multiple of 4 only.
        Shape("d64-tied", d=64, h=2, g=2, e=32, f=100, tied=True),
        Shape("d64-narrow", d=64, h=2, g=1, e=32, f=64, tied=False),
        Shape("d64-wide-heads", d=64, h=4, g=1, e=128, f=96, tied=False, llama3_rope=True),
        Shape("d72", d=72, h=2, g=1, e=32, f=100, tied=False),
        # H*E is larger than D, as in several real models.
        Shape("d96", d=96, h=4, g=2, e=32, f=160, tied=False),
        Shape("d96-mqa", d=96, h=4, g=1, e=64, f=160, tied=False),
        Shape("d128-llama3", d=128, h=4, g=4, e=32, f=160, tied=True, llama3_rope=True),
        Shape("d160-tied", d=160, h=4, g=2, e=64, f=224, tied=True),
        Shape("d160-llama3", d=160, h=2, g=1, e=128, f=224, tied=False, llama3_rope=True),
        # Heads that are together as wide as the model, as most families have them.
        Shape("d80", d=80, h=2, g=1, e=40, f=100, tied=True),
        Shape("d96-square", d=96, h=3, g=1, e=32, f=128, tied=False),
        Shape("d80-biases", d=80, h=2, g=1, e=40, f=100, tied=False, biases=True),
        # Layers enough for one in six to differ.
        Shape("d64-deep", d=64, h=4, g=1, e=32, f=96, tied=True, layers=6),
        Shape("d100-deep", d=100, h=2, g=2, e=40, f=132, tied=True, layers=7),
        Shape("d64-square-deep", d=64, h=2, g=1, e=32, f=96, tied=True, layers=6),
        Shape("d64-square-five", d=64, h=2, g=1, e=32, f=96, tied=True, layers=5),
        Shape("d128-square-deep", d=128, h=4, g=2, e=32, f=192, tied=True, layers=6),
        # Mixers with a state, once as wide as published ones.
        Shape("d64-state128", d=64, h=2, g=1, e=32, f=64, tied=True, layers=4, state=128),
        Shape("d64-state32", d=64, h=2, g=1, e=64, f=64, tied=False, layers=4),
        Shape("d64-state64", d=64, h=2, g=1, e=32, f=32, tied=True, layers=4, states=2, state=64),
        # One mixer to each layer.
        Shape("d64-mixers", d=64, h=2, g=1, e=32, f=96, tied=False, layers=8, state=64),
        # Two kinds of layers and of heads, and layers that read others' keys and values.
        Shape("d64-per-layer", d=64, h=2, g=1, e=32, f=64, tied=True, layers=5),
        Shape("d32-per-layer", d=32, h=2, g=1, e=16, f=32, tied=True, layers=5),
        # Heads of 256 and of 512.
        Shape("d64-heads512", d=64, h=2, g=2, e=256, f=64, tied=True),
        Shape("d32-experts", d=32, h=4, g=2, e=16, f=64, tied=True),
        Shape("d64-sinks", d=64, h=2, g=1, e=64, f=64, tied=False, layers=3),
        # As in a real small model: powers of two throughout.
        Shape("d256", d=256, h=4, g=1, e=64, f=512, tied=True),
        # The smallest that blocks of 256 fit.
        Shape("d256-single", d=256, h=8, g=1, e=32, f=256, tied=False, layers=1),
    ]
}


def shape_named(name: str) -> Shape:
    if name not in SHAPES:
        raise BadArguments(f"no shape is called {name!r}; there are {', '.join(SHAPES)}")
    return SHAPES[name]
