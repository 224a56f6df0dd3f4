"""K-quants of given values, for the tests' own files: the gguf package only decodes them.

Scales and mins are those of each group's range, without the error-minimising search of a real quantizer: what matters here is that every
field of a block is in use. Layouts: ggml's block_q4_K, block_q5_K and block_q6_K.
"""

import numpy as np

SUPER = 256


def _halves(values: np.ndarray) -> np.ndarray:
    """(B,) f32 -> (B, 2) u8."""
    return values.astype(np.float16).view(np.uint8).reshape(-1, 2)


def _quotient(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    return np.rint(values / np.where(steps == 0, 1, steps)) * (steps != 0)


def _with_mins(blocks: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(B, 256) -> quants (B, 8, 32) u8 from 0 to `most`, the 4 bytes of d and dmin (B, 4), the 12 bytes of scales and mins (B, 12)."""
    groups = blocks.reshape(-1, 8, 32)
    mins = np.maximum(-groups.min(axis=2), 0)
    scales = np.maximum(groups.max(axis=2) + mins, 0) / most
    d = (scales.max(axis=1) / 63).astype(np.float16).astype(np.float32)
    dmin = (mins.max(axis=1) / 63).astype(np.float16).astype(np.float32)
    sc = np.clip(_quotient(scales, d[:, None]), 0, 63).astype(np.uint8)
    m = np.clip(_quotient(mins, dmin[:, None]), 0, 63).astype(np.uint8)
    step = (d[:, None] * sc)[:, :, None]
    q = np.clip(_quotient(groups + (dmin[:, None] * m)[:, :, None], step), 0, most).astype(np.uint8)
    # Groups 0 to 3 have a byte each; the upper two bits of groups 4 to 7 lie above theirs.
    low = [sc[:, i] | (sc[:, i + 4] >> 4) << 6 for i in range(4)] + [m[:, i] | (m[:, i + 4] >> 4) << 6 for i in range(4)]
    packed = np.stack(low + [(sc[:, i + 4] & 15) | (m[:, i + 4] & 15) << 4 for i in range(4)], axis=1)
    return q, np.concatenate([_halves(d), _halves(dmin)], axis=1), packed


def _nibbles(q: np.ndarray) -> np.ndarray:
    """(B, 8, 32) of 0 to 15 -> (B, 128): groups 2i in the low and 2i + 1 in the high nibbles."""
    return (q[:, 0::2] | q[:, 1::2] << 4).reshape(len(q), 128)


def q4_k(blocks: np.ndarray) -> np.ndarray:
    q, head, scales = _with_mins(blocks, 15)
    return np.concatenate([head, scales, _nibbles(q)], axis=1)


def q5_k(blocks: np.ndarray) -> np.ndarray:
    q, head, scales = _with_mins(blocks, 31)
    fifth = np.zeros((len(q), 32), np.uint8)
    for group in range(8):
        fifth |= (q[:, group] >> 4) << group
    return np.concatenate([head, scales, fifth, _nibbles(q & 15)], axis=1)


def q6_k(blocks: np.ndarray) -> np.ndarray:
    groups = blocks.reshape(-1, 16, 16)
    # The sign of a scale is in use, too: that of the group's largest value.
    at = np.abs(groups).argmax(axis=2)
    scales = -np.take_along_axis(groups, at[:, :, None], axis=2)[:, :, 0] / 32
    d = (np.abs(scales).max(axis=1) / 127).astype(np.float16).astype(np.float32)
    sc = np.clip(_quotient(scales, d[:, None]), -128, 127).astype(np.int8)
    q = np.clip(_quotient(groups, (d[:, None] * sc)[:, :, None]) + 32, 0, 63).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = np.stack([(q[:, :, 0] & 15) | (q[:, :, 2] & 15) << 4, (q[:, :, 1] & 15) | (q[:, :, 3] & 15) << 4], axis=2)
    high = (q[:, :, 0] >> 4) | (q[:, :, 1] >> 4) << 2 | (q[:, :, 2] >> 4) << 4 | (q[:, :, 3] >> 4) << 6
    count = len(q)
    return np.concatenate([low.reshape(count, 128), high.reshape(count, 64), sc.view(np.uint8), _halves(d)], axis=1)


def rows(weights: np.ndarray, encode) -> np.ndarray:
    """(N, K) f32 -> (N, bytes of a row) u8."""
    encoded = encode(np.ascontiguousarray(weights, np.float32).reshape(-1, SUPER))
    return encoded.reshape(weights.shape[0], -1)
