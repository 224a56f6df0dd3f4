"""The architectures that the oracle can make: one module each, found by its name.

A family module has
    NAME          what --family takes
    ARCH          the gguf package's MODEL_ARCH, which gives llama.cpp's tensor names
    SHAPES        the names in shapes.SHAPES that make sense for it
    FORMATS       where not every one is published: "gguf", "safetensors", the usual one first
    config(shape, tokens) -> a transformers configuration; tokens gives the special ids
    model(config) -> the transformers model, its weights not yet set
    spread(name, shape) -> (mean, standard deviation) of one parameter, by its transformers name
    metadata(writer, config)   writes the architecture's own keys
    to_gguf(name, array, config), from_gguf(name, array, config)
                  one parameter, by its transformers name, in the order of rows that the file has, and back
    extra_tensors(config) -> {gguf name: array} that no parameter of the model stands for
    gguf_parts(name)
                  where the gguf package does not know a parameter, or a file holds it in several tensors that divide its rows, or
                  those of each expert: their names, else None
    part_rows(name, config)
                  how many rows each of these has, where not all have as many
    left_out(name)  whether a GGUF file of the language model lacks a parameter; by default none
    unread_tensors(config) -> {name: array} that a folder has and the language model leaves out
    arranged(tensors) -> the tensors of a folder as published ones have them, where transformers would write others
    single(name)    whether a folder keeps a parameter in f32 whatever the others are; by default none
    age(config)     rewrites config.json to the family's first format, where more than the keys of every family changed
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from ..errors import BadArguments


def names() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__))


def formats(family: ModuleType) -> tuple[str, ...]:
    return getattr(family, "FORMATS", ("gguf", "safetensors"))


def family_named(name: str) -> ModuleType:
    if name not in names():
        raise BadArguments(f"no family is called {name!r}; there are {', '.join(names())}")
    return import_module(f"{__name__}.{name}")
