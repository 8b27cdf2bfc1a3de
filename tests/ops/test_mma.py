"""The parts of kernels_cu/common/mma.cuh, lane by lane: on a GPU this is the test of the twins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.hostdev.narrow_floats import BFLOAT16
from tests.ops.compare import Array
from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "mma.cu"
G, T = np.arange(32) // 4, np.arange(32) % 4  # of each lane


def a_registers(a: Array) -> Array:
    """Lay a [16,16] out as the PTX manual draws the A fragment: [32 lanes, 4 registers]."""
    return np.stack([pairs(a[G + r % 2 * 8], 2 * T + r // 2 * 8) for r in range(4)], axis=1)


def b_registers(b: Array) -> Array:
    """Lay b [16,8] out as the B fragment: [32 lanes, 2 registers]."""
    return np.stack([pairs(b.T[G], 2 * T + r * 8) for r in range(2)], axis=1)


def d_registers(d: Array) -> Array:
    """Lay d [16,8] out as the D fragment: [32 lanes, 4 registers]."""
    return np.stack([d[G + r // 2 * 8, 2 * T + r % 2] for r in range(4)], axis=1)


def pairs(rows: Array, columns: Array) -> Array:
    """Pack two neighbours of each row of bits, the first in the low half."""
    lanes = np.arange(len(rows))
    low, high = rows[lanes, columns], rows[lanes, columns + 1]
    return low.astype(np.uint32) | high.astype(np.uint32) << 16


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("exact", [True, False])
def test_product_of_fragments(rig: Rig, exact: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    draw = (lambda *s: rng.integers(-8, 9, s)) if exact else (lambda *s: rng.standard_normal(s))
    a, b = BFLOAT16.bits(draw(16, 16)), BFLOAT16.bits(draw(16, 8))
    c = draw(16, 8).astype(np.float32)
    y = rig.empty((32, 4))

    kernel = rig.library.kernel(KERNELS, "fragment_product")
    kernel(rig.stream, 1, 32, y, *map(rig.put, (a_registers(a), b_registers(b), d_registers(c))))

    left, right = BFLOAT16.wide(a), BFLOAT16.wide(b)
    # Whole numbers are summed exactly in any order. Else: tensor cores cut a sum's low bits off, a
    # unit of the largest term and not half of one, at each of 16 additions.
    bound = 0 if exact else 16 * 2.0**-22 * (np.abs(left) @ np.abs(right) + np.abs(c)).max()
    np.testing.assert_allclose(rig.get(y), d_registers(left @ right + c), rtol=0, atol=bound)


def rounded_tf32(x: Array) -> Array:
    """Round float32 to 10 bits of fraction, to nearest, ties away from zero."""
    step = np.ldexp(np.float64(1), np.frexp(x)[1] - 11)
    return np.copysign(np.floor(np.abs(x) / step + 0.5) * step, x)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("exact", [True, False])
def test_product_of_tf32_fragments(rig: Rig, exact: bool, seed: int) -> None:
    """Two warps, each a product of its own."""
    rng = np.random.default_rng(seed)
    draw = (lambda *s: rng.integers(-8, 9, s)) if exact else (lambda *s: rng.standard_normal(s))
    a, b, c = (draw(2, *s).astype(np.float32) for s in ((16, 8), (8, 8), (16, 8)))
    left = np.stack([a[:, G + r % 2 * 8, T + r // 2 * 4] for r in range(4)], axis=2)
    right = np.stack([b[:, T + r * 4, G] for r in range(2)], axis=2)
    sums = np.concatenate([d_registers(part) for part in c])
    y = rig.empty((64, 4))

    kernel = rig.library.kernel(KERNELS, "fragment_product_tf32")
    kernel(rig.stream, 1, 64, y, *map(rig.put, (left, right, sums)))

    left, right = (rounded_tf32(x.astype(np.float64)) for x in (a, b))
    bound = 0 if exact else 8 * 2.0**-22 * (np.abs(left) @ np.abs(right) + np.abs(c)).max()
    want = np.concatenate([d_registers(part) for part in left @ right + c])
    np.testing.assert_allclose(rig.get(y), want, rtol=0, atol=bound)


@pytest.mark.parametrize("seed", [0, 1])
def test_matrices_of_shared_memory(rig: Rig, seed: int) -> None:
    """Rows anywhere at a multiple of 16 bytes, of which lane l names row l % 8 of matrix l / 8."""
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 1 << 16, 1024).astype(np.uint16)
    rows = (8 * rng.permutation(128)[:32]).astype(np.int32)
    plain, turned = rig.empty((32, 4), np.uint32), rig.empty((32, 4), np.uint32)

    kernel = rig.library.kernel(KERNELS, "fragments_of_memory")
    kernel(rig.stream, 1, 32, plain, turned, rig.put(memory), rig.put(rows))

    matrices = memory[rows.reshape(4, 8, 1) + np.arange(8)]
    want = np.stack([pairs(m[G], 2 * T) for m in matrices], axis=1)
    np.testing.assert_array_equal(rig.get(plain), want)
    want = np.stack([pairs(m.T[G], 2 * T) for m in matrices], axis=1)
    np.testing.assert_array_equal(rig.get(turned), want)


def test_quads_of_two_tiles(rig: Rig) -> None:
    tiles = np.random.default_rng(0).normal(size=(2, 8, 8)).astype(np.float32)
    own = np.stack([tiles[i // 2, G, 2 * T + i % 2] for i in range(4)], axis=1)
    quads, packed = rig.empty((32, 4)), rig.empty((32, 2), np.uint32)

    kernel = rig.library.kernel(KERNELS, "quads_of_fragments")
    kernel(rig.stream, 1, 32, quads, packed, rig.put(own))

    rows = tiles.transpose(1, 0, 2).reshape(8, 4, 4)  # of each row, the quads of both tiles
    want = rows[G, T % 2 * 2 + T // 2]
    np.testing.assert_array_equal(rig.get(quads), want)
    bits = BFLOAT16.bits(want).astype(np.uint32)
    np.testing.assert_array_equal(rig.get(packed), bits[:, ::2] | bits[:, 1::2] << 16)


@pytest.mark.parametrize("tiles", [1, 2, 3, 33])
def test_copies_under_way(rig: Rig, tiles: int) -> None:
    rng = np.random.default_rng(tiles)
    x = rng.integers(1, 1 << 32, (tiles, 128, 4)).astype(np.uint32)
    w = rng.normal(size=(tiles, 128)).astype(np.float32)
    exists = rng.integers(0, 2, (tiles, 128)).astype(np.int32)
    y, z = rig.empty(x.shape, np.uint32), rig.empty(w.shape)

    kernel = rig.library.kernel(KERNELS, "streamed_backwards")
    kernel(rig.stream, 1, 128, y.address, z, rig.put(x).address, *map(rig.put, (w, exists)), tiles)

    np.testing.assert_array_equal(rig.get(y), (x * exists[..., None].astype(np.uint32))[:, ::-1])
    np.testing.assert_array_equal(rig.get(z), (w * exists)[:, ::-1])


def test_powers_and_pairs(rig: Rig) -> None:
    rng = np.random.default_rng(0)
    special = [0.0, 1.0, -1.0, 0.5, -125.99, -126.5, -150.0, -3.0e38, -np.inf, 127.9]
    x = np.concatenate([special, rng.uniform(-120, 120, 500), rng.normal(size=500)])
    x = x.astype(np.float32)
    y = rng.permutation(x)
    powers, low, high = (rig.empty(len(x)) for _ in range(3))
    packed = rig.empty(len(x), np.uint32)

    kernel = rig.library.kernel(KERNELS, "numbers")
    grid = -(-len(x) // 64)
    kernel(rig.stream, grid, 64, powers, packed, low, high, rig.put(x), rig.put(y), len(x))

    want = np.exp2(x.astype(np.float64))
    want[want < 2.0**-126] = 0
    # The PTX manual: 2 units in the last place, and results below the least normal number are 0.
    np.testing.assert_allclose(rig.get(powers), want, rtol=2 * 2.0**-23)
    halves = np.stack([BFLOAT16.bits(x), BFLOAT16.bits(y)], axis=1)
    np.testing.assert_array_equal(rig.get(packed), pairs(halves, np.zeros(len(x), int)))
    np.testing.assert_array_equal(rig.get(low), BFLOAT16.wide(halves[:, 0]))
    np.testing.assert_array_equal(rig.get(high), BFLOAT16.wide(halves[:, 1]))
