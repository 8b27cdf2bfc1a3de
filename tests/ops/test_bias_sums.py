from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import BiasSums
from lowgraph.precision import Precision
from tests.hostdev.narrow_floats import BFLOAT16
from tests.ops.compare import ROUNDOFF, Array, assert_close, assert_same_bits, normal, output
from tests.support.rig import Rig

pytestmark = pytest.mark.both

# rows, and the columns of the two matrices: one, none, below and past a block's 64 columns and a
# chunk's 128 rows; 9000 rows have 282 a chunk.
SIZES = [(1, 1, 1), (31, 33, 0), (129, 0, 257), (257, 64, 31), (9000, 8, 68)]


def run(
    rig: Rig, precision: Precision, rows: int, channels: int, more: int
) -> tuple[Array, Array, list[Array]]:
    """What is found, what of the workspace is left, and the matrices in float64."""
    drawn = [normal(seed, rows, columns) for seed, columns in enumerate((channels, more))]
    if precision is Precision.BF16:
        stored = [BFLOAT16.bits(matrix) for matrix in drawn]
        exact = [BFLOAT16.wide(bits) for bits in stored]
    else:
        stored, exact = drawn, [matrix.astype(np.float64) for matrix in drawn]
    columns, layer = channels + more, BiasSums(rig.library, precision)
    chunks = BiasSums.chunks(rows).chunks
    wide, partial = output(rig, chunks, columns + 3), output(rig, chunks, columns)
    dy, dz = (rig.put(matrix) for matrix in stored)
    layer.pair(rig.stream, wide, dy, channels, dz, more, rows, columns + 3)
    layer.pair(rig.stream, partial, dy, channels, dz, more, rows, columns)
    places = np.random.default_rng(3).permutation(columns + 2)[:columns].astype(np.int32)
    gradients = output(rig, columns + 2)
    layer.finish(rig.stream, gradients, partial, rig.put(places), rows, columns)
    found = gradients.get()
    assert np.isnan(np.delete(found, places)).all(), "a place of nobody was written"
    assert_same_bits(wide.get()[:, :columns].copy(), partial.get())
    return found[places], wide.get()[:, columns:], exact


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sums(rig: Rig, size: tuple[int, int, int], precision: Precision) -> None:
    found, beside, exact = run(rig, precision, *size)
    want = np.concatenate([matrix.sum(axis=0) for matrix in exact])
    most = max(np.abs(matrix).sum(axis=0).max() for matrix in exact if matrix.size)
    # Eighteen rows of a thread, sixteen threads, eight chunks of a thread and four of those, each
    # rounding a sum that stays below that of |dy|.
    assert_close(found, want, 46 * ROUNDOFF * most / np.abs(want).max(), "sums")
    assert np.isnan(beside).all(), "another layer's columns were written"
    assert_same_bits(found, run(rig, precision, *size)[0])


def test_no_rows_are_no_gradient(rig: Rig) -> None:
    found, _, _ = run(rig, Precision.FP32, 0, 5, 6)
    assert not found.any()


def test_sizes_that_do_not_fit_are_refused(rig: Rig) -> None:
    layer = BiasSums(rig.library)
    with pytest.raises(ConfigError, match=r"BiasSums: stride must be 7 to \d+, got 6"):
        layer.pair(rig.stream, 0, 0, 3, 0, 4, 5, 6)
    with pytest.raises(ConfigError, match="BiasSums: rows must be 0 to"):
        layer.finish(rig.stream, 0, 0, 0, -1, 4)
