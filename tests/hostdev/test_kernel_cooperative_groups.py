"""Cooperative groups: the block, tiles of 1 to 32 lanes, partitions, reductions and scans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "groups.cu"


def _run(rig: Rig, name: str, columns: int, x: Any) -> Any:
    """Launch `name` on one block of len(x) threads; what it wrote, [len(x), columns]."""
    out = rig.empty((len(x), columns), x.dtype)
    rig.library.kernel(KERNELS, name)(rig.stream, 1, len(x), out, rig.put(x))
    return rig.get(out)


def _small(n: int) -> Any:
    return np.random.default_rng(n).integers(0, 4, n).astype(np.int32)


def _mask(bits: Any) -> int:
    """The bits, lowest first, as the int32 that holds them."""
    return int(np.uint32(sum(1 << i for i, bit in enumerate(bits) if bit)).astype(np.int32))


def test_block_and_grid_know_their_threads(rig: Rig) -> None:
    blocks, threads = 3, 33
    out = rig.empty((blocks * threads, 6), np.int32)
    rig.library.kernel(KERNELS, "block_and_grid")(rig.stream, blocks, threads, out)
    rank = np.arange(blocks * threads)
    wanted = [
        rank % threads,
        rank * 0 + threads,
        rank % threads,
        rank // threads,
        rank,
        0 * rank + 3,
    ]
    np.testing.assert_array_equal(rig.get(out), np.stack(wanted, 1))


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_operations_of_a_tile(rig: Rig, lanes: int) -> None:
    x = _small(96)
    wanted = []
    for t, v in enumerate(x):
        first = t // lanes * lanes
        tile, rank = x[first : first + lanes], t - first
        wanted.append([
            rank, lanes, t // lanes, tile[lanes // 2], tile[max(rank - 1, 0)],
            tile[min(rank + 1, lanes - 1)], tile[rank ^ (lanes - 1)], _mask(tile & 1),
            (tile & 1).any(), (tile & 1).all(), _mask(tile == v),
            np.int64(_mask(tile >= 0)) + 1,
        ])  # fmt: skip
    np.testing.assert_array_equal(_run(rig, f"tile_{lanes}", 12, x), np.array(wanted, np.int32))


def test_reductions_and_scans(rig: Rig) -> None:
    x = np.random.default_rng(5).integers(-1000, 1000, 96).astype(np.int32)
    ufuncs = (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    eights = [np.repeat(f.reduce(x.reshape(-1, 8), axis=1), 8) for f in ufuncs]
    sums = x.reshape(-1, 16).cumsum(1).ravel()
    wanted = np.stack([*eights, sums, sums - x, np.arange(96) % 16 // 4], 1)
    np.testing.assert_array_equal(_run(rig, "tile_reductions", 9, x), wanted)


def test_values_wider_than_a_register(rig: Rig) -> None:
    x = np.random.default_rng(6).standard_normal(64)
    out = _run(rig, "wide_values", 3, x)
    warps = x.reshape(2, 32)
    np.testing.assert_allclose(out[:, 0], np.repeat(warps.sum(1), 32), atol=32 * 8 * 2**-53)
    np.testing.assert_array_equal(out[:, 1], np.repeat(warps[:, 31], 32))
    np.testing.assert_array_equal(out[:, 2], -out[:, 1])


def test_partitions_of_a_warp(rig: Rig) -> None:
    x = _small(64)
    wanted = np.zeros((64, 6), np.int64)
    for t in range(64):
        warp = np.arange(t // 32 * 32, t // 32 * 32 + 32)
        half = warp[warp // 16 == t // 16]
        part = half[x[half] % 2 == x[t] % 2]
        same = warp[x[warp] == x[t]]
        wanted[t] = [
            len(part), (part < t).sum(), x[part].sum(),
            len(same), (same < t).sum(), x[t] + (1 << len(same)) - 1,
        ]  # fmt: skip
    np.testing.assert_array_equal(_run(rig, "partitions", 6, x), wanted.astype(np.int32))


@pytest.mark.parametrize("n", [1, 33, 1000])
def test_coalesced_threads_take_their_places(rig: Rig, n: int) -> None:
    # Which lanes run together is the device's choice; that each gets a place of its own is not.
    x = _small(n) % 2
    count, places = rig.put(np.zeros(1, np.int32)), rig.empty(n, np.int32)
    kernel = rig.library.kernel(KERNELS, "aggregated_places")
    kernel(rig.stream, -(-n // 64), 64, count, places, rig.put(x), n)
    got = rig.get(places)
    assert rig.get(count)[0] == x.sum()
    np.testing.assert_array_equal(np.sort(got[x == 1]), np.arange(x.sum()))
