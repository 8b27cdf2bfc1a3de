"""Scenarios of more than one stream, and of recorded graphs with branches."""

from __future__ import annotations

import numpy as np
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.ops.shapes import ceil_div
from tests.check.bugs.bench import Array, Bench, Buffer, Check
from tests.check.bugs.registry import close, scenario
from tests.ops import twins
from tests.ops.compare import normal, wide

COUNT = 1157
GRID = ceil_div(COUNT, 512)


def _branch(bench: Bench) -> tuple[Array, Array, list[Buffer]]:
    """(dy, x), and the buffers dy, x, gradient, sum of a gelu_backward and an addition."""
    dy, x = normal(0, COUNT), normal(1, COUNT)
    gradient, total = bench.empty(COUNT, name="gradient"), bench.empty(COUNT, name="sum")
    return dy, x, [bench.put(dy, "dy"), bench.put(x, "x"), gradient, total]


def _want(dy: Array, x: Array) -> Array:
    return dy.astype(np.float64) + twins.gelu_backward(*wide(dy, x))


@scenario
def graph_branches(bench: Bench, fault: str) -> list[Check]:
    """A branch makes the gradient, the main one adds it. Fault: joins only after the addition."""
    dy, x, (device_dy, device_x, gradient, total) = _branch(bench)
    gelu = bench.kernel("gelu.cu", "gelu_backward")
    add, side = bench.kernel("residual.cu", "residual_add"), bench.new_stream()

    def body() -> None:
        bench.order(side, bench.stream)
        gelu(side, GRID, 128, gradient, device_dy, device_x, COUNT)
        if fault != "joined late":
            bench.order(bench.stream, side)
        add(bench.stream, GRID, 128, total, device_dy, gradient, COUNT)
        bench.order(bench.stream, side)

    bench.replay(bench.record(body))
    return close(bench, sum=(total, _want(dy, x)))


@scenario
def stream_order(bench: Bench, fault: str) -> list[Check]:
    """The same without a graph. Faults: no event; an event recorded before the producer."""
    dy, x, (device_dy, device_x, gradient, total) = _branch(bench)
    gelu = bench.kernel("gelu.cu", "gelu_backward")
    add, side = bench.kernel("residual.cu", "residual_add"), bench.new_stream()
    early = bench.mark(side)
    gelu(side, GRID, 128, gradient, device_dy, device_x, COUNT)
    if fault == "event before the work":
        driver.stream.wait_event(bench.stream, early)
    elif fault != "no event":
        bench.order(bench.stream, side)
    add(bench.stream, GRID, 128, total, device_dy, gradient, COUNT)
    return close(bench, sum=(total, _want(dy, x)))


@scenario
def legacy_stream(bench: Bench, fault: str) -> list[Check]:
    """The producer is on the legacy stream. Fault: a non-blocking stream is taken to wait."""
    dy, x, (device_dy, device_x, gradient, total) = _branch(bench)
    gelu = bench.kernel("gelu.cu", "gelu_backward")
    add = bench.kernel("residual.cu", "residual_add")
    gelu(0, GRID, 128, gradient, device_dy, device_x, COUNT)
    if fault != "taken to wait":
        bench.order(bench.stream, 0)
    add(bench.stream, GRID, 128, total, device_dy, gradient, COUNT)
    return close(bench, sum=(total, _want(dy, x)))


@scenario
def next_batch(bench: Bench, fault: str) -> list[Check]:
    """The next input comes over a copy stream. Fault: into what the running kernel reads."""
    first, second = normal(0, COUNT), normal(1, COUNT)
    staging, _ = bench.pinned(COUNT, np.float32)
    staging[:] = second
    out = [bench.empty(COUNT, name=f"out {i}") for i in range(2)]
    x, bias = bench.put(first, "input"), bench.put(np.ones(COUNT, np.float32), "ones")
    add, copies = bench.kernel("residual.cu", "residual_add"), bench.new_stream()
    add(bench.stream, GRID, 128, out[0], x, bias, COUNT)
    if fault != "copied at once":
        bench.order(copies, bench.stream)
    driver.memory.copy_htod_async(x.address, staging.ctypes.data, x.nbytes, copies)
    bench.order(bench.stream, copies)
    add(bench.stream, GRID, 128, out[1], x, bias, COUNT)
    want = [array.astype(np.float64) + 1 for array in (first, second)]
    return close(bench, first=(out[0], want[0]), second=(out[1], want[1]))


