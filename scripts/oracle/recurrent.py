"""Shared by families with recurrent layers: weights with long decay times, and GGUF's form of Mamba-2's weights."""

import numpy as np
from gguf import GGUFWriter


def spread(name: str) -> tuple[float, float] | None:
    """(mean, standard deviation) of a parameter of a recurrent layer, by its transformers name; None for any other."""
    if name.endswith("A_log"):
        # Together with dt_bias: some heads decay within a few tokens, others hardly in a hundred.
        return 0.0, 1.2
    if name.endswith("dt_bias"):
        return -2.5, 1.5
    if name.endswith(".D"):
        return 1.0, 0.4
    return (0.0, 0.6) if name.endswith("conv1d.weight") else None


def metadata(writer: GGUFWriter, *, conv: int, state: int, groups: int, inner: int, heads: int) -> None:
    writer.add_ssm_conv_kernel(conv)
    writer.add_ssm_state_size(state)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_time_step_rank(heads)


def mamba_to_gguf(name: str, array: np.ndarray, groups: int) -> np.ndarray | None:
    """A parameter of Mamba-2 in GGUF's form; None for any other."""
    if name.endswith("A_log"):
        return -np.exp(array)[:, None]
    if name.endswith((".mamba.D", ".mixer.D")):
        return array[:, None]
    if name.endswith("conv1d.weight"):
        return array[:, 0]
    return array.reshape(groups, -1) if name.endswith((".mamba.norm.weight", ".mixer.norm.weight")) else None


def mamba_from_gguf(name: str, array: np.ndarray) -> np.ndarray | None:
    """The inverse of mamba_to_gguf."""
    if name.endswith("A_log"):
        return np.log(-array[:, 0])
    if name.endswith((".mamba.D", ".mixer.D")):
        return array[:, 0]
    if name.endswith("conv1d.weight"):
        return array[:, None]
    return array.reshape(-1) if name.endswith((".mamba.norm.weight", ".mixer.norm.weight")) else None
