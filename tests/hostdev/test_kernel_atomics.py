"""Atomic operations: their results, the old values that they return, fences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "atomics.cu"
SIZES = (1, 31, 257, 1000)


def _blocks(n: int) -> int:
    return -(-n // 64)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["int", "uint", "ull"])
def test_integer_operations(rig: Rig, kind: str, n: int) -> None:
    dtype = np.dtype({"int": np.int32, "uint": np.uint32, "ull": np.uint64}[kind])
    limits = np.iinfo(dtype)
    x = np.random.default_rng(n).integers(limits.min, limits.max, n, dtype, endpoint=True)
    start = np.array([0, 0, limits.max, limits.min, -1 if kind == "int" else limits.max, 0, 0,
                      0, limits.min, 0], dtype)  # fmt: skip
    out = rig.put(start)
    rig.library.kernel(KERNELS, f"atomics_{kind}")(rig.stream, _blocks(n), 64, out, rig.put(x), n)
    total = np.add.reduce(x, dtype=dtype)  # wraps, as the atomic does
    bitwise = [f.reduce(x) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    negative = np.negative(total)
    wanted = [total, negative, x.min(), x.max(), *bitwise, total, x.max(), total]
    np.testing.assert_array_equal(rig.get(out), np.array(wanted, dtype))


@pytest.mark.parametrize("n", SIZES)
def test_counters_wrap_and_old_values_come_back(rig: Rig, n: int) -> None:
    limit = 12
    out, less = rig.put(np.zeros(2, np.uint32)), rig.put(np.full(1, 7, np.int32))
    up, down, below = rig.empty(n, np.uint32), rig.empty(n, np.uint32), rig.empty(n, np.int32)
    kernel = rig.library.kernel(KERNELS, "wrapping")
    kernel(rig.stream, _blocks(n), 64, out, up, down, below, less, limit, n)
    steps = np.arange(n)
    np.testing.assert_array_equal(np.sort(rig.get(up)), np.sort(steps % (limit + 1)))
    np.testing.assert_array_equal(np.sort(rig.get(down)), np.sort(-steps % (limit + 1)))
    np.testing.assert_array_equal(np.sort(rig.get(below)), np.sort(7 - 2 * steps))
    assert rig.get(out).tolist() == [n % (limit + 1), -n % (limit + 1)]
    assert rig.get(less)[0] == 7 - 2 * n


@pytest.mark.parametrize("n", SIZES)
def test_sums_in_floating_point(rig: Rig, n: int) -> None:
    # Multiples of 1/8 up to 1: every partial sum is exact in float and double in any order, and in
    # half and bfloat16 as long as it is small: there alternating signs keep it so.
    x = np.random.default_rng(n).integers(-8, 9, n).astype(np.float32) / 8
    x[1::2] = -x[: n - 1 : 2][: len(x[1::2])]
    f, d = rig.put(np.zeros(1, np.float32)), rig.put(np.zeros(1, np.float64))
    h, b = rig.put(np.zeros(2, np.float16)), rig.put(np.zeros(2, np.uint16))
    kernel = rig.library.kernel(KERNELS, "float_sums")
    kernel(rig.stream, _blocks(n), 64, f, d, h, b, rig.put(x), n)
    total = float(x.astype(np.float64).sum())
    assert (rig.get(f)[0], rig.get(d)[0]) == (total, total)
    halves = rig.get(h).astype(np.float64)
    brains = (rig.get(b).astype(np.uint32) << 16).view(np.float32)
    # Half keeps multiples of 1/8 up to 256, bfloat16 up to 32; no order of 31 gets past 16.
    np.testing.assert_allclose(halves, [total, -total], atol=0)
    np.testing.assert_allclose(brains, [total, -total], atol=0 if n <= 31 else 2.0)


@pytest.mark.parametrize("n", SIZES)
def test_exchange_loses_nothing(rig: Rig, n: int) -> None:
    slot, out = rig.put(np.full(1, -1, np.int32)), rig.empty(n, np.int32)
    float_slot, float_out = rig.put(np.full(1, -1, np.float32)), rig.empty(n)
    kernel = rig.library.kernel(KERNELS, "exchanged")
    kernel(rig.stream, _blocks(n), 64, slot, out, float_slot, float_out, n)
    for last, came_out in ((slot, out), (float_slot, float_out)):
        everything: Any = np.sort(np.concatenate([rig.get(last), rig.get(came_out)]))
        np.testing.assert_array_equal(everything, np.arange(-1, n))


@pytest.mark.parametrize("n", SIZES)
def test_compare_and_swap(rig: Rig, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    product, wide = rig.put(np.ones(1, np.int32)), rig.put(np.zeros(1, np.uint64))
    greatest = rig.put(np.full(1, -np.inf, np.float32))
    kernel = rig.library.kernel(KERNELS, "swapped")
    kernel(rig.stream, _blocks(n), 64, product, wide, greatest, rig.put(x), n)
    assert rig.get(product)[0] == np.uint32(pow(3, n, 1 << 32)).astype(np.int32)
    assert int(rig.get(wide)[0]) == (pow(5, n) - 1) // 4 % (1 << 64)
    assert rig.get(greatest)[0] == x.max()


@pytest.mark.parametrize("n", SIZES)
def test_fence_lets_the_last_block_see_all(rig: Rig, n: int) -> None:
    x = np.random.default_rng(n).integers(-1000, 1000, n).astype(np.int32)
    total, parts = rig.empty(1, np.int32), rig.empty(_blocks(n), np.int32)
    ticket = rig.put(np.zeros(1, np.uint32))
    kernel = rig.library.kernel(KERNELS, "last_block_sums")
    for _ in range(3):  # the ticket wraps back to zero by itself
        kernel(rig.stream, _blocks(n), 64, total, parts, ticket, rig.put(x), n)
        assert rig.get(total)[0] == x.sum()
        assert rig.get(ticket)[0] == 0


def test_threads_of_a_block_wait_for_one_another_in_loops(rig: Rig) -> None:
    """On the host device they run one at a time: the one that waits has to let the others run."""
    rounds = 7
    x = np.arange(32 * rounds, dtype=np.float32)
    y = rig.empty(32 * rounds, np.float32)
    rig.library.kernel(KERNELS, "hand_over")(rig.stream, 1, 96, y, rig.put(x), rounds)
    np.testing.assert_array_equal(rig.get(y), 2 * x)
