"""Scenarios of the small kernels of this folder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowgraph.ops.shapes import ceil_div
from tests.check.bugs.bench import Array, Bench, Buffer, Check
from tests.check.bugs.registry import close, scenario
from tests.ops.compare import normal

N = 283  # three blocks of 128, five of 64; 27 elements in the last warp


def _zero(bench: Bench, count: int, dtype: type, name: str) -> Buffer:
    return bench.put(np.zeros(count, dtype), name)


def _padded(x: Array, width: int) -> Array:
    """x in float64, in rows of `width`, zeros behind its end."""
    rows = np.zeros(ceil_div(len(x), width) * width)
    rows[: len(x)] = x
    return rows.reshape(-1, width)


@scenario
def block_sum(bench: Bench, fault: str) -> list[Check]:
    x, out = normal(0, N), bench.empty(ceil_div(N, 128), name="out")
    kernel = bench.kernel("reduce.cu", "block_sum")
    kernel(bench.stream, ceil_div(N, 128), 128, out, bench.put(x, "x"), N)
    return close(bench, out=(out, _padded(x, 128).sum(axis=1)))


@scenario
def row_stats(bench: Bench, fault: str) -> list[Check]:
    rows, columns = 3, 257
    x = normal(0, rows, columns)
    mean, variance = bench.empty(rows, name="mean"), bench.empty(rows, name="variance")
    kernel = bench.kernel("reduce.cu", "row_stats")
    kernel(bench.stream, rows, 128, mean, variance, bench.put(x, "x"), columns)
    exact = x.astype(np.float64)
    return close(bench, mean=(mean, exact.mean(axis=1)), variance=(variance, exact.var(axis=1)))


@scenario
def warp_sum(bench: Bench, fault: str) -> list[Check]:
    """Fault: blocks of 112 threads, whose last warp is half a warp."""
    threads = 112 if fault == "half a warp" else 128
    x, out = normal(0, N), bench.empty((ceil_div(N, threads), 4), name="out")
    kernel = bench.kernel("reduce.cu", "warp_sum")
    kernel(bench.stream, ceil_div(N, threads), threads, out, bench.put(x, "x"), N)
    blocks = np.pad(_padded(x, threads), ((0, 0), (0, 128 - threads)))
    return close(bench, out=(out, blocks.reshape(-1, 4, 32).sum(axis=2)))


@scenario
def from_first(bench: Bench, fault: str) -> list[Check]:
    x, out = normal(0, N), bench.empty(N, name="out")
    kernel = bench.kernel("reduce.cu", "from_first")
    kernel(bench.stream, ceil_div(N, 128), 128, out, bench.put(x, "x"), N)
    first = np.repeat(_padded(x, 32)[:, :1], 32, axis=1).reshape(-1)[:N]
    return close(bench, out=(out, x - first))


@scenario
def sum_all(bench: Bench, fault: str) -> list[Check]:
    x, total = normal(0, N), _zero(bench, 1, np.float32, "total")
    kernel = bench.kernel("reduce.cu", "sum_all")
    kernel(bench.stream, ceil_div(N, 64), 64, total, bench.put(x, "x"), N)
    return close(bench, total=(total, x.astype(np.float64).sum(keepdims=True)))


@scenario
def last_block_sum(bench: Bench, fault: str) -> list[Check]:
    x, blocks = normal(0, N), ceil_div(N, 64)
    out, partial = bench.empty(1, name="out"), bench.empty(blocks, name="partial")
    ticket, kernel = _zero(bench, 1, np.uint32, "t"), bench.kernel("reduce.cu", "last_block_sum")
    kernel(bench.stream, blocks, 64, out, partial, ticket, bench.put(x, "x"), N)
    return close(bench, out=(out, x.astype(np.float64).sum(keepdims=True)))


@scenario
def locked_sum(bench: Bench, fault: str) -> list[Check]:
    x, total = normal(0, N), _zero(bench, 1, np.float64, "total")
    kernel, lock = bench.kernel("reduce.cu", "locked_sum"), _zero(bench, 1, np.uint32, "lock")
    kernel(bench.stream, ceil_div(N, 64), 64, total, lock, bench.put(x, "x"), N)
    return close(bench, total=(total, x.astype(np.float64).sum(keepdims=True)))


@scenario
def scatter_add(bench: Bench, fault: str) -> list[Check]:
    count, columns, rows = 33, 13, 5
    x, index = normal(0, count, columns), np.random.default_rng(0).integers(0, rows, count)
    table = _zero(bench, rows * columns, np.float32, "table")
    inputs = [bench.put(index.astype(np.int32), "index"), bench.put(x, "x")]
    kernel = bench.kernel("scatter.cu", "scatter_add")
    kernel(bench.stream, ceil_div(count * columns, 128), 128, table, *inputs, count, columns)
    want = np.zeros((rows, columns))
    np.add.at(want, index, x)
    return close(bench, table=(table, want.reshape(-1)))


@scenario
def histogram(bench: Bench, fault: str) -> list[Check]:
    values = np.random.default_rng(0).integers(0, 7, N).astype(np.uint8)
    counts = _zero(bench, 7, np.int32, "counts")
    kernel = bench.kernel("scatter.cu", "histogram")
    kernel(bench.stream, ceil_div(N, 128), 128, counts, bench.put(values, "values"), N)
    return [Check("counts", bench.get(counts), np.bincount(values, minlength=7))]


@scenario
def gather_rows(bench: Bench, fault: str) -> list[Check]:
    """Faults: a row was freed after the table was made; the table is NumPy's, or a row is."""
    columns, rows = 67, [normal(seed, 67) for seed in range(3)]
    buffers = [bench.put(row, f"row {i}") for i, row in enumerate(rows)]
    addresses = np.array([buffer.address for buffer in buffers], np.uint64)
    if fault == "row in host memory":
        addresses[1] = rows[1].ctypes.data
    table = bench.put(addresses, "table").address
    if fault == "row freed":
        bench.drop(buffers[1])
    if fault == "table in host memory":
        table = addresses.ctypes.data
    out = bench.empty((3, columns), name="out")
    kernel = bench.kernel("scatter.cu", "gather_rows")
    kernel(bench.stream, (ceil_div(columns, 64), 3), 64, out, table, columns)
    return close(bench, out=(out, np.array(rows, np.float64)))


