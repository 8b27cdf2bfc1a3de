"""CuPy's operations in a step, on a GPU: what the graph has, holds and computes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph import debug, driver
from lowgraph.capture import Input, Phase
from lowgraph.errors import (
    CaptureAllocationError,
    CaptureFailed,
    CaptureIncomplete,
    CaptureRefused,
    ConfigError,
    LibraryNotReady,
    PageableHostMemory,
    SyncDuringCapture,
)
from lowgraph.interop import cupy_ops, cupy_view, raw_graph, slice_of, stream_handle
from lowgraph.memory import download, upload
from tests.embedding.small import BLOCKS, N, Small

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

SIZES = [1, 31, 33, 257]


@pytest.fixture(autouse=True)
def cupy_as_before(small: Small) -> Iterator[None]:
    """Whatever a test did, CuPy's stream and allocator are what they were."""
    stream, allocator = cupy.cuda.get_current_stream(), cupy.cuda.get_allocator()
    yield
    assert cupy.cuda.get_current_stream() is stream and cupy.cuda.get_allocator() == allocator


Act = Callable[[int], object]


def of(small: Small, act: Act) -> Act:
    """A body that is one block of CuPy's."""

    def body(stream: int) -> None:
        with cupy_ops(small.pool, stream):
            act(stream)

    return body


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


# ---- what has no place in a window ----

X = np.ones((33, 31), np.float32)
REFUSED: dict[str, tuple[Callable[[Any], object], tuple[type[CaptureRefused], ...], str]] = {
    "product": (lambda a: a @ a.T, (LibraryNotReady,), "lowgraph.Blas"),
    "dot": (lambda a: cupy.dot(a, a.T), (LibraryNotReady,), "lowgraph.Blas"),
    "copy to the host": (lambda a: a.get(), (SyncDuringCapture,), "after the step"),
    "a number": (lambda a: float(a.sum()), (SyncDuringCapture,), "after the step"),
    "a boolean index": (lambda a: a[a > 0], (SyncDuringCapture,), "cupy.where"),
    "synchronize": (lambda a: cupy.cuda.get_current_stream().synchronize(), (SyncDuringCapture,),
                    "after the step"),
    "device synchronize": (lambda a: cupy.cuda.Device().synchronize(), (SyncDuringCapture,),
                           "after the step"),
    "copy from the host": (lambda a: a.set(X), (PageableHostMemory,), "staging slot"),
    # CuPy asks for pinned memory and looks at its events first, which may break the capture.
    "an array of the host": (lambda a: cupy.asarray(X), (PageableHostMemory, CaptureFailed), ""),
    "memory of its own": (lambda a: cupy.cuda.Memory(64), (CaptureFailed,), "before the step"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_to_use_instead_and_all_goes_on(small: Small, name: str) -> None:
    act, kinds, remedy = REFUSED[name]
    piece = small.put("a", 1, (33, 31))
    a, y = cupy_view(piece), cupy_view(small.y)
    before = small.pool.stats().live
    body = of(small, lambda stream: (act(a), y.__iadd__(1.0)))
    step = small.step(body=body)
    step.prime()
    with pytest.raises(CaptureRefused) as caught:
        step.capture()
    refusal = caught.value
    assert type(refusal) in kinds and remedy in str(refusal), repr(refusal)
    assert "CuPy" in str(refusal) and "test_cupy_ops.py:" in str(refusal.where)
    assert small.pool.stats().live == before
    after = small.ready(body=of(small, lambda stream: y.__iadd__(1.0)))
    assert after.phase is Phase.READY and small.value() == 3
    assert int(cupy.arange(5).sum()) == 10, "CuPy is as it was"


def test_an_array_that_was_not_primed_is_refused(small: Small) -> None:
    y, sizes = cupy_view(small.y), iter([N, 64 * N])

    def act(stream: int) -> None:
        y[...] = cupy.zeros(next(sizes), "f4")[:N]

    step = small.step(body=of(small, act))
    step.prime()
    with pytest.raises(CaptureAllocationError, match="CuPy's array 0"):
        step.capture()


def test_work_on_another_stream_is_told(small: Small) -> None:
    y, other = cupy_view(small.y), cupy.cuda.Stream(non_blocking=True)

    def act(stream: int) -> None:
        with other:
            y * 2.0

    step = small.step(body=of(small, act))
    step.prime()
    with pytest.raises(CaptureIncomplete, match=f"CuPy sends its work to stream {other.ptr:#x}"):
        step.capture()


def test_without_cupys_switch_against_waits_its_own_refusal_is_told(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is announced to be removed."""
    import cupyx

    monkeypatch.delattr(cupyx, "allow_synchronize")
    x = cupy_view(small.x)
    step = small.step(body=of(small, lambda stream: x.get()))
    step.prime()
    with pytest.raises(SyncDuringCapture, match="D2H transfers are disallowed"):
        step.capture()


# ---- memory of CuPy's own ----


def test_an_array_of_cupys_own_pool_is_an_input(small: Small) -> None:
    a, y = cupy.full(N, 3, "f4"), cupy_view(small.y)
    cupy.cuda.get_current_stream().synchronize()
    body = of(small, lambda stream: y.__iadd__(a))
    step = small.step(body=body, inputs=[Input("a", a)])
    for _ in range(3):
        step()
    assert small.value() == 9 and step.report().unowned >= 1
