"""llama.cpp as a second witness: the same GGUF file, read by its own loader, computed on the CPU.

Its package builds from source (a C++ compiler, some ten minutes), so requirements.txt leaves it out: install llama-cpp-python where this can
import it. It computes with halves or eight bits against such weights, so it is compared more loosely than the engine, and tokens only
where the reference's best logit is clear.
"""

from pathlib import Path

import numpy as np

from .errors import BadArguments
from .reference import Reference

# Tolerance by weight type, relative to a position's largest |logit|: the rounding of llama.cpp's activations.
TOLERANCE = {"f32": 2e-3, "f16": 1e-2, "bf16": 2e-2, "q8_0": 1e-1}


def logits(path: Path, tokens: list[int]) -> np.ndarray:
    """(tokens, V) f32: what llama.cpp predicts after each token."""
    try:
        from llama_cpp import GGML_TYPE_F32, Llama
    except ImportError:
        raise BadArguments("--witness needs llama-cpp-python: pip install it, or name its folder in PYTHONPATH") from None
    model = Llama(
        str(path), n_ctx=512, n_batch=512, n_ubatch=512, n_threads=1, logits_all=True, type_k=GGML_TYPE_F32, type_v=GGML_TYPE_F32, verbose=False
    )
    model.eval(tokens)
    found = np.array(model.scores[: len(tokens)], dtype=np.float32)
    model.close()
    return found


def compare(path: Path, weight_type: str, reference: Reference) -> tuple[bool, str]:
    """Whether llama.cpp agrees, and a row of the table."""
    if weight_type not in TOLERANCE:
        raise BadArguments(f"--witness knows {', '.join(TOLERANCE)}")
    tolerance = TOLERANCE[weight_type]
    found = logits(path, reference.tokens)[reference.start :]
    largest = np.abs(reference.logits).max(axis=1)
    relative = np.abs(found - reference.logits).max(axis=1) / largest
    clear = reference.margins() > 2 * tolerance * largest
    wrong = int(np.count_nonzero((found.argmax(axis=1) != reference.greedy) & clear))
    agrees = bool((relative <= tolerance).all()) and wrong == 0
    return agrees, f"{relative[0]:9.2e} {relative[1:].max(initial=0.0):9.2e} {wrong:7d} {np.count_nonzero(~clear):5d}  {'agrees' if agrees else 'DISAGREES'}"