@scenario
def hash_insert(bench: Bench, fault: str) -> list[Check]:
    """Fault: a table with fewer places than there are values."""
    values = np.random.default_rng(0).integers(0, 60, N).astype(np.int32)
    distinct = np.unique(values)
    capacity = len(distinct) - 1 if fault == "table too small" else 127
    keys = bench.put(np.full(capacity, -1, np.int32), "keys")
    kernel = bench.kernel("scatter.cu", "hash_insert")
    kernel(bench.stream, ceil_div(N, 64), 64, keys, bench.put(values, "values"), N, capacity)
    found = np.sort(bench.get(keys))
    return [Check("keys", found[found >= 0], distinct)]


@scenario
def half_axpy(bench: Bench, fault: str) -> list[Check]:
    """Fault: x is handed over from its second element on, 2 bytes off."""
    x, y = normal(0, N + 1).astype(np.float16), normal(1, N).astype(np.float16)
    device_x, device_y = bench.put(x, "x"), bench.put(y, "y")
    first = 1 if fault == "from the second element" else 0
    kernel, at = bench.kernel("vectors.cu", "half_axpy"), device_x.address + 2 * first
    kernel(bench.stream, ceil_div(N, 128), 64, device_y, at, 0.5, N)
    want = 0.5 * x[first : first + N].astype(np.float64) + y
    return [Check("y", bench.get(device_y), want, 2.0**-10)]  # rounded to half once


@scenario
def half_axpy_exact(bench: Bench, fault: str) -> list[Check]:
    """x and y of exactly the odd length."""
    x, y = normal(0, N).astype(np.float16), normal(1, N).astype(np.float16)
    device_x, device_y = bench.put(x, "x"), bench.put(y, "y")
    kernel = bench.kernel("vectors.cu", "half_axpy")
    kernel(bench.stream, ceil_div(N, 128), 64, device_y, device_x, 0.5, N)
    return [Check("y", bench.get(device_y), 0.5 * x.astype(np.float64) + y, 2.0**-10)]


@scenario
def pair_length(bench: Bench, fault: str) -> list[Check]:
    """Fault: the pairs begin at the second float of an array, 4 bytes off."""
    data, out = normal(0, 2 * N + 1), bench.empty(N, name="out")
    first = 1 if fault == "begins at the second float" else 0
    kernel, buffer = bench.kernel("vectors.cu", "pair_length"), bench.put(data, "xy")
    kernel(bench.stream, ceil_div(N, 64), 64, out, buffer.address + 4 * first, N)
    pairs = data[first : first + 2 * N].astype(np.float64).reshape(N, 2)
    return close(bench, out=(out, np.hypot(pairs[:, 0], pairs[:, 1])))


@scenario
def smooth(bench: Bench, fault: str) -> list[Check]:
    x, y = normal(0, N), bench.empty(N, name="y")
    kernel = bench.kernel("vectors.cu", "smooth")
    kernel(bench.stream, ceil_div(N, 64), 64, y, bench.put(x, "x"), N)
    wide = np.pad(x.astype(np.float64), 1, mode="edge")
    return close(bench, y=(y, (wide[:-2] + wide[1:-1] + wide[2:]) / 3))


@scenario
def window_sum(bench: Bench, fault: str) -> list[Check]:
    """Fault: dynamic shared memory for the block's elements, none for the two neighbours."""
    x, y = normal(0, N), bench.empty(N, name="y")
    kernel, places = bench.kernel("vectors.cu", "window_sum"), 66
    if fault == "no room for the neighbours":
        places = 64
    kernel(bench.stream, ceil_div(N, 64), 64, y, bench.put(x, "x"), N, shared=4 * places)
    wide = np.pad(x.astype(np.float64), 1)
    return close(bench, y=(y, wide[:-2] + wide[1:-1] + wide[2:]))


@scenario
def transpose(bench: Bench, fault: str) -> list[Check]:
    """Fault: in place."""
    side = 41
    x = normal(0, side, side)
    source = bench.put(x, "in")
    out = replace(source) if fault == "in place" else bench.empty((side, side), name="out")
    kernel = bench.kernel("vectors.cu", "transpose")
    kernel(bench.stream, (2, 2), (32, 8), out, source, side, side)
    return [Check("out", bench.get(out), x.T.astype(np.float64))]
