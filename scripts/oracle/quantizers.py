"""Quantizers for the tests' own files, of the types that the gguf package only decodes.

Scales and mins are those of each group's range, without the error-minimising search of a real quantizer: what matters here is that every
field of a block is in use. Layouts: ggml's block_q2_K, block_q3_K, block_q4_K, block_q5_K, block_q6_K, block_iq4_nl and block_iq4_xs.
"""

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

Q = GGMLQuantizationType


def _halves(values: np.ndarray) -> np.ndarray:
    """(B,) f32 -> (B, 2) u8."""
    return values.astype(np.float16).view(np.uint8).reshape(-1, 2)


def _quotient(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    return np.rint(values / np.where(steps == 0, 1, steps)) * (steps != 0)


def _signed_scales(groups: np.ndarray, number: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, G, L) -> d (B,) and scales (B, G) from -`most` - 1 to `most`, so that each group's largest value is -`number` scales: that sign is in use, too."""
    at = np.abs(groups).argmax(axis=2)
    scales = -np.take_along_axis(groups, at[:, :, None], axis=2)[:, :, 0] / number
    d = (np.abs(scales).max(axis=1) / most).astype(np.float16).astype(np.float32)
    return d, np.clip(_quotient(scales, d[:, None]), -most - 1, most).astype(np.int8)


def _pairs(q: np.ndarray) -> np.ndarray:
    """(B, 256) of 0 to 3 -> (B, 64): the quarters of each half of 128 share its bytes."""
    q = q.reshape(-1, 2, 4, 32)
    return (q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6).reshape(-1, 64)


def q2_k(blocks: np.ndarray) -> np.ndarray:
    groups = blocks.reshape(-1, 16, 16)
    mins = np.maximum(-groups.min(axis=2), 0)
    scales = np.maximum(groups.max(axis=2) + mins, 0) / 3
    d = (scales.max(axis=1) / 15).astype(np.float16).astype(np.float32)
    dmin = (mins.max(axis=1) / 15).astype(np.float16).astype(np.float32)
    sc = np.clip(_quotient(scales, d[:, None]), 0, 15).astype(np.uint8)
    m = np.clip(_quotient(mins, dmin[:, None]), 0, 15).astype(np.uint8)
    q = np.clip(_quotient(groups + (dmin[:, None] * m)[:, :, None], (d[:, None] * sc)[:, :, None]), 0, 3).astype(np.uint8)
    return np.concatenate([sc | m << 4, _pairs(q), _halves(d), _halves(dmin)], axis=1)


def q3_k(blocks: np.ndarray) -> np.ndarray:
    groups = blocks.reshape(-1, 16, 16)
    d, sc = _signed_scales(groups, 4, 31)
    q = (np.clip(_quotient(groups, (d[:, None] * sc)[:, :, None]), -4, 3) + 4).astype(np.uint8).reshape(-1, 8, 32)
    third = np.zeros((len(q), 32), np.uint8)
    for part in range(8):
        third |= (q[:, part] >> 2) << part
    six = (sc.astype(np.int16) + 32).astype(np.uint8)
    high = six.reshape(-1, 4, 4) >> 4
    packed = [(six[:, :8] & 15) | (six[:, 8:] & 15) << 4, high[:, 0] | high[:, 1] << 2 | high[:, 2] << 4 | high[:, 3] << 6]
    return np.concatenate([third, _pairs(q & 3), *packed, _halves(d)], axis=1)


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
    d, sc = _signed_scales(groups, 32, 127)
    q = np.clip(_quotient(groups, (d[:, None] * sc)[:, :, None]) + 32, 0, 63).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = np.stack([(q[:, :, 0] & 15) | (q[:, :, 2] & 15) << 4, (q[:, :, 1] & 15) | (q[:, :, 3] & 15) << 4], axis=2)
    high = (q[:, :, 0] >> 4) | (q[:, :, 1] >> 4) << 2 | (q[:, :, 2] >> 4) << 4 | (q[:, :, 3] >> 4) << 6
    count = len(q)
    return np.concatenate([low.reshape(count, 128), high.reshape(count, 64), sc.view(np.uint8), _halves(d)], axis=1)


def _nearest(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(B, G, 32) and their scales (B, G) -> (B, G * 16): the index of the nearest of the sixteen values, two in a byte."""
    known = np.array(quants.IQ4_NL.kvalues, np.float32)
    ratio = values / np.where(steps == 0, 1, steps)[:, :, None]
    number = np.abs(ratio[..., None] - known).argmin(axis=3).astype(np.uint8)
    return (number[:, :, :16] | number[:, :, 16:] << 4).reshape(len(values), -1)


def iq4_nl(blocks: np.ndarray) -> np.ndarray:
    at = np.abs(blocks).argmax(axis=1)
    d = (blocks[np.arange(len(blocks)), at] / -127).astype(np.float16).astype(np.float32)
    return np.concatenate([_halves(d), _nearest(blocks[:, None], d[:, None])], axis=1)


def iq4_xs(blocks: np.ndarray) -> np.ndarray:
    groups = blocks.reshape(-1, 8, 32)
    d, sc = _signed_scales(groups, 127, 31)
    six = (sc.astype(np.int16) + 32).astype(np.uint16)
    high = np.zeros(len(six), "<u2")
    for group in range(8):
        high |= (six[:, group] >> 4) << (2 * group)
    low = ((six[:, 0::2] & 15) | (six[:, 1::2] & 15) << 4).astype(np.uint8)
    return np.concatenate([_halves(d), high.view(np.uint8).reshape(-1, 2), low, _nearest(groups, d[:, None] * sc)], axis=1)


OWN = {Q.Q2_K: q2_k, Q.Q3_K: q3_k, Q.Q4_K: q4_k, Q.Q5_K: q5_k, Q.Q6_K: q6_k, Q.IQ4_NL: iq4_nl, Q.IQ4_XS: iq4_xs}


def quantize(weights: np.ndarray, kind: GGMLQuantizationType) -> np.ndarray:
    """(…, K) f32 -> the array that GGUFWriter stores: (…, K) f32 or f16, or (…, bytes of a row) u8."""
    weights = np.ascontiguousarray(weights, np.float32)
    block = GGML_QUANT_SIZES[kind][0]
    assert weights.shape[-1] % block == 0
    if kind not in OWN:
        return quants.quantize(weights, kind)
    return OWN[kind](weights.reshape(-1, block)).reshape(*weights.shape[:-1], -1)
