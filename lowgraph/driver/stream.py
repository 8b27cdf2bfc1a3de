"""Streams and capture. A stream is its handle as an integer; 0 is the legacy stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cuda.bindings import driver

from lowgraph.driver import captures, compat, context, gate, poison
from lowgraph.errors import ConfigError
from lowgraph.integers import integer

_NON_BLOCKING = int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
_LEAST_PRIORITY = 0  # on every device

_CAPTURE_MODES = {
    "global": driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL,
    "thread_local": driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    "relaxed": driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
}

LEGACY = 1
"""The legacy stream's handle where 0 has another meaning (CU_STREAM_LEGACY)."""

_STATUS = {0: "none", 1: "active", 2: "invalidated"}


def create(non_blocking: bool = True, *, priority: int = 0) -> int:
    """Create a stream (cuStreamCreateWithPriority).

    A blocking one synchronises with the legacy stream. priority: 0, the least, down to
    `greatest_priority`. Blocks of kernels that wait for a place on the device go by it; what runs
    goes on. Kernels that are captured in the stream keep it. Raises ConfigError for another one,
    which the bindings or the driver would turn into one of these.
    """
    context.require("cuStreamCreateWithPriority")
    flags = _NON_BLOCKING if non_blocking else 0
    if type(priority) is not int or priority != _LEAST_PRIORITY:
        greatest = greatest_priority()
        priority = integer(priority, "the stream's priority", greatest, _LEAST_PRIORITY)
    return int(gate.call(driver.cuStreamCreateWithPriority, flags, priority))


def greatest_priority() -> int:
    """Return the number of the greatest priority, below 0 (cuCtxGetStreamPriorityRange)."""
    return int(gate.call(driver.cuCtxGetStreamPriorityRange)[1])


def priority_of(stream: int) -> int:
    """Return the stream's priority (cuStreamGetPriority). Not of a stream that captures."""
    return int(gate.call(driver.cuStreamGetPriority, stream))


def destroy(stream: int) -> None:
    """Destroy a stream (cuStreamDestroy); its queued work is still done."""
    gate.call(driver.cuStreamDestroy, stream)


def synchronize(stream: int) -> None:
    """Wait until the stream's work is done (cuStreamSynchronize). Forbidden while it captures."""
    gate.call(driver.cuStreamSynchronize, stream)
    poison.note_sync(stream)


def is_done(stream: int) -> bool:
    """Return whether the stream's work is done (cuStreamQuery). Forbidden while it captures."""
    return gate.finished(driver.cuStreamQuery, stream)


def wait_event(stream: int, event: int) -> None:
    """Make the stream's later work wait for the event's last record (cuStreamWaitEvent)."""
    gate.call(driver.cuStreamWaitEvent, stream, event, 0)


def flags(stream: int) -> int:
    """Return the stream's creation flags (cuStreamGetFlags); bit 0 set: non-blocking.

    Of a stream that captures it answers 900 and breaks that capture, whichever thread asks.
    """
    return int(gate.call(driver.cuStreamGetFlags, stream))


def is_blocking(stream: int) -> bool:
    """Return whether the stream synchronises with the legacy stream."""
    return not flags(stream) & _NON_BLOCKING


def mode_of(mode: str) -> driver.CUstreamCaptureMode:
    """Return the driver's value of a capture mode; raises ConfigError on another name."""
    if mode not in _CAPTURE_MODES:
        raise ConfigError(f"capture mode {mode!r}: must be one of {', '.join(_CAPTURE_MODES)}")
    return _CAPTURE_MODES[mode]


def begin_capture(stream: int, mode: str = "thread_local") -> None:
    """Begin a capture (cuStreamBeginCapture); `mode` is "global", "thread_local" or "relaxed"."""
    wanted = mode_of(mode)
    context.require("cuStreamBeginCapture")
    with gate.teardown_lock:
        gate.call(driver.cuStreamBeginCapture, stream, wanted)
        captures.note_begin(stream, mode)


def end_capture(stream: int) -> int:
    """End the capture and return its graph (cuStreamEndCapture).

    Raises CaptureError when the capture was invalidated, is not joined or belongs to another
    thread; there is no graph then and the capture is over.
    """
    try:
        return int(gate.call(driver.cuStreamEndCapture, stream))
    finally:
        captures.remove(stream)


@contextmanager
def relaxed() -> Iterator[None]:
    """Let the calling thread poll, allocate and free beside captures of other threads.

    In the block its unsafe calls do not break a capture of any mode, unless they concern that
    capture's own streams and events, or the whole context (cuThreadExchangeStreamCaptureMode). For
    threads that run beside captures: a watchdog polls in it.
    """
    before = gate.call(driver.cuThreadExchangeStreamCaptureMode, _CAPTURE_MODES["relaxed"])
    try:
        with captures.relaxed_thread():
            yield
    finally:
        gate.call(driver.cuThreadExchangeStreamCaptureMode, before)


def capture_status(stream: int) -> str:
    """Return "none", "active" or "invalidated" (cuStreamIsCapturing)."""
    return _STATUS[int(gate.call(driver.cuStreamIsCapturing, stream))]


def capture_status_unheard(stream: int) -> str:
    """The same past the gate's hooks, for what one of them calls; "unknown" if it cannot be had."""
    code, status = driver.cuStreamIsCapturing(stream)
    return "unknown" if code else _STATUS[int(status)]


def capture_graph(stream: int) -> int | None:
    """Return the graph that the stream's capture is filling, or None when it is not capturing.

    The handle serves for counting nodes until the capture ends; it is not the caller's to destroy.
    """
    info = gate.call(compat.stream_get_capture_info, stream)
    return int(info[2]) if int(info[0]) == 1 else None


def captured_nodes_unheard(stream: int) -> int:
    """Number of nodes in the stream's capture, past the gate's hooks, for what one of them calls.

    0 if it is in none, or cannot be asked.
    """
    code, status, _, graph, *_ = compat.stream_get_capture_info(stream)
    if code or int(status) != 1:
        return 0
    code, _, count = driver.cuGraphGetNodes(graph, 0)
    return 0 if code else int(count)
