"""What a C function did in a capture window: the calls that it made, and the nodes that came.

lowgraph does not see its calls, so they are told from what can be seen: the call that failed, if it
used lowgraph.h; the driver calls counted below it while it ran (by the host device, or by CUPTI
where that can be had); the state of the capture behind it; and the nodes that were added.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lowgraph import driver
from lowgraph.capture.misplaced import misplaced
from lowgraph.driver import codes
from lowgraph.errors import CaptureFailed, CaptureIncomplete, CaptureRefused
from lowgraph.memory import counted, open_window

__all__ = ["Noted", "Seen", "Watched", "noted", "observed"]

# Calls that become a node of the capture, by the node's type.
_NODE_OF = {
    **dict.fromkeys(("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"), "kernel"),
    **dict.fromkeys(
        ("cuMemcpyAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync"), "memcpy"
    ),
    **dict.fromkeys(
        ("cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async", "cuMemsetD2D8Async",
         "cuMemsetD2D16Async", "cuMemsetD2D32Async"), "memset"
    ),
    "cuLaunchHostFunc": "host",
}  # fmt: skip
_NOUN = {"kernel": "kernel", "memcpy": "copy call", "memset": "fill", "host": "host call"}
_NAME = re.compile(r"cu[A-Z]\w*")
_REMEDY = "let it send all its work to the stream that it is given, or fork from it with an event"


class Noted(ctypes.Structure):
    """struct lg_failure of lowgraph.h."""

    _fields_ = [
        ("code", ctypes.c_int),
        ("line", ctypes.c_int),
        ("call", ctypes.c_char_p),
        ("file", ctypes.c_char_p),
    ]

    @property
    def op(self) -> str:
        """The driver function, "" if no call failed or it is not known."""
        found = _NAME.match((self.call or b"").decode(errors="replace"))
        return found[0] if found else ""

    def __str__(self) -> str:
        """Return "cuMemAlloc(&p, n) at smooth.c:31 answered 900 CUDA_ERROR_...", or ""."""
        if not self.code:
            return ""
        call, file = (text.decode(errors="replace") for text in (self.call, self.file))
        told = f"{self.code} {codes.name_of(self.code)}"
        return f"{' '.join(call.split())} at {Path(file).name}:{self.line} answered {told}"


@contextmanager
def noted(library: ctypes.CDLL) -> Iterator[Noted]:
    """The call that failed first in the block, by the library's own note; all zero if none did.

    A library that does not include lowgraph.h keeps no notes.
    """
    found = Noted()
    get: Any = getattr(library, "lg_failure", None)
    if get is None:
        yield found
        return
    get.restype, get.argtypes = ctypes.POINTER(Noted), []
    get()[0] = Noted()
    yield found
    ctypes.pointer(found)[0] = get().contents


class Seen:
    """Driver calls below us. calls: by name; counted: False where nothing could count them."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.counted = False

    @property
    def kernels(self) -> int | None:
        """Kernels that were launched, None where that is not known."""
        sent = sum(count for op, count in self.calls.items() if _NODE_OF.get(op) == "kernel")
        return sent if self.counted else None


@contextmanager
def observed() -> Iterator[Seen]:
    """Count the calls of the block, less those of Python's other threads.

    A thread that is not Python's may be the C function's own, so that its calls count. In the
    priming pass, too: what counts is set up there, outside of any capture.
    """
    seen, others = Seen(), _other_threads()
    with driver.current().count_calls() as count:
        yield seen
    others |= _other_threads()
    seen.calls, seen.counted = count.outside(others), bool(count.counted_by)


def _other_threads() -> set[int]:
    """Return the native ids of Python's threads but this one."""
    ids = {thread.native_id for thread in threading.enumerate()} - {threading.get_native_id()}
    return {known for known in ids if known is not None}


class Watched:
    """A call in the calling thread's window: make it before, and `judge` after.

    nodes: that the call added to the capture, kernels: how many of them are kernels.
    """

    def __init__(self, name: str, stream: int) -> None:
        window = open_window.mine()
        assert window is not None, "only calls in a window are watched"
        self._name = name
        self._stream = stream
        self._label = window.label
        self._where = open_window.requester()
        self._before = _nodes(stream)
        self.nodes: tuple[int, ...] = ()
        self._added: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._counted = False
        self._status = "none" if self._before is None else "active"

    @property
    def kernels(self) -> int:
        """Kernel nodes that it added."""
        return self._added["kernel"]

    def _look(self) -> None:
        """See what became of the capture."""
        self._status = driver.stream.capture_status(self._stream)
        after = _nodes(self._stream)
        if after is not None:
            known = set(self._before or ())
            self.nodes = tuple(node for node in after if node not in known)
            self._added = Counter(driver.graph.node_type(node) for node in self.nodes)

    def judge(self, code: int, failure: Noted, seen: Seen) -> CaptureRefused | None:
        """The refusal of what it did, None if all is well. code: that it returned."""
        self._calls, self._counted = seen.calls, seen.counted
        if self._before is None:
            return CaptureIncomplete(
                f"{self._name} was given stream {self._stream:#x} in the capture window of "
                f"{self._label!r}, which is not in the capture: its work would be in no replay",
                self._where,
                "give it the stream that the body is given, or a fork of it",
            )
        self._look()
        return self._misplaced(failure) or self._broken(code, failure) or self._astray()

    def _misplaced(self, failure: Noted) -> CaptureRefused | None:
        """A call of it that has no place in a window, by name; the one that failed first."""
        for op in filter(None, (failure.op, *self._calls)):
            told = f" ({failure})" if op == failure.op else ""
            said = f"{op} was called by {self._name} in the capture window of {self._label!r}{told}"
            error = misplaced(op, said, self._where)
            if error is not None:
                return error
        return None

    def _broken(self, code: int, failure: Noted) -> CaptureRefused | None:
        if not code and self._status == "active":
            return None  # also if a call failed: it may have dealt with that
        returned = f"it returned {code} {codes.name_of(code)}" if code else ""
        told = str(failure) or returned
        state = {"invalidated": "broke the capture", "none": "ended the capture"}
        what = state.get(self._status, "failed in the capture window")
        return CaptureFailed(
            f"{self._name} {what} of {self._label!r}{': ' if told else ''}{told}",
            self._where,
            "let it make no call in the window that waits, allocates, frees or loads; include "
            "lowgraph.h in it to be told which it was",
        )

    def _astray(self) -> CaptureRefused | None:
        """Work that it sent and that is not in the graph."""
        sent = Counter[str]()
        for op, count in self._calls.items():
            if op in _NODE_OF:
                sent[_NODE_OF[op]] += count
        for kind, count in sent.items():
            if count > self._added[kind]:
                return self._lost(f"{counted(count, _NOUN[kind])}, and {self._added[kind]}")
        if self._added:
            return None
        if self._counted:
            return CaptureIncomplete(
                f"{self._name} sent nothing in the capture window of {self._label!r}: it would be "
                "in no replay",
                self._where,
                "let it send its work at each call, or call it outside of the step",
            )
        return self._lost("nothing that")

    def _lost(self, told: str) -> CaptureIncomplete:
        return CaptureIncomplete(
            f"{self._name} sent {told} became nodes of the capture of {self._label!r}: what is "
            "missing went to another stream (the legacy stream, 0?), ran at once and would be in "
            "no replay",
            self._where,
            _REMEDY,
        )


def _nodes(stream: int) -> list[int] | None:
    graph = driver.stream.capture_graph(stream)
    return None if graph is None else driver.graph.nodes(graph)
