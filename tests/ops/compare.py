"""Device outputs with a guarded tail, and comparison with a reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.rig import Rig

Array = np.ndarray[Any, np.dtype[Any]]

ROUNDOFF = 2.0**-24
"""Relative error of one float32 operation."""

_GUARD = 64  # elements behind an output that no kernel may touch


@dataclass
class Output:
    """A device tensor with poison behind it; `get` fails if a kernel wrote there."""

    rig: Rig
    buffer: Any
    shape: tuple[int, ...]

    @property
    def address(self) -> int:
        return self.buffer.address

    @property
    def dtype(self) -> Any:
        return self.buffer.dtype

    def get(self) -> Array:
        """Return the contents; NaN where a kernel left poison."""
        whole = self.rig.get(self.buffer)
        count = math.prod(self.shape)
        tail = whole[count:].view(np.uint8)
        assert (tail == 0xFF).all(), f"{self.buffer.name}: written past its end"
        return whole[:count].reshape(self.shape)


def output(rig: Rig, *shape: int, dtype: Any = np.float32, name: str = "out") -> Output:
    """Return a poisoned output (NaN as float32, -1 as int32)."""
    return Output(rig, rig.empty((math.prod(shape) + _GUARD,), dtype, name=name), shape)


def in_place(rig: Rig, array: Array, name: str = "inout") -> Output:
    """Return a guarded copy of an array, for a kernel that updates it."""
    tail = np.full(_GUARD * array.itemsize, 0xFF, np.uint8).view(array.dtype)
    return Output(rig, rig.put(np.concatenate([array.ravel(), tail]), name=name), array.shape)


def assert_close(got: Array, want: Array, tolerance: float, what: str = "result") -> None:
    """Fail if an element differs by more than tolerance times the largest reference element.

    A NaN in got fails. The message names the worst element.
    """
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    if not want.size:
        return
    error = np.abs(got.astype(np.float64) - want)
    limit = tolerance * max(float(np.abs(want).max()), 1e-30)
    if not (error <= limit).all():
        worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        raise AssertionError(
            f"{what}{list(map(int, worst))}: {got[worst]!r}, wanted {want[worst]!r}; "
            f"error {error[worst]:.2e}, limit {limit:.2e}"
        )


def assert_same_bits(first: Array, second: Array, what: str = "result") -> None:
    """Fail if two arrays differ in a bit."""
    different = first.view(np.uint8) != second.view(np.uint8)
    assert not different.any(), f"{what}: {int(different.sum())} bytes differ between two runs"


@dataclass
class Columns:
    """Where columns of a device matrix begin; the distance of its rows is told apart."""

    address: int
    dtype: Any


def columns(matrix: Any, first: int) -> Columns:
    """Return where columns of a float32 buffer begin, for a kernel that takes a row distance."""
    return Columns(matrix.address + 4 * first, matrix.dtype)


def normal(seed: int, *shape: int, mean: float = 0.0, scale: float = 1.0) -> Array:
    """Return normal float32 numbers."""
    numbers = np.random.default_rng(seed).normal(mean, scale, shape)
    return numbers.astype(np.float32)


def wide(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays in float64, for the reference."""
    return tuple(array.astype(np.float64) for array in arrays)
