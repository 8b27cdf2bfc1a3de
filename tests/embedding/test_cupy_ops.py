"""CuPy's operations in a step, on a GPU: what the graph has, holds and computes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from lowgraph import debug, driver
from lowgraph.capture import Input, Phase
from lowgraph.errors import (
    ConfigError,
)
from lowgraph.interop import cupy_view, raw_graph, slice_of, stream_handle
from lowgraph.memory import download, upload
from tests.embedding.cupy_body import of
from tests.embedding.small import BLOCKS, N, Small

cupy = pytest.importorskip("cupy")
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cupy_as_before")]

SIZES = [1, 31, 33, 257]


# ---- what it computes, and where ----


@pytest.mark.parametrize("n", SIZES)
def test_operations_are_nodes_over_slices_and_each_replay_runs_them(small: Small, n: int) -> None:
    values = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    pieces = {name: small.pool.take(name, n) for name in ("a", "sums")}
    total = small.pool.take("total", ())
    upload(pieces["a"], values, small.stream)
    for piece in (pieces["sums"], total):
        driver.memory.memset_d8_async(piece.address, 0xFF, piece.nbytes, small.stream)
    a, sums, out = (cupy_view(piece) for piece in (*pieces.values(), total))

    def act(stream: int) -> None:
        sums[...] = cupy.tanh(a * 2.0) + a
        out[...] = sums.sum()
        a[...] = a * 0.5

    step = small.step(body=of(small, act))
    expected = values.astype(np.float64)
    for _ in range(4):
        step()
        wanted, expected = np.tanh(expected * 2.0) + expected, expected * 0.5
    got = download(pieces["sums"], small.stream)
    # float32: a rounding for each of three operations, tanh within 2 ulp of values below 1.
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
    # The sum's error is at most that of n additions of values below 5.
    np.testing.assert_allclose(
        download(total, small.stream), wanted.sum(), rtol=0, atol=6e-7 * n * 5
    )
    report = step.report()
    assert (report.eager_steps, report.replays, report.refusals) == (1, 3, 0), report.text()
    assert step.phase is Phase.READY and report.kernels >= 5
    assert report.shape_warning == "" and report.launches_replay_step == 1
    assert not {"mem_alloc", "mem_free"} & set(report.nodes_by_type)


def test_cupys_own_pool_is_not_asked_and_neither_is_the_driver(small: Small) -> None:
    theirs = cupy.get_default_memory_pool()
    x, y = cupy_view(small.x), cupy_view(small.y)

    def act(stream: int) -> None:
        parts = [x * float(k) for k in range(5)]
        y[...] = parts[0] + parts[4] + cupy.zeros(N, "f4") + cupy.arange(N, dtype="f4").sum()

    step = small.step(body=of(small, act))
    before = theirs.total_bytes(), theirs.used_bytes()
    step()
    with small.rig.device.count_calls() as count:
        step.capture()
    assert (theirs.total_bytes(), theirs.used_bytes()) == before
    assert small.pool.stats().refused == 0 and step.phase is Phase.READY
    if count.counted_by:
        allocating = ("cuMemAlloc", "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemFree")
        assert not set(allocating) & set(count.calls)
    assert step.report().retained_bytes > 0
    assert any("CuPy's array" in buffer.name or buffer.role == "temporary"
               for buffer in step.graph.buffers())  # type: ignore[union-attr]  # fmt: skip


def test_ours_and_cupys_take_turns_on_the_same_memory(small: Small) -> None:
    x, y = cupy_view(small.x), cupy_view(small.y)

    def act(stream: int) -> None:
        more = x + 1.0
        small.add(stream, BLOCKS, 128, small.y, slice_of(more, small.pool), N)  # y += 2 (x + 1)
        y[...] = y * 2.0

    step = small.step(body=of(small, act))
    wanted = 0.0
    for _ in range(4):
        step()
        wanted = (wanted + 4) * 2
    assert small.value() == wanted
    calls = step.graph.contents.journal.library  # type: ignore[union-attr]
    assert [call.name for call in calls] == ["CuPy"] and calls[0].kernels
    assert step.report().kernels == 1 + calls[0].kernels


def test_an_array_kept_from_the_recorded_pass_shows_each_replay(small: Small) -> None:
    y, kept = cupy_view(small.y), list[Any]()

    def act(stream: int) -> None:
        y[...] = y + 1.0
        kept.append(y * 10.0)

    step = small.step(body=of(small, act))
    for _ in range(4):
        step()
    small.rig.sync()
    assert len(kept) == 2
    assert (kept[0].get() == 10).all(), "the priming pass's own: nobody writes there"
    assert (kept[1].get() == 40).all(), "the graph's: as of the latest replay"
    step.close()
    small.rig.sync()
    assert (kept[1].get() == 40).all(), "and it holds its memory beyond the graph"
    kept.clear()


# ---- views and slices ----


def test_views_share_memory_both_ways(small: Small) -> None:
    view = cupy_view(small.x)
    assert view.data.ptr == small.x.address and view.shape == (N,) and view.dtype == np.float32
    back = slice_of(view[100:133], small.pool)
    assert (back.address, back.shape, back.root) == (small.x.address + 400, (33,), small.x)
    assert cupy.from_dlpack(small.x).data.ptr == small.x.address
    for wrong in (view[::2], cupy.ones(3, "f4")):
        with pytest.raises(ConfigError):
            slice_of(wrong, small.pool)


# ---- the current stream ----


def test_the_current_stream_is_the_bodys_and_then_what_it_was(small: Small) -> None:
    seen: list[Any] = []
    other, third = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    before = cupy.cuda.get_current_stream()

    def look() -> None:
        small.rig.device.make_current()
        seen.append(cupy.cuda.get_current_stream().ptr)

    def act(stream: int) -> None:
        seen.append(cupy.cuda.get_current_stream().ptr)
        with third:
            pass
        seen.append(cupy.cuda.get_current_stream().ptr)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        small.add(stream, BLOCKS, 128, small.y, small.x, N)

    other.use()
    try:
        small.ready(body=of(small, act))
        assert cupy.cuda.get_current_stream() is other
    finally:
        before.use()
    assert seen == [small.stream, small.stream, 0] * 2


def test_a_step_on_a_stream_of_cupys_own(small: Small) -> None:
    stream, y = cupy.cuda.Stream(non_blocking=True), cupy_view(small.y)
    small.rig.sync()
    step = small.step(body=of(small, lambda s: y.__iadd__(1.0)), stream=stream)
    for _ in range(3):
        step()
    stream.synchronize()
    assert step.stream == stream.ptr == stream_handle(stream)
    assert step.report().replays == 2 and small.value() == 3
    step.close()


def test_their_capture_on_cupys_stream_takes_a_part_of_ours(small: Small) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    part = small.part()
    part.prime(stream)
    stream.begin_capture()
    part.record(stream)
    graph = stream.end_capture()
    for _ in range(3):
        graph.launch(stream)
    stream.synchronize()
    assert small.value() == 2 + 3 * 2


def test_their_capture_takes_cupys_operations_of_a_part(small: Small) -> None:
    stream, y = cupy.cuda.Stream(non_blocking=True), cupy_view(small.y)
    small.rig.sync()
    part = small.part(of(small, lambda s: y.__iadd__(1.0)))
    part.prime(stream)
    stream.begin_capture()
    added = part.record(stream)
    graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    assert added.types == {"kernel": 1} and small.value() == 2


def test_cupys_graph_is_looked_into(small: Small) -> None:
    stream, y = cupy.cuda.Stream(non_blocking=True), cupy_view(small.y)
    with stream:
        y.__iadd__(0.0)  # compiled
        stream.synchronize()
        stream.begin_capture()
        y.__iadd__(1.0)
        graph = stream.end_capture()
    form = debug.read_handle(int(graph.graph), label="theirs", pool=small.pool)
    assert len(form.nodes) == 1 and "cupy_add" in "\n".join(debug.lines(form))


def test_cupys_runtime_launches_our_graph(small: Small) -> None:
    y = cupy_view(small.y)
    step = small.ready(body=of(small, lambda s: y.__iadd__(1.0)))
    cupy.cuda.runtime.graphLaunch(raw_graph(step).executable, small.stream)
    assert small.value() == 3


# ---- memory of CuPy's own ----


def test_an_array_of_cupys_own_pool_is_an_input(small: Small) -> None:
    a, y = cupy.full(N, 3, "f4"), cupy_view(small.y)
    cupy.cuda.get_current_stream().synchronize()
    body = of(small, lambda stream: y.__iadd__(a))
    step = small.step(body=body, inputs=[Input("a", a)])
    for _ in range(3):
        step()
    assert small.value() == 9 and step.report().unowned >= 1
