"""Rounding to bfloat16 and TF32, slowly and obviously, and how far a rounded result may lie."""

from __future__ import annotations

import numpy as np

from lowgraph.precision import bfloat16_values
from tests.ops.compare import ROUNDOFF, Array

BF16 = 2.0**-8
"""Relative error of one rounding to bfloat16, which has 8 bits with the leading one."""
TINY = 2.0**-126
"""The smallest normal number: below it the error is no longer relative."""


def to_bfloat16(values: Array) -> Array:
    """The nearest numbers with 8 bits, ties to even, as float32; no NaN.

    Each is chosen between its neighbours. The neighbour behind the largest number is 2^128, which
    float32 has as infinity.
    """
    exact = np.asarray(values, np.float32)
    down = exact.view(np.uint32) & np.uint32(0xFFFF0000)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities, which stay as they are
        low = down.view(np.float32).astype(np.float64)
        away = (down + np.uint32(0x10000)).view(np.float32).astype(np.float64)
        high = np.where(np.isfinite(away), away, np.copysign(2.0**128, low))
        to_low, to_high = np.abs(exact - low), np.abs(high - exact)
        nearer_low = (to_low < to_high) | ((to_low == to_high) & (down >> 16 & 1 == 0))
        return np.where(np.isinf(exact) | nearer_low, low, high).astype(np.float32)


def to_tf32(values: Array) -> Array:
    """The nearest numbers with 11 bits, ties away from zero, as float64; normal numbers only."""
    fraction, exponent = np.frexp(np.asarray(values, np.float64))
    bits = np.sign(fraction) * np.floor(np.abs(fraction) * 2**11 + 0.5)
    return np.ldexp(bits, exponent - 11)


def assert_rounded(got: Array, want: Array, error: Array | float, what: str = "result") -> None:
    """Fail if bfloat16 bits are not `want` rounded once, given the float32 error before it.

    error: bound of that error, absolute. A rounded number may be off by BF16 of itself.
    """
    assert got.dtype == np.uint16 and got.shape == want.shape, what
    off = np.abs(bfloat16_values(got) - want)
    limit = BF16 * (np.abs(want) + error) + error + TINY
    assert (off <= limit).all(), f"{what}: {np.max(off - limit):.2e} beyond the limit"


def float32_error(size: Array | float, roundings: int) -> Array | float:
    """Bound of the error of `roundings` float32 operations on numbers of a size."""
    return roundings * ROUNDOFF * size
