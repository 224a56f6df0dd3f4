"""The command line of `npm run oracle`."""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from transformers.utils import logging

from . import compare, engine, families, model_files, reference, shapes, tokenizer, weight_types, witness
from .errors import BadArguments, EngineFailed

PROMPT_LENGTHS = (37, 1, 64, 5, 122)
# With and without a remainder of the recurrent layers' chunks.
RANDOM_LENGTHS = (1, 3, 31, 33, 37, 64, 65, 122, 200)
ENGINES = {"native": ["native"], "browser": ["browser"], "both": ["native", "browser"], "none": []}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="npm run oracle --",
        description="Makes a small random model with Hugging Face transformers, runs it there and in the engine's exact "
        "lane, and compares the logits at every position. Exit status: 0 agree, 1 disagree, 2 bad arguments.",
    )
    parser.add_argument("--family", default="llama", help=f"architecture: {', '.join(families.names())}; with --matrix also all")
    parser.add_argument("--seed", type=int, default=0, help="decides the weights, the prompt and, unless named, the shape")
    parser.add_argument("--type", dest="weight_type", help=f"weights: {', '.join(weight_types.TYPES)} (default f32)")
    parser.add_argument("--format", dest="file_format", choices=["gguf", "safetensors"], help="default gguf")
    parser.add_argument("--shape", help=f"one of {', '.join(shapes.SHAPES)}; by default the seed picks one that the type fits")
    parser.add_argument("--prompt-length", type=int, metavar="T", help="tokens in the prompt; by default the seed picks")
    parser.add_argument("--decode", type=int, default=12, metavar="T", help="tokens decoded after it (default 12)")
    parser.add_argument("--engine", choices=ENGINES, default="both", help="default both")
    parser.add_argument("--kernel", action="append", default=[], metavar="OP=VARIANT", help="handed to the engine")
    parser.add_argument("--adapter", metavar="NAME", help="handed to the engine")
    parser.add_argument("--witness", action="store_true", help="llama.cpp as well, on the same GGUF file; needs llama-cpp-python")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the model there")
    parser.add_argument("--matrix", action="store_true", help="every shape in every type and format that fits it; of all families but llama one type a shape")
    parser.add_argument("--random", type=int, metavar="N", help="N models of random families, widths, types, formats and prompts, which --seed decides")
    parser.add_argument("--fixtures", action="store_true", help="write tests/data afresh instead, and run no engine")
    return parser.parse_args()


@dataclass(frozen=True)
class Job:
    recipe: model_files.Recipe
    prompt_length: int


def fits(weight_type: str, file_format: str, shape: shapes.Shape) -> bool:
    try:
        weight_types.check(weight_type, file_format, shape)
    except BadArguments:
        return False
    return True


