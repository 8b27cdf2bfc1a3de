"""The kernels of gemm.cu, launched as their header says; `lowgraph.blas` has its own tests."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.compare import ROUNDOFF, Array, assert_same_bits, in_place, normal, output
from tests.ops.products import FLOAT32, LAYOUTS, launch, run
from tests.support.rig import Rig

SIZES = [(1, 1, 1), (31, 33, 257), (64, 64, 64), (65, 1, 130), (1, 129, 63), (257, 96, 31)]


def assert_product(got: Array, a: Array, b: Array, before: Array | float = 0.0) -> None:
    """Compare with the exact product, within the worst case of k roundings of the sum of |a||b|."""
    exact = a.astype(np.float64) @ b.astype(np.float64) + before
    size = np.abs(a).astype(np.float64) @ np.abs(b) + np.abs(before)
    excess = np.abs(got - exact) - (a.shape[1] + 2) * ROUNDOFF * size
    assert (excess <= 0).all(), f"beyond the rounding bound by {excess.max():.2e}"


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_product(rig: Rig, layout: str, size: tuple[int, int, int], accumulate: bool) -> None:
    m, n, k = size
    a, b, before = normal(0, m, k), normal(1, k, n), normal(2, m, n)
    out = in_place(rig, before) if accumulate else output(rig, m, n)

    run(rig, FLOAT32, layout, a, b, out, accumulate=accumulate)

    assert_product(out.get(), a, b, before if accumulate else 0.0)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("chunk", [64, 100, 259])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_split_product(rig: Rig, layout: str, chunk: int, accumulate: bool) -> None:
    m, n, k = 33, 70, 517
    a, b, before = normal(0, m, k), normal(1, k, n), normal(2, m, n)
    out = in_place(rig, before) if accumulate else output(rig, m, n)

    run(rig, FLOAT32, layout, a, b, out, accumulate=accumulate, chunk=chunk)

    assert_product(out.get(), a, b, before if accumulate else 0.0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_repeats_bit_for_bit(rig: Rig, layout: str) -> None:
    a, b = normal(0, 100, 700), normal(1, 700, 90)
    runs = []
    for _ in range(3):
        out = output(rig, 100, 90)
        run(rig, FLOAT32, layout, a, b, out, chunk=200)
        runs.append(out.get())
    assert_same_bits(runs[0], runs[1])
    assert_same_bits(runs[0], runs[2])


def test_operands_may_start_at_any_float(rig: Rig) -> None:
    flat = normal(0, 1 + 64 * 64)
    a, b = flat[1:].reshape(64, 64), normal(1, 64, 64)
    out = output(rig, 64, 64)
    left, right = rig.put(flat).address + 4, rig.put(b).address

    launch(rig, FLOAT32, "nn", out, left, right, 64, accumulate=False, chunk=64)

    assert_product(out.get(), a, b)


def test_no_depth_is_a_zero_product(rig: Rig) -> None:
    out, kept = output(rig, 3, 5), in_place(rig, normal(0, 3, 5))
    left, right = np.zeros((3, 0), np.float32), np.zeros((0, 5), np.float32)

    run(rig, FLOAT32, "nn", left, right, out)
    run(rig, FLOAT32, "nn", left, right, kept, accumulate=True)

    assert not out.get().any()
    assert_same_bits(kept.get(), normal(0, 3, 5))
