"""Scenarios of the kernels that go through elements one by one."""

from __future__ import annotations

import numpy as np

from lowgraph.ops.shapes import ceil_div, quads, row_chunks
from lowgraph.precision import bfloat16_values
from tests.check.bugs.bench import Bench, Check
from tests.check.bugs.registry import close, scenario
from tests.ops import twins
from tests.ops.compare import normal, wide
from tests.ops.rounding import to_bfloat16

COUNT = 1157  # 3 blocks of 512, one element in the last quad
ROWS, COLUMNS = 33, 33


def _fill(bench: Bench, count: int) -> list[Check]:
    out = bench.empty(count, name="out")
    bench.kernel("fill.cu", "fill")(bench.stream, ceil_div(count, 512), 128, out, 0.5, count)
    return close(bench, out=(out, np.full(count, 0.5)))


@scenario
def fill(bench: Bench, fault: str) -> list[Check]:
    return _fill(bench, COUNT)


@scenario
def fill_whole_quads(bench: Bench, fault: str) -> list[Check]:
    """As many elements as whole quads, fewer than the threads."""
    return _fill(bench, COUNT - 1)


@scenario
def cast(bench: Bench, fault: str) -> list[Check]:
    values, out = normal(0, COUNT), bench.empty(COUNT, np.uint16, "out")
    kernel = bench.kernel("cast.cu", "cast", act_t="__nv_bfloat16")
    kernel(bench.stream, ceil_div(COUNT, 512), 128, out, bench.put(values, "in"), COUNT)
    return [Check("out", bfloat16_values(bench.get(out)), to_bfloat16(values))]


@scenario
def residual_add(bench: Bench, fault: str) -> list[Check]:
    """Faults: b is freed before; b is freed and its memory handed out again; b is NumPy's."""
    a, b, other = normal(0, COUNT), normal(1, COUNT), normal(2, COUNT)
    out, device_a, device_b = bench.empty(COUNT, name="out"), bench.put(a, "a"), bench.put(b, "b")
    pointer = b.ctypes.data if fault == "host array" else device_b.address
    if fault in ("freed", "handed out again"):
        bench.drop(device_b)
    if fault == "handed out again":
        bench.put(other, "another tensor")
    kernel = bench.kernel("residual.cu", "residual_add")
    kernel(bench.stream, ceil_div(COUNT, 512), 128, out, device_a, pointer, COUNT)
    return close(bench, out=(out, a.astype(np.float64) + b))


@scenario
def relu_backward(bench: Bench, fault: str) -> list[Check]:
    dy, y = normal(0, ROWS, COLUMNS), np.maximum(normal(1, ROWS, COLUMNS), 0)
    dx, dbias = bench.put(dy, "dy"), bench.empty(COLUMNS, name="dbias")
    kernel = bench.kernel("relu.cu", "bias_relu_backward")
    kernel(bench.stream, ceil_div(COLUMNS, 32), 128, dx, dbias, bench.put(y, "y"), ROWS, COLUMNS)
    want = np.where(y > 0, dy, 0).astype(np.float64)
    return close(bench, dx=(dx, want), dbias=(dbias, want.sum(axis=0)))


@scenario
def residual_bias_add(bench: Bench, fault: str) -> list[Check]:
    x, residual, bias = normal(0, ROWS, COLUMNS), normal(1, ROWS, COLUMNS), normal(2, COLUMNS)
    out = bench.empty((ROWS, COLUMNS), name="out")
    inputs = [bench.put(residual, "residual"), bench.put(x, "x"), bench.put(bias, "bias")]
    grid = ceil_div(ROWS * quads(COLUMNS), 128)
    kernel = bench.kernel("residual.cu", "residual_bias_add")
    kernel(bench.stream, grid, 128, out, *inputs, ROWS, COLUMNS)
    return close(bench, out=(out, residual.astype(np.float64) + x + bias))


@scenario
def bias_add(bench: Bench, fault: str) -> list[Check]:
    y, bias = normal(0, ROWS, COLUMNS), normal(1, COLUMNS)
    device_y = bench.put(y, "y")
    grid = ceil_div(ROWS * quads(COLUMNS), 128)
    kernel = bench.kernel("bias.cu", "bias_add")
    kernel(bench.stream, grid, 128, device_y, bench.put(bias, "bias"), ROWS, COLUMNS)
    return close(bench, y=(device_y, y.astype(np.float64) + bias))


