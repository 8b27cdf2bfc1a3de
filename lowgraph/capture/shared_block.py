"""SharedBlock: a part of a body in which another library sends work by itself, beside our own.

In a window the nodes that came between our calls are that library's: they are told to the pass's
journal as a call of it, with the memory that they point at, which the graph then holds. What it
sent and what did not come, and calls of it that have no place in a window, are refused at the
block's end, where something counts the calls below it (`c_calls`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from lowgraph import counters, driver
from lowgraph.capture.c_calls import Noted, Seen, Watched, observed
from lowgraph.capture.guard import WindowGuard
from lowgraph.driver import gate
from lowgraph.driver.graph import KernelParams
from lowgraph.driver.node import CopyParams, FillParams
from lowgraph.errors import CaptureRefused
from lowgraph.memory import PersistentPool, open_window

__all__ = ["SharedBlock"]

_WORK = ("cuLaunch", "cuMemcpy", "cuMemset")
_BROKEN = (
    "let it make no call in the window that waits, allocates, frees or loads; what it does at its "
    "first use of a function, the priming pass has to have reached"
)
_LOWEST = 1 << 16  # no device address is below, and sizes and small numbers mostly are


class SharedBlock:
    """See the module. A context manager, used once; `refusal` is what to raise after it, or None.

    library: its name. stream: that it sends work to; in a window it has to be in the capture.
    """

    def __init__(self, library: str, stream: int, pool: PersistentPool) -> None:
        self.refusal: CaptureRefused | None = None
        self._library = library
        self._stream = stream
        self._pool = pool
        self._recorder: open_window.Recorder | None = None
        self._watched: _Watched | None = None
        self._seen = Seen()
        self._ours = counters.Counts()
        self._exit = ExitStack()

    def __enter__(self) -> SharedBlock:
        recorder = open_window.recorder()
        if recorder is None or not recorder.is_mine():
            return self  # a pass that nobody keeps a journal of
        self._recorder = recorder
        if open_window.mine() is not None:
            self._watched = _Watched(self._library, self._stream, recorder)
        self._seen = self._exit.enter_context(observed())
        self._ours = self._exit.enter_context(counters.scope())
        if self._watched is not None:
            self._exit.callback(self._watched.stop)
            self._watched.listen()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Nothing is raised, so that what left the block is not hidden."""
        self._exit.close()
        if self._recorder is None:
            return
        self._seen.calls -= Counter(self._ours.by_name)
        if self._watched is not None:
            self.refusal = self._watched.judge(0, Noted(), self._seen)
        if error is None and self.refusal is None:
            self._report(self._recorder)

    def _report(self, recorder: open_window.Recorder) -> None:
        watched = self._watched
        if watched is None:
            recorder.library_call(self._library, self._seen.kernels, ())
        else:
            addresses = _addresses(watched.nodes, self._pool)
            recorder.library_call(self._library, watched.kernels, addresses, (), watched.nodes)


class _Watched(Watched):
    """Tells the library's nodes from ours: those that are there when a call of ours begins."""

    def __init__(self, library: str, stream: int, recorder: open_window.Recorder) -> None:
        super().__init__(library, stream)
        self._recorder = recorder
        self._body = recorder.placed[0]
        self._aside: CaptureRefused | None = None
        self._thread = threading.get_ident()
        self._known = 0
        self._places: list[range] = []
        guard = gate.guard
        assert isinstance(guard, WindowGuard), "a window of this thread is open"
        self._guard = guard
        self._outer: tuple[Callable[[], None] | None, gate.Observer | None] = None, None

    def listen(self) -> None:
        self._outer = self._guard.before_call, gate.observer
        self._known = driver.stream.captured_nodes_unheard(self._stream)
        self._guard.before_call, gate.observer = self._on_begin, self._on_end

    def stop(self) -> None:
        self._note()
        self._guard.before_call, gate.observer = self._outer

    def judge(self, code: int, failure: Noted, seen: Seen) -> CaptureRefused | None:
        return self._aside or super().judge(code, failure, seen)

    def _look(self) -> None:
        self._status = driver.stream.capture_status(self._stream)
        graph = driver.stream.capture_graph(self._stream)
        if graph is not None:
            nodes = driver.graph.nodes(graph)  # in the order of their making
            self.nodes = tuple(nodes[place] for places in self._places for place in places)
            self._added = Counter(driver.graph.node_type(node) for node in self.nodes)

    def _broken(self, code: int, failure: Noted) -> CaptureRefused | None:
        found = super()._broken(code, failure)
        if found is not None:
            found.remedy = _BROKEN
        return found

    def _astray(self) -> CaptureRefused | None:
        if not self._added and not any(op.startswith(_WORK) for op in self._calls):
            return None  # a block that sends nothing is nobody's loss
        return super()._astray()

    def _on_begin(self) -> None:
        self._note()
        if self._outer[0] is not None:
            self._outer[0]()

    def _on_end(self, op: str, args: tuple[Any, ...], code: int) -> None:
        if threading.get_ident() == self._thread:
            self._known = driver.stream.captured_nodes_unheard(self._stream)
        if self._outer[1] is not None:
            self._outer[1](op, args, code)

    def _note(self) -> None:
        """What came since the last call of ours."""
        count = driver.stream.captured_nodes_unheard(self._stream)
        if count <= self._known:
            return
        self._places.append(range(self._known, count))
        self._known = count
        if self._recorder.placed[0] != self._body and self._aside is None:
            self._aside = CaptureRefused(
                f"{self._name} sent work in the body of a conditional to the stream around it, in "
                f"the capture window of {self._label!r}: it would run whether the body does or not",
                self._where,
                "end the block before the conditional, and open one inside its body, with the "
                "stream that the body is given",
            )


def _addresses(nodes: tuple[int, ...], pool: PersistentPool) -> tuple[int, ...]:
    """What nodes point at, as far as it is known memory: arrays travel inside structs."""
    words = {word for node in nodes for word in _words(node) if word >= _LOWEST}
    return tuple(word for word in sorted(words) if _is_memory(word, pool))


def _words(node: int) -> list[int]:
    kind = driver.graph.node_type(node)
    if kind == "kernel":
        return _in_arguments(driver.graph.kernel_params(node))
    if kind == "memset":
        return _in_fill(driver.node.fill_params(node))
    return _in_copy(driver.node.copy_params(node)) if kind == "memcpy" else []


def _in_arguments(params: KernelParams) -> list[int]:
    return [
        int.from_bytes(argument[at : at + 8], "little")
        for argument in params.args
        for at in range(0, len(argument) - 7, 8)
    ]


def _in_fill(params: FillParams) -> list[int]:
    return [params.address]


def _in_copy(params: CopyParams) -> list[int]:
    return [params.to, params.source]


def _is_memory(word: int, pool: PersistentPool) -> bool:
    return pool.who_owns(word) is not None or driver.memory.allocation(word) is not None
