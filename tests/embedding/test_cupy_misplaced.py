"""What of CuPy has no place in a window, on a GPU: refused with what to use, and all goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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
from tests.embedding.cupy_body import of
from tests.embedding.small import N, Small

cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cupy_as_before")]

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
    "an array of the host": (lambda a: cupy.asarray(X), (PageableHostMemory, CaptureFailed),
                             "host arrays"),
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
    assert "CuPy" in str(refusal) and "test_cupy_misplaced.py:" in str(refusal.where)
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
    monkeypatch.delattr(cupyx, "allow_synchronize")
    x = cupy_view(small.x)
    step = small.step(body=of(small, lambda stream: x.get()))
    step.prime()
    with pytest.raises(SyncDuringCapture, match="D2H transfers are disallowed"):
        step.capture()
