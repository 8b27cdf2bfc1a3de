"""Capture with bare driver calls and no layer of ours above them: how the cases go wrong elsewhere.

The calls go through the thin functions of `lowgraph.driver`, or, as `foreign`, past its gate, as
those of somebody else's library do.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda.bindings import driver as bindings

from lowgraph import driver
from lowgraph.errors import DriverError
from lowgraph.kernels import Kernel
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "kernels.cu"
N = 1000
GRID, BLOCK = -(-N // 128), 128

NOT_PERMITTED, INVALIDATED = 900, 901
Send = Callable[[], object]


def foreign(name: str, *args: Any) -> Any:
    """Call the driver past our gate; returns the code as an integer, or (code, result)."""
    answer = getattr(bindings, name)(*args)
    return int(answer[0]) if len(answer) == 1 else (int(answer[0]), answer[1])


class Bare:
    """Graphs recorded by begin and end alone, destroyed at the test's end."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.stream = rig.stream
        self._graphs: list[int] = []
        self._execs: list[int] = []
        self._streams: list[int] = []
        self._events: list[int] = []

    def kernel(self, name: str) -> Kernel:
        return self.rig.library.kernel(SOURCE, name)

    def new_stream(self, non_blocking: bool = True) -> int:
        self._streams.append(driver.stream.create(non_blocking))
        return self._streams[-1]

    def new_event(self) -> int:
        self._events.append(driver.event.create())
        return self._events[-1]

    def record(self, send: Send, mode: str = "thread_local", stream: int | None = None) -> int:
        """Begin, send, end; the graph. Whatever fails, the stream is usable again."""
        target = self.stream if stream is None else stream
        driver.stream.begin_capture(target, mode)
        try:
            send()
        except BaseException:
            self._abandon(target)
            raise
        graph = driver.stream.end_capture(target)
        self._graphs.append(graph)
        return graph

    def end_code(self, send: Send, mode: str = "thread_local", stream: int | None = None) -> int:
        """The code with which the end of a capture of `send` answers."""
        target = self.stream if stream is None else stream
        driver.stream.begin_capture(target, mode)
        send()
        try:
            self._graphs.append(driver.stream.end_capture(target))
        except DriverError as error:
            return error.code
        return 0

    def ready(self, send: Send) -> int:
        """An executable of what `send` recorded."""
        return self.instantiate(self.record(send))

    def instantiate(self, graph: int) -> int:
        self._execs.append(driver.graph.instantiate(graph))
        return self._execs[-1]

    def replay(self, executable: int, times: int = 1) -> None:
        for _ in range(times):
            driver.graph.launch(executable, self.stream)
        self.rig.sync()

    def in_thread(self, act: Send, name: str = "other") -> object:
        """What `act` returns in a thread of its own, which has ended by then."""
        result: list[object] = []

        def run() -> None:
            self.rig.device.make_current()
            result.append(act())

        thread = threading.Thread(target=run, name=name)
        thread.start()
        thread.join(60)
        assert result, f"{name} did not end, or raised"
        return result[0]

    def close(self) -> None:
        """Destroy all of it."""
        self.rig.sync()
        for destroy, handles in (
            (driver.graph.exec_destroy, self._execs),
            (driver.graph.destroy, self._graphs),
            (driver.event.destroy, self._events),
            (driver.stream.destroy, self._streams),
        ):
            for handle in handles:
                destroy(handle)

    @staticmethod
    def _abandon(stream: int) -> None:
        try:
            driver.graph.destroy(driver.stream.end_capture(stream))
        except DriverError as error:
            assert error.code == INVALIDATED, error


def types_of(graph: int) -> dict[str, int]:
    """Number of nodes by type."""
    return dict(Counter(driver.graph.node_type(node) for node in driver.graph.nodes(graph)))
