"""What of CuPy has no place in a window, on a GPU: refused with what to use, and all goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import (
    CaptureAllocationError,
    CaptureFailed,
    CaptureIncomplete,
    CaptureRefused,
    LibraryNotReady,
    PageableHostMemory,
    SyncDuringCapture,
)
from lowgraph.interop import cupy_view
from lowgraph.interop.cupy_pinned import _is_set
from lowgraph.memory import open_window
from tests.embedding.cupy_body import of
from tests.embedding.small import N, Small

cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cupy_as_before")]

X = np.ones((33, 31), np.float32)
Act = Callable[[Any], object]
HOST = PageableHostMemory, "staging slot"
LATER = SyncDuringCapture, "after the step"
BLAS = LibraryNotReady, "lowgraph.Blas"
# Each is told as a refusal, and the capture is whole behind it.
REFUSED: dict[str, tuple[Act, tuple[type[CaptureRefused], str]]] = {
    "an array of the host": (lambda a: cupy.asarray(X), HOST),
    "host arrays in a list": (lambda a: cupy.asarray([X[0], X[1]]), HOST),
    "a list": (lambda a: cupy.array([1.0, 2.0]), HOST),
    "a list as an index": (lambda a: a[[0, 2]], HOST),
    "pinned memory": (lambda a: cupyx.empty_pinned(3), HOST),
    "copy from the host": (lambda a: a.set(X), HOST),
    "copy to the host": (lambda a: a.get(), LATER),
    "copy into an array": (lambda a: a.get(out=np.empty_like(X)), LATER),
    "copy of a view": (lambda a: a[::2, ::2].get(), LATER),
    "a number": (lambda a: float(a.sum()), LATER),
    "an item": (lambda a: a[0, 0].item(), LATER),
    "a condition": (lambda a: bool(a.sum()), LATER),
    "a text": (str, LATER),
    "a boolean index": (lambda a: a[a > 0], (SyncDuringCapture, "cupy.where")),
    "synchronize": (lambda a: cupy.cuda.get_current_stream().synchronize(), LATER),
    "device synchronize": (lambda a: cupy.cuda.Device().synchronize(), LATER),
    "product": (lambda a: a @ a.T, BLAS),
    "dot": (lambda a: cupy.dot(a, a.T), BLAS),
    "random numbers": (lambda a: cupy.random.rand(3), (LibraryNotReady, "random state")),
}
# What CuPy asks the driver without knowing, or was told to: the driver breaks the capture.
BROKEN: dict[str, Act] = {
    "memory of its own": lambda a: cupy.cuda.Memory(64),
    "an event": lambda a: cupy.cuda.Event().synchronize(),
}


class Tried:
    """A body with `act` in CuPy's block, and y += 1 behind it; what was met in the window.

    swallows: whether the body goes on. first: whether the priming pass comes to it, too.
    """

    def __init__(
        self, small: Small, act: Act, *, swallows: bool = False, first: bool = True
    ) -> None:
        self.small = small
        self.act = act
        self.swallows = swallows
        self.first = first
        self.a = cupy_view(small.put("a", 1, (33, 31)))
        self.y = cupy_view(small.y)
        self.raised: list[Exception] = []
        self.states: list[str] = []

    def block(self, stream: int) -> None:
        if self.first or open_window.mine() is not None:
            self._try()
        self.y.__iadd__(1.0)

    def _try(self) -> None:
        try:
            self.act(self.a)
        except Exception as error:
            self.raised.append(error)
            self.states.append(driver.stream.capture_status(self.small.stream))
            if not self.swallows:
                raise

    def refusal(self) -> CaptureRefused:
        """Of a recording; then another step is recorded on the stream, and CuPy is as it was."""
        small = self.small
        before, finders = small.pool.stats().live, list(sys.meta_path)
        step = small.step(body=of(small, self.block))
        step.prime()
        with pytest.raises(CaptureRefused) as caught:
            step.capture()
        assert small.pool.stats().live == before and sys.meta_path == finders
        value = small.value()
        after = small.ready(body=of(small, lambda stream: self.y.__iadd__(1.0)))
        assert after.phase is Phase.READY and small.value() == value + 2
        assert int(cupy.asarray(np.arange(5)).sum()) == 10
        assert _is_set(cupy, cupy.get_default_pinned_memory_pool())
        return caught.value


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_to_use_instead_and_the_capture_is_whole(
    small: Small, name: str
) -> None:
    act, (kind, remedy) = REFUSED[name]
    if name == "random numbers":
        try:
            cupy.random.rand(3)
        except ImportError as error:
            pytest.skip(f"no cuRAND: {error}")
    tried = Tried(small, act)
    refusal = tried.refusal()
    assert type(refusal) is kind and remedy in str(refusal), repr(refusal)
    assert "CuPy" in str(refusal) and "test_cupy_misplaced.py:" in str(refusal.where)
    assert tried.states == ["active"]


@pytest.mark.parametrize("name", BROKEN)
def test_what_the_driver_is_asked_breaks_the_capture_and_is_told(small: Small, name: str) -> None:
    tried = Tried(small, BROKEN[name])
    refusal = tried.refusal()
    assert type(refusal) is CaptureFailed and "before the step" in str(refusal), repr(refusal)
    assert "test_cupy_misplaced.py:" in str(refusal.where) and tried.states == ["invalidated"]


@pytest.mark.parametrize("name", ["product", "copy to the host", "copy from the host", "a number"])
def test_where_the_body_goes_on_behind_cupys_own_refusal_its_step_is_whole(
    small: Small, name: str
) -> None:
    tried = Tried(small, REFUSED[name][0], swallows=True)
    step = small.step(body=of(small, tried.block))
    for _ in range(4):
        step()
    assert len(tried.raised) == 1 and tried.states == ["active"]
    assert step.report().replays == 3 and small.value() == 4, step.report().text()


@pytest.mark.parametrize("name", ["an array of the host", "a list as an index", "pinned memory"])
def test_where_the_body_goes_on_behind_a_refusal_of_ours_the_step_is_refused(
    small: Small, name: str
) -> None:
    tried = Tried(small, REFUSED[name][0], swallows=True)
    assert type(tried.refusal()) is PageableHostMemory and tried.states == ["active"]


def product_into(out: Any) -> Act:
    """Takes no memory, which would be missing where the priming pass does not come to it."""
    return lambda a: cupy.dot(a, a.T, out=out)


def test_what_the_priming_pass_did_not_come_to_breaks_no_capture_either(small: Small) -> None:
    for act, (kind, remedy) in (
        (lambda a: cupyx.empty_pinned(1 << 22), HOST),
        (product_into(cupy.empty((33, 33), "f4")), BLAS),
    ):
        tried = Tried(small, act, first=False)
        refusal = tried.refusal()
        assert type(refusal) is kind and remedy in str(refusal), repr(refusal)
        assert tried.states == ["active"]


def test_copies_that_are_under_way_as_the_window_begins_do_not_break_it(small: Small) -> None:
    """CuPy asks their events before the next copy."""
    tried = Tried(small, REFUSED["an array of the host"][0])
    many = np.ones(1 << 24, np.float32)
    step = small.step(body=of(small, tried.block))
    step.prime()
    arrays = [cupy.asarray(many) for _ in range(4)]
    with pytest.raises(PageableHostMemory):
        step.capture()
    assert tried.states == ["active"] and int(arrays[-1][-1]) == 1


def test_a_library_that_another_thread_uses_breaks_no_capture(small: Small) -> None:
    """A handle is its thread's: that of the window's is made before."""
    tried = Tried(small, product_into(cupy.empty((33, 33), "f4")), first=False)
    step = small.step(body=of(small, tried.block))
    failed: list[BaseException] = []

    def record() -> None:
        small.rig.device.make_current()
        try:
            step.prime()
            step.capture()
        except BaseException as error:
            failed.append(error)

    b = cupy.ones((4, 4), "f4")
    assert float((b @ b)[0, 0]) == 4
    thread = threading.Thread(target=record)
    thread.start()
    thread.join()
    assert [type(error) for error in failed] == [LibraryNotReady], failed
    assert tried.states == ["active"]


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
    monkeypatch.delattr(cupyx, "allow_synchronize")
    x = cupy_view(small.x)
    step = small.step(body=of(small, lambda stream: x.get()))
    step.prime()
    with pytest.raises(SyncDuringCapture, match="D2H transfers are disallowed"):
        step.capture()
