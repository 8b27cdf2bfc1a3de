"""Warp shuffles of every type, reductions and matches, with sub-masks and partial warps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "warp_types.cu"
# Kernel suffix -> the NumPy type that carries one value's bits.
TYPES = {
    "int": np.int32,
    "uint": np.uint32,
    "longlong": np.int64,
    "ulonglong": np.uint64,
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
    "half2": np.uint32,
    "bfloat162": np.uint32,
}


def _sources(lanes: Any, by: Any, width: int) -> Any:
    """The lane that each of the four shuffles reads from, by the CUDA C++ guide: [n, 4]."""
    start = lanes // width * width
    inside = lambda lane: np.where((lane >= start) & (lane < start + width), lane, lanes)  # noqa: E731
    exchanged = lanes ^ by
    # xor may read from an earlier segment, not from a later one
    exchanged = np.where(exchanged < start + width, exchanged, lanes)
    return np.stack([start + by % width, inside(lanes - by), inside(lanes + by), exchanged], 1)


@pytest.mark.parametrize("width", [1, 2, 8, 16, 32])
@pytest.mark.parametrize("kind", TYPES)
def test_shuffles_of_every_type_and_width(rig: Rig, kind: str, width: int) -> None:
    n = 96
    rng = np.random.default_rng([width, len(kind)])
    dtype = np.dtype(TYPES[kind])
    # Patterns of small numbers in both halves: every one a plain number in every type.
    x = (rng.integers(1, 100, (n, dtype.itemsize)) + 16).astype(np.uint8).view(dtype)[:, 0]
    by = rng.integers(0, 32, n).astype(np.int32)
    out = rig.empty((n, 4), dtype)
    arguments = [rig.put(x).address, rig.put(by).address, width]
    rig.library.kernel(KERNELS, f"shuffle_{kind}")(rig.stream, 1, n, out.address, *arguments)
    lanes = np.arange(n) % 32
    sources = (np.arange(n) - lanes)[:, None] + _sources(lanes, by, width)
    np.testing.assert_array_equal(rig.get(out), x[sources])


def _groups(rng: np.random.Generator, n: int) -> list[list[int]]:
    """Threads of each warp in up to three groups; a group never crosses a warp."""
    groups: list[list[int]] = []
    for first in range(0, n, 32):
        chosen = rng.integers(0, 3, min(32, n - first))
        groups += [[first + int(i) for i in np.flatnonzero(chosen == g)] for g in range(3)]
    return [group for group in groups if group]


def _masks(groups: list[list[int]], n: int) -> Any:
    masks = np.zeros(n, np.uint32)
    for group in groups:
        masks[group] = sum(1 << t % 32 for t in group)
    return masks


@pytest.mark.parametrize("n", [1, 31, 33, 257])
def test_reductions_over_groups_of_lanes(rig: Rig, n: int) -> None:
    rng = np.random.default_rng(n)
    groups = _groups(rng, n)
    x = rng.integers(-(1 << 31), 1 << 31, n).astype(np.int32)
    out = rig.empty((n, 6), np.int32)
    arguments = (out, rig.put(x), rig.put(_masks(groups, n)), n)
    rig.library.kernel(KERNELS, "reductions")(rig.stream, 1, -(-n // 32) * 32, *arguments)
    wanted = np.zeros((n, 6), np.int64)
    for group in groups:
        v = x[group].astype(np.int64)
        bitwise = [ufunc.reduce(x[group]) for ufunc in
                   (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]  # fmt: skip
        wanted[group] = [v.sum(), v.min(), v.max(), *bitwise]
    np.testing.assert_array_equal(rig.get(out), wanted.astype(np.int32))


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("n", [1, 31, 33, 257])
def test_matches_over_groups_of_lanes(rig: Rig, n: int, alike: bool) -> None:
    rng = np.random.default_rng([n, alike])
    groups = _groups(rng, n)
    x = (np.full(n, 5) if alike else rng.integers(0, 3, n)).astype(np.int32)
    out = rig.empty((n, 8), np.uint32)
    arguments = (out, rig.put(x), rig.put(_masks(groups, n)), n)
    rig.library.kernel(KERNELS, "matches")(rig.stream, 1, -(-n // 32) * 32, *arguments)
    wanted = np.zeros((n, 8), np.uint32)
    for group in groups:
        mask = sum(1 << t % 32 for t in group)
        for t in group:
            same = sum(1 << other % 32 for other in group if x[other] == x[t])
            wanted[t] = [same] * 4 + [mask if same == mask else 0, same == mask, mask, 1]
    np.testing.assert_array_equal(rig.get(out), wanted)


@pytest.mark.parametrize("n", [1, 33, 1000])
def test_active_lanes_count_once_each(rig: Rig, n: int) -> None:
    # Which lanes run together is the device's choice; what they add up to is not.
    x = np.random.default_rng(n).integers(0, 2, n).astype(np.int32)
    count, ranks = rig.put(np.zeros(1, np.int32)), rig.empty(n, np.int32)
    kernel = rig.library.kernel(KERNELS, "aggregated_count")
    kernel(rig.stream, -(-n // 64), 64, count, ranks, rig.put(x), n)
    got = rig.get(ranks)
    assert rig.get(count)[0] == x.sum()
    np.testing.assert_array_equal(np.sort(got[x == 1]), np.arange(x.sum()))
    assert (got[x == 0] == -1).all()
