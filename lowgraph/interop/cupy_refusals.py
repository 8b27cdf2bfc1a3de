"""What CuPy raises in a capture window, as the refusal that says what to use instead.

CuPy itself refuses what it knows it cannot record, before the driver is asked: products by cuBLAS
and the like, host copies, and (as it is told not to wait there) whatever waits. What would break
the capture before CuPy comes to refuse it, we refuse first (`cupy_pinned`, `cupy_libraries`). What
CuPy does not know to refuse comes back from the driver. Judged is what it raised and not what was
called: whether a product goes to cuBLAS, or to a kernel of CuPy's that can be recorded, only CuPy
knows.
"""

from __future__ import annotations

from typing import NamedTuple

from lowgraph.driver import codes, gate
from lowgraph.errors import (
    CaptureFailed,
    CaptureRefused,
    ContextPoisoned,
    DriverError,
    LibraryNotReady,
    LowgraphError,
    PageableHostMemory,
    SyncDuringCapture,
)
from lowgraph.interop.cupy_libraries import BLAS, ELSEWHERE, RANDOM
from lowgraph.interop.cupy_pinned import REMEDY
from lowgraph.memory import open_window

__all__ = ["poisoned", "refusal_of"]


class _Rule(NamedTuple):
    """error: name of its class, "" for any; said: a part of its text, "" for any.

    what: follows "CuPy"; remedy: what to use instead.
    """

    error: str
    said: str
    refusal: type[CaptureRefused]
    what: str
    remedy: str


_FIRST_USE = "whose handle is made at its first use: "
_RULES = (
    _Rule("NotImplementedError", "cuBLAS API during stream capture", LibraryNotReady,
          "records no product of cuBLAS", BLAS),
    _Rule("NotImplementedError", "cuRAND API during stream capture", LibraryNotReady,
          "records no random numbers of cuRAND", RANDOM),
    _Rule("NotImplementedError", "API during stream capture", LibraryNotReady,
          "records no call of this library", ELSEWHERE),
    _Rule("RuntimeError", "H2D transfers are disallowed", PageableHostMemory,
          "would copy from the host, whose memory every replay would read again",
          REMEDY),
    _Rule("RuntimeError", "D2H transfers are disallowed", SyncDuringCapture,
          "would copy to the host, where nothing has run yet", "read results after the step"),
    _Rule("DeviceSynchronized", "", SyncDuringCapture,
          "would wait for the device, where nothing runs to wait for",
          "read results after the step, outside its body; what depends on them choose on the "
          "device (cupy.where needs no count, a boolean index does)"),
    _Rule("RuntimeError", "synchronous API calls are disallowed", SyncDuringCapture,
          "would copy or fill at once, in no replay",
          "use the asynchronous form (copy_from_device_async, memset_async), or assign to arrays"),
    _Rule("CUBLASError", "", LibraryNotReady, "failed in cuBLAS", _FIRST_USE + BLAS),
    _Rule("CURANDError", "", LibraryNotReady, "failed in cuRAND", _FIRST_USE + RANDOM),
    _Rule("CUSOLVERError", "", LibraryNotReady, "failed in cuSOLVER", _FIRST_USE + ELSEWHERE),
    _Rule("CuSparseError", "", LibraryNotReady, "failed in cuSPARSE", _FIRST_USE + ELSEWHERE),
    _Rule("CuFFTError", "", LibraryNotReady, "failed in cuFFT", _FIRST_USE + ELSEWHERE),
    _Rule("RuntimeError", "has invalidated the capture sequence", CaptureFailed,
          "found the capture broken by an earlier call",
          "look at what CuPy was asked before: an event that is asked whether it is done, and "
          "pinned memory where its allocator is not CuPy's own, break it without a word"),
    _Rule("", "streamcapture", CaptureFailed, "made a call that has no place in a window",
          "do it before the step, or let the priming pass reach the same code with the same "
          "shapes; a sort waits, and host arrays are copied by way of pinned memory"),
)  # fmt: skip


def refusal_of(error: BaseException) -> CaptureRefused | None:
    """The refusal that an exception of a body's block stands for, its cause `error`.

    None outside of the calling thread's window, for what is lowgraph's own, and for what is not
    CuPy's to raise about a capture: that is the body's own.
    """
    window = open_window.mine()
    if window is None or isinstance(error, LowgraphError):
        return None
    name, text = type(error).__name__, str(error)
    rule = next((rule for rule in _RULES if _fits(rule, name, text)), None)
    if rule is None:
        return None
    told = f": {text}" if text else ""
    refusal = rule.refusal(
        f"CuPy {rule.what}, in the capture window of {window.label!r} ({name}{told})",
        open_window.raised_at(error),
        rule.remedy,
    )
    refusal.__cause__ = error
    return refusal


def _fits(rule: _Rule, name: str, text: str) -> bool:
    # A code is called cudaErrorStreamCapture..., or CUDA_ERROR_STREAM_CAPTURE_... by the driver.
    plain = text.replace("_", "").lower()
    return rule.error in ("", name) and (rule.said in text or rule.said in plain)


def poisoned(error: BaseException) -> DriverError | None:
    """What to raise for a sticky code (700 ...) that CuPy was told of; it is known from then on."""
    status = getattr(error, "status", None)
    if not isinstance(status, int) or status not in codes.STICKY:
        return None
    found = gate.failure("a call of CuPy", (), status, None)
    assert isinstance(found, ContextPoisoned), "a sticky code poisons the context"
    found.__cause__ = error
    return found
