"""Precision: in what the products of a model are computed; and bfloat16 numbers as their bits.

NumPy has no bfloat16. A tensor of it has dtype `BFLOAT16`, which is uint16: the upper half of the
float32 of the same value (decision 13).
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BFLOAT16", "Precision", "bfloat16_bits", "bfloat16_values"]

BFLOAT16: np.dtype[Any] = np.dtype(np.uint16)
"""The dtype of bfloat16 tensors: their bits."""


class Precision(str, Enum):
    """What the operands of products are rounded to; sums are float32 in each.

    FP32: not at all. TF32: float32 in memory, 10 bits of fraction in the multiplier. BF16: bfloat16
    in memory, 7 bits of fraction; the parameters stay float32 beside it.
    """

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"

    def __str__(self) -> str:
        return self.value

    @property
    def operand(self) -> np.dtype[Any]:
        """The dtype of a product's operands in memory."""
        return BFLOAT16 if self is Precision.BF16 else np.dtype(np.float32)

    @property
    def ctype(self) -> str:
        """The same as CUDA C, for the define of a kernel's `act_t`."""
        return "__nv_bfloat16" if self is Precision.BF16 else "float"


def bfloat16_bits(values: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Numbers as float32, rounded to bfloat16: to nearest, ties to even; NaN becomes 0x7FFF.

    As `__float2bfloat16_rn` of CUDA rounds. Shape kept.
    """
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, 0x7FFF, rounded).astype(np.uint16)


def bfloat16_values(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """The float32 numbers that bfloat16 bits stand for; exact. Shape kept."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)
