"""Shared memory, static and dynamic, and the votes of barriers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "shared_memory.cu"


@pytest.mark.parametrize("shape", [(1, 1), (31, 33), (257, 65)])
def test_two_dimensional_tile(rig: Rig, shape: tuple[int, int]) -> None:
    rows, columns = shape
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    y = rig.empty((columns, rows))
    grid = (-(-columns // 32), -(-rows // 32), 1)
    rig.library.kernel(KERNELS, "transpose_tile")(
        rig.stream, grid, (32, 8, 1), y, rig.put(x), rows, columns
    )
    np.testing.assert_array_equal(rig.get(y), x.T)


@pytest.mark.parametrize("n", [1, 31, 128, 300])
def test_array_of_structs(rig: Rig, n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    cell = np.arange(n, dtype=np.int32)
    buffers = [rig.put(values) for values in (x, y, cell)]
    rig.library.kernel(KERNELS, "reverse_particles")(rig.stream, -(-n // 128), 128, *buffers, n)
    for buffer, values in zip(buffers, (x, y, cell), strict=True):
        blocks = [values[start : start + 128][::-1] for start in range(0, n, 128)]
        np.testing.assert_array_equal(rig.get(buffer), np.concatenate(blocks))


def test_each_instance_of_a_template_has_its_own_array(rig: Rig) -> None:
    x = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32)
    sums = rig.empty((2, 3), np.float64)
    rig.library.kernel(KERNELS, "template_sums")(rig.stream, 2, 64, sums, rig.put(x))
    wide = x.astype(np.float64)
    wanted = np.stack([wide.sum(1), (wide**2).sum(1), (x > 0).sum(1)], 1)
    # 64 float additions in a tree of depth 6: 6 half units in the last place of about 20
    np.testing.assert_allclose(rig.get(sums)[:, 0], wanted[:, 0], atol=6 * 20 * 2**-24)
    np.testing.assert_allclose(rig.get(sums)[:, 1:], wanted[:, 1:], rtol=1e-14)


@pytest.mark.parametrize("threads", [1, 31, 33, 257])
def test_arrays_cut_from_one_dynamic_buffer(rig: Rig, threads: int) -> None:
    n, blocks = 3 * threads + 1, 2
    x = np.random.default_rng(2).standard_normal(n).astype(np.float32)
    out = rig.empty((blocks, threads, 3), np.float64)
    rig.library.kernel(KERNELS, "carved")(
        rig.stream, blocks, threads, out, rig.put(x), n, shared=13 * threads
    )
    total, count = np.zeros((2, blocks * threads))
    np.add.at(total, np.arange(n) % total.size, x.astype(np.float64))
    np.add.at(count, np.arange(n) % total.size, 1)
    wanted = np.stack([total, count, count % 2], 1).reshape(blocks, threads, 3)[:, ::-1]
    np.testing.assert_allclose(rig.get(out), wanted, rtol=1e-15)


@pytest.mark.parametrize("case", ["mixed", "all", "none"])
@pytest.mark.parametrize("n", [1, 33, 257])
def test_votes_of_barriers(rig: Rig, n: int, case: str) -> None:
    mixed = np.random.default_rng(n).integers(0, 3, n)
    x = {"mixed": mixed, "all": np.full(n, 7), "none": np.zeros(n)}[case].astype(np.int32)
    threads = -(-n // 32) * 32
    out = rig.empty((threads, 3), np.int32)
    rig.library.kernel(KERNELS, "votes_of_block")(rig.stream, 1, threads, out, rig.put(x), n)
    wanted = np.full((threads, 3), -1)
    wanted[:n] = ((x != 0).sum(), (x != 0).all(), (x != 0).any())
    np.testing.assert_array_equal(rig.get(out), wanted)
