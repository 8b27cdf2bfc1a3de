"""The Mamba-2 models' kernels that write or read operands of products, with bfloat16 ones.

As test_bf16.py: against float64 twins, one rounding beyond what the float32 kernel is granted.
"""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.ops import GatedRmsNorm, GatedUpdate, RmsNorm
from lowgraph.precision import BFLOAT16, Precision, bfloat16_bits, bfloat16_values
from tests.ops import twins_mamba as twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.ops.rounding import assert_rounded
from tests.support.rig import Rig

BF16, EPSILON = Precision.BF16, 1e-5
SIZES = [(1, 33), (31, 31), (33, 64), (257, 257)]
FLOAT = 64 * ROUNDOFF
"""Relative to the largest element: what the float32 kernels' own tests grant."""

seeds = pytest.mark.parametrize("seed", [0, 1])
sizes = pytest.mark.parametrize(("rows", "channels"), SIZES)


def assert_once(got: Array, want: Array, what: str) -> None:
    assert_rounded(got, want, FLOAT * np.abs(want).max(), what)


@seeds
@sizes
def test_gated_norm_writes_an_operand(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, z, weight = normal(seed, rows, channels), normal(1, rows, channels), normal(2, channels)
    y, rstd = output(rig, rows, channels, dtype=BFLOAT16), output(rig, rows)

    GatedRmsNorm(rig.library, EPSILON, BF16).forward(
        rig.stream, y, rstd, *map(rig.put, (x, z, weight)), rows, channels
    )

    want = twins.gated_norm_forward(*wide(x, z, weight), EPSILON)
    assert_once(y.get(), want[0], "y")
    assert_close(rstd.get(), want[1], FLOAT, "rstd")


@seeds
@sizes
def test_rms_norm_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    """The stream that a branch joins stays float32, in the place of the branch."""
    x, branch, weight = normal(seed, rows, channels), normal(1, rows, channels), normal(2, channels)
    y, rstd = output(rig, rows, channels, dtype=BFLOAT16), output(rig, rows)
    joined = in_place(rig, branch)

    RmsNorm(rig.library, EPSILON, BF16).add_forward(
        rig.stream, y, rstd, joined, rig.put(x), joined, rig.put(weight), rows, channels
    )

    assert_same_bits(joined.get(), x + branch, "sum")
    want = twins.rms_norm_forward(*wide(x + branch, weight), EPSILON)
    assert_once(y.get(), want[0], "y")
    assert_close(rstd.get(), want[1], FLOAT, "rstd")


@pytest.mark.parametrize("added", [False, True])
@seeds
@sizes
def test_rms_norm_backward(rig: Rig, rows: int, channels: int, seed: int, added: bool) -> None:
    """dx stays float32; the copy of dx is its rounding, bit for bit."""
    dy = bfloat16_bits(normal(7, rows, channels))
    x, weight, before = normal(seed, rows, channels), normal(1, channels), normal(3, rows, channels)
    _, rstd = twins.rms_norm_forward(*wide(x, weight), EPSILON)
    dx = in_place(rig, before) if added else output(rig, rows, channels)
    copy, dweight = output(rig, rows, channels, dtype=BFLOAT16), output(rig, channels)
    partial = output(rig, *RmsNorm.partial_shape(rows, channels))

    RmsNorm(rig.library, EPSILON, BF16).backward(
        rig.stream, dx, dweight, partial, rig.put(dy), rig.put(x), rig.put(weight),
        rig.put(rstd.astype(np.float32)), rows, channels, add_dx=added, narrow=copy,
    )  # fmt: skip

    exact = bfloat16_values(dy).astype(np.float64)
    want = twins.rms_norm_backward(exact, *wide(x, weight), EPSILON)
    assert_close(dx.get(), want[0] + (before if added else 0), FLOAT, "dx")
    assert_close(dweight.get(), want[1], FLOAT, "dweight")
    np.testing.assert_array_equal(copy.get(), bfloat16_bits(dx.get()))


@seeds
@sizes
def test_gated_update_copies(rig: Rig, rows: int, channels: int, seed: int) -> None:
    """What it computes has float32's bits; the copies are its rounding."""
    h, gates = normal(seed, rows, channels), normal(1, rows, 2 * channels)
    biases = [rig.put(normal(n, channels)) for n in (2, 3)]
    dnext, found = rig.put(normal(4, rows, channels)), []
    for precision in (Precision.FP32, BF16):
        after, inout = output(rig, rows, channels), in_place(rig, gates)
        copies = [
            output(rig, rows, columns, dtype=BFLOAT16) for columns in (channels, 2 * channels)
        ]
        narrow = copies if precision is BF16 else (0, 0)
        layer = GatedUpdate(rig.library, precision)
        sizes = rows, channels

        layer.forward(rig.stream, after, inout, rig.put(h), *biases, *sizes, narrow=narrow[0])
        layer.backward(rig.stream, inout, dnext, *sizes, narrow=narrow[1])

        found.append((after.get(), inout.get()))
    for name, exact, rounded, copy in zip(("next", "gates"), *found, copies, strict=True):
        assert_same_bits(exact, rounded, name)
        np.testing.assert_array_equal(copy.get(), bfloat16_bits(exact), err_msg=name)