@scenario
def fetch_loss(bench: Bench, fault: str) -> list[Check]:
    """The loss is copied to the host on a stream of its own. Fault: behind no event."""
    losses, loss = normal(0, 257, mean=1.0), bench.empty(1, name="loss")
    answer, _ = bench.pinned(1, np.float32)
    data, mean = bench.put(losses, "row_loss"), bench.kernel("cross_entropy.cu", "mean_loss")
    copies = bench.new_stream()
    mean(bench.stream, 1, 512, loss, data, 257)
    if fault != "no event":
        bench.order(copies, bench.stream)
    driver.memory.copy_dtoh_async(answer.ctypes.data, loss.address, 4, copies)
    bench.sync()
    return [Check("loss", answer.copy(), losses.astype(np.float64).mean(keepdims=True), 1e-6)]


M, N, K = 33, 35, 67


@scenario
def graph_zeroed(bench: Bench, fault: str) -> list[Check]:
    """A sum is set to zero, then added to. Fault: the two are branches of the graph."""
    a, b, out = normal(0, M, K), normal(1, K, N), bench.put(normal(2, M, N), "out")
    inputs = [bench.put(a, "a"), bench.put(b, "b")]
    gemm, side = bench.kernel("gemm.cu", "gemm_nn"), bench.new_stream()

    def body() -> None:
        bench.order(side, bench.stream)
        driver.memory.memset_d32_async(out.address, 0, M * N, side)
        if fault != "in a branch of its own":
            bench.order(bench.stream, side)
        gemm(bench.stream, (1, 1, 1), 64, out, *inputs, M, N, K, K, 1)
        bench.order(bench.stream, side)

    bench.replay(bench.record(body))
    left, right = wide(a, b)
    return close(bench, out=(out, left @ right))


@scenario
def graph_workspace(bench: Bench, fault: str) -> list[Check]:
    """Two split products in two branches. Fault: both use one workspace."""
    pairs = [(normal(i, M, K), normal(i + 5, N, K)) for i in range(2)]
    slabs = ceil_div(K, 64)
    spaces = [bench.empty((slabs, M, N), name=f"workspace {i}") for i in range(2)]
    if fault == "one workspace":
        spaces[1] = spaces[0]
    outs = [bench.empty((M, N), name=f"out {i}") for i in range(2)]
    inputs = [[bench.put(a), bench.put(b)] for a, b in pairs]
    gemm, reduce = bench.kernel("gemm.cu", "gemm_nt"), bench.kernel("gemm.cu", "gemm_reduce")
    side = bench.new_stream()

    def body() -> None:
        bench.order(side, bench.stream)
        for i, stream in enumerate((bench.stream, side)):
            gemm(stream, (1, 1, slabs), 64, spaces[i], *inputs[i], M, N, K, 64, 0)
            reduce(stream, ceil_div(M * N, 512), 128, outs[i], spaces[i], M * N, slabs, 0)
        bench.order(bench.stream, side)

    bench.replay(bench.record(body))
    want = [np.matmul(a.astype(np.float64), b.T.astype(np.float64)) for a, b in pairs]
    return close(bench, first=(outs[0], want[0]), second=(outs[1], want[1]))


@scenario
def two_replays(bench: Bench, fault: str) -> list[Check]:
    """Two graphs, the second reading what the first makes. Fault: on two streams, unordered."""
    dy, x, (device_dy, device_x, gradient, total) = _branch(bench)
    gelu = bench.kernel("gelu.cu", "gelu_backward")
    add, side = bench.kernel("residual.cu", "residual_add"), bench.new_stream()
    main = bench.stream
    make = bench.record(lambda: gelu(main, GRID, 128, gradient, device_dy, device_x, COUNT))
    use = bench.record(lambda: add(main, GRID, 128, total, device_dy, gradient, COUNT))
    bench.replay(make, side)
    if fault != "unordered":
        bench.order(main, side)
    bench.replay(use, main)
    return close(bench, sum=(total, _want(dy, x)))


@scenario
def condition(bench: Bench, fault: str) -> list[Check]:
    """An IF node behind the kernel that sets its condition; its body fills 33 bytes."""
    flag, out = bench.put(np.array([1], np.int32), "flag"), bench.put(np.zeros(33, np.uint8), "out")
    set_condition = bench.kernel("conditional.cu", "set_condition")

    def send() -> None:
        graph = driver.stream.capture_graph(bench.stream)
        assert graph is not None, "the bench records"
        handle = driver.conditional.create_handle(graph, 0)
        set_condition(bench.stream, 1, 1, handle, flag)
        node = driver.conditional.add_to_capture(bench.stream, handle, "if")
        fill = cu.CUDA_MEMSET_NODE_PARAMS()
        fill.dst, fill.value, fill.elementSize, fill.width, fill.height = out.address, 7, 1, 33, 1
        context = driver.gate.call(cu.cuCtxGetCurrent)
        body = cu.CUgraph(node.bodies[0])
        driver.gate.call(cu.cuGraphAddMemsetNode, body, None, 0, fill, context)

    bench.replay(bench.record(send))
    return [Check("out", bench.get(out), np.full(33, 7.0))]