def random_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """As many jobs as asked for, each with its own seed: a feed-forward width of none of the shapes, and other random choices."""
    for index in range(options.random):
        chance = random.Random(f"{options.seed} {index}")
        family = families.family_named(chance.choice(families.names()))
        shape = shapes.shape_named(chance.choice(family.SHAPES))
        shape = replace(shape, f=chance.randrange(64, 289, 32))
        file_format = chance.choice(families.formats(family))
        weight_type = chance.choice([name for name in weight_types.TYPES if fits(name, file_format, shape)])
        odd = file_format == "safetensors" and chance.random() < 0.5
        seed = chance.randrange(1 << 20)
        recipe = model_files.Recipe(family, shape, weight_type, file_format, seed, shards=odd, old_config=odd)
        yield Job(recipe, chance.choice(RANDOM_LENGTHS))


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    if options.random:
        yield from random_jobs(options)
        return
    if options.family == "all":
        if not options.matrix:
            raise BadArguments("--family all goes with --matrix")
        for name in families.names():
            yield from jobs(argparse.Namespace(**{**vars(options), "family": name}))
        return
    family = families.family_named(options.family)
    if options.seed < 0:
        raise BadArguments("--seed is 0 or more")
    length = options.prompt_length
    if options.decode < 0 or (length is not None and length < 1):
        raise BadArguments("--prompt-length is 1 or more, --decode 0 or more")
    if options.matrix:
        if options.shape or options.weight_type or options.file_format or options.keep:
            raise BadArguments("--matrix goes through all shapes, types and formats: name none, and keep none")
        every = [
            (name, weight_type, file_format)
            for name in family.SHAPES
            for file_format in families.formats(family)
            for weight_type in weight_types.TYPES
            if fits(weight_type, file_format, shapes.shape_named(name))
        ]
        if family.NAME != "llama":
            # Weight types are covered by llama: here each shape and format has one, in rotation.
            pairs = list(dict.fromkeys((name, file_format) for name, _, file_format in every))
            types = {pair: [kind for name, kind, file_format in every if (name, file_format) == pair] for pair in pairs}
            every = [(name, types[name, file_format][i % len(types[name, file_format])], file_format) for i, (name, file_format) in enumerate(pairs)]
    else:
        weight_type, file_format = options.weight_type or "f32", options.file_format or families.formats(family)[0]
        if file_format not in families.formats(family):
            raise BadArguments(f"{family.NAME} models are published as {', '.join(families.formats(family))} only")
        named = [options.shape] if options.shape else family.SHAPES
        for name in named:
            if name not in family.SHAPES:
                raise BadArguments(f"no shape of {family.NAME} is called {name!r}; there are {', '.join(family.SHAPES)}")
        if options.shape or weight_type not in weight_types.TYPES:
            weight_types.check(weight_type, file_format, shapes.shape_named(named[0]))
        fitting = [name for name in named if fits(weight_type, file_format, shapes.shape_named(name))]
        if not fitting:
            weight_types.check(weight_type, file_format, shapes.shape_named(named[0]))
        every = [(fitting[options.seed % len(fitting)], weight_type, file_format)]
    for index, (name, weight_type, file_format) in enumerate(every):
        shape = shapes.shape_named(name)
        turn = options.seed + index
        prompt = length or PROMPT_LENGTHS[turn % len(PROMPT_LENGTHS)]
        if prompt + options.decode >= shape.context:
            raise BadArguments(f"{prompt} + {options.decode} tokens do not fit the context of {shape.context}")
        folder = file_format == "safetensors"
        # Odd turns are folders of several files with transformers 4's configuration.
        odd = folder and turn % 2 == 1
        recipe = model_files.Recipe(family, shape, weight_type, file_format, options.seed, shards=odd, old_config=odd)
        yield Job(recipe, prompt)


def run(job: Job, options: argparse.Namespace, folder: Path) -> tuple[int, int]:
    """Makes, runs and compares one model; prints its table; returns how many engines agreed and how many did not."""
    made = tokenizer.byte_level("llama-bpe")
    recipe, shape = job.recipe, job.recipe.shape
    path, model = model_files.write(recipe, made, folder)
    prompt = reference.random_prompt(recipe.seed, job.prompt_length, min(made.ids.values()))
    expected = reference.run(model, prompt, options.decode + 1)
    print(
        f"{recipe.family.NAME} {shape.name} {recipe.weight_type} {recipe.file_format} seed {recipe.seed}: D {shape.d}, "
        f"H {shape.h}, G {shape.g}, E {shape.e}, F {shape.f}, V {shape.vocabulary}, {'tied' if shape.tied else 'own'} head, "
        f"{'llama3' if shape.llama3_rope else 'plain'} RoPE; prompt {job.prompt_length}, decoded {options.decode}"
    )
    print(compare.HEADER)
    extra = [part for kernel in options.kernel for part in ("--kernel", kernel)]
    extra += ["--adapter", options.adapter] if options.adapter else []
    passed = failed = 0
    if options.witness and recipe.file_format == "gguf":
        agrees, row = witness.compare(path, recipe.weight_type, expected)
        print(f"llama.cpp {len(expected.greedy):8d} {row}", flush=True)
        passed, failed = passed + agrees, failed + (not agrees)
    for name in ENGINES[options.engine]:
        try:
            result = compare.compare(expected, engine.run(name, path.resolve(), expected, extra))
        except EngineFailed as failure:
            print(f"{name:8} failed: {failure}", flush=True)
            failed += 1
            continue
        print(f"{name:8} {len(expected.greedy):9d} {result.summary()}")
        for detail in result.details[:8]:
            print(f"         {detail}")
        if len(result.details) > 8:
            print(f"         and {len(result.details) - 8} more positions")
        sys.stdout.flush()
        passed, failed = passed + result.agrees, failed + (not result.agrees)
    return passed, failed


def main() -> int:
    options = arguments()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        if options.fixtures:
            from .fixtures import write_all

            write_all(engine.ROOT / "tests" / "data")
            return 0
        todo = list(jobs(options))
    except BadArguments as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    passed = failed = 0
    for job in todo:
        with tempfile.TemporaryDirectory() as scratch:
            agreed, disagreed = run(job, options, options.keep or Path(scratch))
            passed, failed = passed + agreed, failed + disagreed
    if options.matrix or options.random:
        print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
