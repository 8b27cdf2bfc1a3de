"""What a window does with the driver calls of other threads: let through, wait for its end, refuse.

Most pass: in thread-local and relaxed mode other threads may allocate, copy, launch and load on
their own streams (facts). Three kinds cannot:

- work sent to a stream of the capture would be recorded into a graph that never asked for it, a
  graph launched there breaks it (900), and an end takes it away (908): refused, at once;
- a wait for the capture's streams or events, or for the whole context, breaks it in every mode
  (900, 907): it waits until the window is over, then goes ahead;
- in global mode so does any unsafe call of a thread that is not in `stream.relaxed()`.

Whoever waits longer than the capture lock's patience gets CaptureInProgress. A call that was let
through just before the window's guard stood could still reach the driver behind the begin: the
window waits for those (`let_finish`) before it begins.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from lowgraph.capture.forks import ForkTracker
from lowgraph.capture.stream_calls import described, event_of, stream_of
from lowgraph.driver import captures

__all__ = ["check", "let_finish"]

# A call that is still there after so many looks, a quarter of a second, is inside the driver, past
# its own look at captures. Not in seconds: while the process stands still, stopped or for want of a
# core, no call goes on.
_LOOKS = 1500
_POLL = 1e-4  # seconds; a sleep takes longer

_WHOLE_CONTEXT = "cuCtxSynchronize"
_STREAM_WAITS = frozenset({"cuStreamSynchronize", "cuStreamQuery", "cuStreamDestroy"})
_RECORDS = frozenset({"cuEventRecord", "cuEventRecordWithFlags"})
_GRAPH_CALLS = frozenset({"cuGraphLaunch", "cuGraphUpload"})
_CAPTURE_CALLS = frozenset(
    {
        "cuStreamBeginCapture",
        "cuStreamBeginCaptureToGraph",
        "cuStreamEndCapture",
        "cuStreamUpdateCaptureDependencies",
    }
)


def check(
    op: str, args: tuple[Any, ...], capture: captures.OpenCapture, forks: ForkTracker
) -> None:
    """Return when a call of another thread than the capture's may be made.

    Raises CaptureInProgress for one that may not be, or whose turn did not come in time.
    """
    if _slips_in(op, args, forks):
        raise captures.in_progress(f"{described(op, args)} on a stream of the capture", capture)
    if _breaks(op, args, capture, forks, threading.get_ident()):
        with captures.stepping_aside():
            captures.LOCK.acquire(op)
            captures.LOCK.release()


def let_finish(capture: captures.OpenCapture, forks: ForkTracker) -> None:
    """Wait for calls of other threads that passed before the guard and would break the capture."""
    mine = threading.get_ident()
    for _ in range(_LOOKS):
        calls = [call for call in list(captures.in_flight.items()) if call[0] != mine]
        if not any(_breaks(op, args, capture, forks, thread) for thread, (op, args) in calls):
            return
        time.sleep(_POLL)


def _slips_in(op: str, args: tuple[Any, ...], forks: ForkTracker) -> bool:
    if op in _CAPTURE_CALLS:
        return int(args[0]) in forks.streams
    if op in _RECORDS:
        return int(args[1]) in forks.streams
    if op == "cuStreamWaitEvent":  # it would pull its own stream in, or give ours an order
        return int(args[0]) in forks.streams or int(args[1]) in forks.events
    if op in _GRAPH_CALLS:
        return int(args[1]) in forks.streams
    return stream_of(op, args) in forks.streams


def _breaks(
    op: str,
    args: tuple[Any, ...],
    capture: captures.OpenCapture,
    forks: ForkTracker,
    thread: int,
) -> bool:
    if op == _WHOLE_CONTEXT:
        return True
    if op in _STREAM_WAITS and int(args[0]) in forks.streams:
        return True
    if event_of(op, args) in forks.events:
        return True
    unsafe = capture.mode == "global" and op in captures.UNSAFE
    return unsafe and not captures.is_relaxed(thread)
