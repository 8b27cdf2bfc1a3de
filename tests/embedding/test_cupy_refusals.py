"""What CuPy raises in a window, as refusals: the texts are CuPy 14.2.0's and the driver's."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from lowgraph.driver import poison
from lowgraph.errors import (
    CaptureFailed,
    CaptureRefused,
    ContextPoisoned,
    DriverError,
    LibraryNotReady,
    PageableHostMemory,
    SyncDuringCapture,
)
from lowgraph.interop.cupy_refusals import poisoned, refusal_of
from lowgraph.memory import open_window


def named(name: str, text: str) -> Exception:
    kind = {"RuntimeError": RuntimeError, "NotImplementedError": NotImplementedError}.get(name)
    return (kind or type(name, (RuntimeError,), {"__module__": "cupy"}))(text)


@pytest.fixture
def window() -> Any:
    opened = open_window.OpenWindow("step", 16, "here.py:1")
    with open_window.LOCK:
        open_window.declare(opened)
        yield opened
        open_window.clear()


LIBRARY = "calling {} API during stream capture is currently unsupported"
CAPTURING = "the current stream is capturing, so {} are disallowed"
CASES: list[tuple[str, str, type[CaptureRefused], str]] = [
    ("NotImplementedError", LIBRARY.format("cuBLAS"), LibraryNotReady, "lowgraph.Blas"),
    ("NotImplementedError", LIBRARY.format("cuRAND"), LibraryNotReady, "random state"),
    ("NotImplementedError", LIBRARY.format("cuSOLVER"), LibraryNotReady, "before or after the"),
    ("NotImplementedError", LIBRARY.format("cuSPARSE"), LibraryNotReady, "before or after the"),
    ("RuntimeError", CAPTURING.format("H2D transfers"), PageableHostMemory, "staging slot"),
    ("RuntimeError", CAPTURING.format("D2H transfers"), SyncDuringCapture, "after the step"),
    ("RuntimeError", CAPTURING.format("synchronous API calls"), SyncDuringCapture, "memset_async"),
    ("DeviceSynchronized", "Device synchronization was detected while disallowed.",
     SyncDuringCapture, "cupy.where"),
    ("CUBLASError", "CUBLAS_STATUS_NOT_INITIALIZED", LibraryNotReady, "lowgraph.Blas"),
    ("CUDARuntimeError", "cudaErrorStreamCaptureUnsupported: operation not permitted when stream "
     "is capturing", CaptureFailed, "let the priming pass reach the same code"),
    ("RuntimeError", "the stream was capturing, but an error has invalidated the capture sequence",
     CaptureFailed, "an event that is asked whether it is done"),
    ("CUDADriverError", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: operation failed due to a previous "
     "error during capture", CaptureFailed, "let the priming pass reach the same code"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "kind", "remedy"), CASES)
def test_each_has_its_kind_and_its_remedy(
    window: Any, name: str, text: str, kind: type[CaptureRefused], remedy: str
) -> None:
    error = named(name, text)
    with pytest.raises(type(error)):
        raise error
    refusal = refusal_of(error)
    assert type(refusal) is kind and refusal.__cause__ is error
    for part in ("CuPy ", "in the capture window of 'step'", name, text):
        assert part in refusal.reason
    assert remedy in refusal.remedy and "test_cupy_refusals.py:" in str(refusal.where)


def test_outside_of_a_window_it_stays_what_it_was() -> None:
    for name, text, _, _ in CASES:
        assert refusal_of(named(name, text)) is None


OWN = [ValueError("operands could not be broadcast"), RuntimeError("mine"),
       NotImplementedError("x"), CaptureRefused("ours", "x.py:1", "do"),
       DriverError("cuMemAlloc", "", 900, "n", "StreamCapture")]  # fmt: skip


@pytest.mark.parametrize("error", OWN)
def test_what_says_nothing_of_captures_is_the_bodys_own(window: Any, error: Exception) -> None:
    assert refusal_of(error) is None


class Sticky(RuntimeError):
    """As CuPy's CUDARuntimeError."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def test_a_code_that_loses_the_context_is_known_from_then_on() -> None:
    try:
        found = poisoned(Sticky(700))
        assert isinstance(found, ContextPoisoned) and poison.current is not None
        assert "a call of CuPy() 700" in poison.current.first
        assert isinstance(found.__cause__, Sticky)
    finally:
        poison.forget()
        gc.collect()


@pytest.mark.parametrize("error", [Sticky(2), Sticky(900), ValueError("700")])
def test_other_codes_are_not(error: Exception) -> None:
    assert poisoned(error) is None and poison.current is None
