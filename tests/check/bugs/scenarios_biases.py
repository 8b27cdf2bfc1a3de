"""Scenario of the bias gradients of several layers, which two kernels add up."""

from __future__ import annotations

import numpy as np

from lowgraph.ops import BiasSums
from tests.check.bugs.bench import Bench, Check
from tests.check.bugs.registry import CLOSE, scenario
from tests.check.bugs.sources import library
from tests.ops.compare import normal

ROWS = 257  # three chunks, the last of one row
PAIR, LAST = (68, 33), 5  # columns of three layers: whole quads over two blocks, and others
COLUMNS = sum(PAIR) + LAST  # two blocks of 64, the second not whole


@scenario
def bias_sums(bench: Bench, fault: str) -> list[Check]:
    """Two layers and one. Faults: the third is left out; its columns have the first one's places.

    Sums of 257 numbers in float32, of the largest element.
    """
    drawn = [normal(seed, ROWS, columns) for seed, columns in enumerate((*PAIR, LAST))]
    first, second, third = (bench.put(matrix) for matrix in drawn)
    places = np.random.default_rng(3).permutation(COLUMNS).astype(np.int32)
    if fault == "places given twice":
        places[-LAST:] = places[:LAST]
    layer, chunks = BiasSums(library(bench)), BiasSums.chunks(ROWS)
    partial = bench.empty((chunks.chunks, COLUMNS), name="partial")
    gradients = bench.empty(COLUMNS, name="gradients")
    layer.pair(bench.stream, partial, first, PAIR[0], second, PAIR[1], ROWS, COLUMNS)
    if fault != "a layer left out":
        behind = partial.address + 4 * sum(PAIR)
        layer.pair(bench.stream, behind, third, LAST, 0, 0, ROWS, COLUMNS)
    layer.finish(bench.stream, gradients, partial, bench.put(places, "places"), ROWS, COLUMNS)
    exact, want = np.hstack(drawn).astype(np.float64), np.zeros(COLUMNS)
    want[places] = exact.sum(axis=0)
    sums = np.add.reduceat(exact, np.arange(0, ROWS, chunks.rows))
    return [
        Check("partial", bench.get(partial), sums, CLOSE),
        Check("gradients", bench.get(gradients), want, CLOSE),
    ]
