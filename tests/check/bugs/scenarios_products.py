"""Scenarios of the matrix products."""

from __future__ import annotations

import numpy as np

from lowgraph.ops.shapes import ceil_div
from tests.check.bugs.bench import Bench, Check
from tests.check.bugs.registry import close, scenario
from tests.ops.compare import normal, wide

M, N, K = 70, 67, 130  # two tiles each way, three passes of 64 the last of which is short
GRID = (ceil_div(N, 64), ceil_div(M, 64))


@scenario
def gemm_nn(bench: Bench, fault: str) -> list[Check]:
    """Fault: adds to a result that nobody has written."""
    a, b, out = normal(0, M, K), normal(1, K, N), bench.empty((M, N), name="out")
    accumulate = int(fault == "added to nothing")
    inputs = [bench.put(a, "a"), bench.put(b, "b")]
    kernel = bench.kernel("gemm.cu", "gemm_nn")
    kernel(bench.stream, (*GRID, 1), 64, out, *inputs, M, N, K, K, accumulate)
    left, right = wide(a, b)
    return close(bench, out=(out, left @ right))


@scenario
def gemm_tn(bench: Bench, fault: str) -> list[Check]:
    a, b, out = normal(0, K, M), normal(1, K, N), bench.empty((M, N), name="out")
    inputs = [bench.put(a, "a"), bench.put(b, "b")]
    kernel = bench.kernel("gemm.cu", "gemm_tn")
    kernel(bench.stream, (*GRID, 1), 64, out, *inputs, M, N, K, K, 0)
    left, right = wide(a, b)
    return close(bench, out=(out, left.T @ right))


@scenario
def gemm_split(bench: Bench, fault: str) -> list[Check]:
    """Split-K. Fault: the workspace is given back before the second launch."""
    a, b, out = normal(0, M, K), normal(1, N, K), bench.empty((M, N), name="out")
    slabs = ceil_div(K, 64)
    partial = bench.empty((slabs, M, N), name="workspace")
    inputs = [bench.put(a, "a"), bench.put(b, "b")]
    gemm, reduce = bench.kernel("gemm.cu", "gemm_nt"), bench.kernel("gemm.cu", "gemm_reduce")
    gemm(bench.stream, (*GRID, slabs), 64, partial, *inputs, M, N, K, 64, 0)
    if fault == "workspace given back":
        bench.drop(partial)
    reduce(bench.stream, ceil_div(M * N, 512), 128, out, partial, M * N, slabs, 0)
    left, right = wide(a, b)
    return close(bench, out=(out, left @ right.T))


@scenario
def gemm_square(bench: Bench, fault: str) -> list[Check]:
    """Fault: the product overwrites its left factor."""
    a, b = normal(0, M, M), normal(1, M, M)
    left, right = bench.put(a, "a"), bench.put(b, "b")
    out = left if fault == "in place" else bench.empty((M, M), name="out")
    grid = (ceil_div(M, 64), ceil_div(M, 64), 1)
    bench.kernel("gemm.cu", "gemm_nn")(bench.stream, grid, 64, out, left, right, M, M, M, M, 0)
    return close(bench, out=(out, np.matmul(*wide(a, b))))
