"""Half and bfloat16 in NumPy, as bits: the oracle of what kernels compute with them.

A number is rounded from float64 once. Sums, products, quotients and roots of two such numbers,
computed in float64, round to the same narrow number as the exact result does: float64 has more than
twice their digits and two more (Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Narrow:
    """A 16-bit format.

    digits: of the significand, the hidden one included. emin: least exponent of a normal number;
    emax: the greatest.
    """

    digits: int
    emin: int
    emax: int

    def wide(self, bits: Any) -> Any:
        """The numbers as float64."""
        bits = np.asarray(bits, np.uint16)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            if self is HALF:
                return bits.view(np.float16).astype(np.float64)
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    def bits(self, values: Any) -> Any:
        """float64 numbers rounded to nearest, ties to even."""
        return self._encoded(self._grid(values, np.rint), np.asarray(values, np.float64))

    def directed(self, values: Any, mode: str) -> Any:
        """Rounded towards zero (z), upwards (u) or downwards (d)."""
        x = np.asarray(values, np.float64)
        rounded = self._grid(x, {"z": np.trunc, "u": np.ceil, "d": np.floor}[mode])
        # What overflows goes to infinity only when the mode points away from zero there.
        stays = {"z": np.isfinite(x), "u": np.isfinite(x) & (x < 0), "d": np.isfinite(x) & (x > 0)}
        clipped = np.clip(rounded, -self._largest, self._largest)
        return self._encoded(np.where(stays[mode], clipped, rounded), x)

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c rounded once.

        The product is exact in float64; the sum's lost part is put back as an odd last bit, which
        decides every tie of the rounding that follows.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            product = a * b
            total = product + c
            back = total - product
            lost = (product - (total - back)) + (c - back)
        even = total.view(np.int64) % 2 == 0
        mend = np.isfinite(total) & (lost != 0) & even
        odd = np.where(mend, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)
        return self.bits(odd)

    def is_nan(self, bits: Any) -> Any:
        return np.isnan(self.wide(bits))

    def steps_between(self, left: Any, right: Any) -> Any:
        """How many representable numbers lie from one to the other."""
        ordered = [np.where(b & 0x8000, -(b.astype(np.int64) & 0x7FFF), b.astype(np.int64))
                   for b in (left, right)]  # fmt: skip
        return np.abs(ordered[0] - ordered[1])

    @property
    def _largest(self) -> float:
        return float((2 - 2.0 ** (1 - self.digits)) * 2.0**self.emax)

    def _grid(self, values: Any, rounding: Any) -> Any:
        """The multiples of the last place that the rounding chooses."""
        x = np.asarray(values, np.float64)
        with np.errstate(all="ignore"):
            exponent = np.maximum(np.frexp(x)[1] - 1, self.emin)
            place = np.ldexp(1.0, exponent - (self.digits - 1))
            rounded = np.where(np.isfinite(x), rounding(x / place) * place, x)
        over = np.abs(rounded) > self._largest
        return np.where(over, np.copysign(np.inf, x), rounded)

    def _encoded(self, rounded: Any, signs: Any) -> Any:
        with np.errstate(all="ignore"):
            signed = np.copysign(rounded, signs)
            if self is HALF:
                return signed.astype(np.float16).view(np.uint16)
            return (signed.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


HALF = Narrow(11, -14, 15)
BFLOAT16 = Narrow(8, -126, 127)