@scenario
def column_sum(bench: Bench, fault: str) -> list[Check]:
    """Fault: the number of chunks is rounded down for the partial sums' launch."""
    rows, columns = 70, 261
    dy = normal(0, rows, columns)
    chunks, chunk_rows = row_chunks(rows)
    partial, dbias = bench.empty((chunks, columns), name="partial"), bench.empty(columns, name="db")
    launched = rows // chunk_rows if fault == "rounded down" else chunks
    bench.kernel("bias.cu", "column_sum_partial")(
        bench.stream, (ceil_div(columns, 256), launched), 64,
        partial, bench.put(dy, "dy"), rows, columns, chunk_rows,
    )  # fmt: skip
    final = bench.kernel("bias.cu", "column_sum_final")
    final(bench.stream, ceil_div(columns, 64), 64, dbias, partial, chunks, columns, 0)
    return close(bench, dbias=(dbias, dy.astype(np.float64).sum(axis=0)))


@scenario
def bias_gelu(bench: Bench, fault: str) -> list[Check]:
    pre, bias = normal(0, ROWS, COLUMNS), normal(1, COLUMNS)
    activation, device_pre = bench.empty((ROWS, COLUMNS), name="activation"), bench.put(pre, "pre")
    kernel = bench.kernel("gelu.cu", "bias_gelu_forward")
    grid = ceil_div(ROWS * quads(COLUMNS), 128)
    kernel(bench.stream, grid, 128, activation, device_pre, bench.put(bias, "b"), ROWS, COLUMNS)
    want = pre.astype(np.float64) + bias
    return close(bench, pre=(device_pre, want), activation=(activation, twins.gelu_forward(want)))


@scenario
def gelu_backward_graph(bench: Bench, fault: str) -> list[Check]:
    """A recorded step, replayed. Fault: what it reads was freed in between."""
    dy, x = normal(0, COUNT), normal(1, COUNT)
    dx, device_dy, pre = bench.empty(COUNT, name="dx"), bench.put(dy, "dy"), bench.put(x, "pre")
    kernel, grid = bench.kernel("gelu.cu", "gelu_backward"), ceil_div(COUNT, 512)
    step = bench.record(lambda: kernel(bench.stream, grid, 128, dx, device_dy, pre, COUNT))
    bench.replay(step)
    bench.sync()
    if fault == "freed before a replay":
        bench.drop(pre)
    bench.replay(step)
    return close(bench, dx=(dx, twins.gelu_backward(*wide(dy, x))))


def _copy(bench: Bench, first: int, in_place: bool = False) -> list[Check]:
    """Copies `count` bytes from byte `first` on; in place: to the begin of the same buffer."""
    count = 4133
    data = np.random.default_rng(0).integers(0, 256, count + 16, np.uint8)
    source = bench.put(data, "in")
    out = source if in_place else bench.empty(count, np.uint8, "out")
    kernel = bench.kernel("copy.cu", "copy_bytes")
    kernel(bench.stream, ceil_div(count, 2048), 128, out, source.address + first, count)
    return [Check("out", bench.get(out)[:count], data[first : first + count])]


@scenario
def copy_bytes(bench: Bench, fault: str) -> list[Check]:
    """Fault: moves a buffer's content to its begin, where in and out overlap."""
    return _copy(bench, 16, fault == "overlaps")


@scenario
def copy_bytes_unaligned(bench: Bench, fault: str) -> list[Check]:
    """From a place that is no multiple of 16 bytes, which the kernel allows."""
    return _copy(bench, 4)


@scenario
def dropout(bench: Bench, fault: str) -> list[Check]:
    """Forward, backward and the advance. Fault: the advance is launched with a warp of threads."""
    x, seed, offset = normal(0, COUNT), 2**33 + 1, 70
    state = bench.put(np.array([seed, offset], np.uint64), "random")
    saved = bench.empty(2, np.uint64, "saved")
    y, dx = bench.empty(COUNT, name="y"), bench.empty(COUNT, name="dx")
    grid, device_x, threshold = ceil_div(COUNT, 512), bench.put(x, "x"), 2**31
    bench.kernel("dropout.cu", "dropout_forward")(
        bench.stream, grid, 128, y, saved, device_x, state, 3, threshold, 2.0, COUNT
    )
    bench.kernel("dropout.cu", "dropout_backward")(
        bench.stream, grid, 128, dx, device_x, saved, threshold, 2.0, COUNT
    )
    threads = 32 if fault == "a warp of threads" else 1
    bench.kernel("dropout.cu", "random_advance")(bench.stream, 1, threads, state, quads(COUNT))
    words = [twins.philox((offset + 3 + i, 0, 0, 1), (seed & 0xFFFFFFFF, seed >> 32))
             for i in range(quads(COUNT))]  # fmt: skip
    want = np.where(np.array(words).reshape(-1)[:COUNT] >= threshold, 2.0 * x.astype(np.float64), 0)
    after = np.array([seed, offset + quads(COUNT)], np.uint64)
    return [*close(bench, y=(y, want), dx=(dx, want)), Check("state", bench.get(state), after)]
