"""CapturedGraph: an executable graph and everything that its kernels need to stay where it is.

The graph's nodes hold bare addresses, so this object is what keeps them valid: the pool keeps the
blocks for its owner until `close()`, modules stay loaded for the life of the process.

The garbage collector never reaches the driver: an object dropped without `close()` leaves its
handles in a queue that the next capture, or `drain_dropped()`, empties outside windows.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque

from lowgraph import driver
from lowgraph.capture.window import Recording
from lowgraph.errors import CaptureFailed, ContextPoisoned, DriverError, PhaseError
from lowgraph.memory import PersistentPool, open_window

__all__ = ["CapturedGraph", "drain_dropped"]


class _Handles:
    """What has to be given back, apart from the object that users hold."""

    def __init__(self, recording: Recording, executable: int, pool: PersistentPool) -> None:
        self.graph = recording.graph
        self.executable = executable
        self.stream = recording.stream
        self.owner = recording.owner
        self.pool = pool

    def give_back(self) -> None:
        """Wait until idle, destroy, release. Everything is tried; the first error is raised."""
        errors: list[DriverError] = []
        for act, handle in (
            (_finish, self.stream),
            (driver.graph.exec_destroy, self.executable),
            (driver.graph.destroy, self.graph),
        ):
            try:
                act(handle)
            except DriverError as error:
                errors.append(error)
        self.pool.release(self.owner)
        if errors and not isinstance(errors[0], ContextPoisoned):
            raise errors[0]


_dropped: deque[_Handles] = deque()


def _finish(stream: int) -> None:
    if not driver.stream.is_done(stream):
        driver.stream.synchronize(stream)


def drain_dropped() -> int:
    """Give back what the collector found undestroyed; returns how many. Not inside a window."""
    count = 0
    while _dropped and open_window.mine() is None:
        _dropped.popleft().give_back()
        count += 1
    return count


class CapturedGraph:
    """A recorded pass, ready to be launched.

    Attributes
    ----------
    label, stream, census: as recorded. launches: kernels of ours and of libraries.
    figures: what the window took from the pool. unowned: addresses that no slice covers.
    """

    def __init__(self, recording: Recording, pool: PersistentPool) -> None:
        """Instantiate and upload a recording, and take it over from its window.

        Raises CaptureFailed with the driver's error as its cause, ContextPoisoned; the recording is
        still the window's then (`Window.discard`).
        """
        self.label = recording.label
        self.stream = recording.stream
        self.census = recording.census
        self.journal = recording.journal
        self.figures = recording.figures
        self.unowned = recording.unowned
        self._handles: _Handles | None = None
        handles = _Handles(recording, 0, pool)
        try:
            handles.executable = driver.graph.instantiate(recording.graph)
            driver.graph.upload(handles.executable, recording.stream)
        except BaseException as error:
            if handles.executable:
                # What is being raised says more than an executable that cannot be destroyed.
                with contextlib.suppress(DriverError):
                    driver.graph.exec_destroy(handles.executable)
            if isinstance(error, ContextPoisoned) or not isinstance(error, DriverError):
                raise
            raise CaptureFailed(f"the graph of {self.label!r} cannot be used: {error}") from error
        self._handles = handles
        self._finalizer = weakref.finalize(self, _dropped.append, handles)
        self._finalizer.atexit = False

    @property
    def launches(self) -> int:
        """Kernels that a launch of the graph runs, the libraries' included."""
        return self.census.kernels

    @property
    def retained_bytes(self) -> int:
        """Bytes of the pool that only this graph keeps; 0 once closed."""
        return 0 if self._handles is None else self._handles.pool.retained(self._handles.owner)

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._handles is None

    def launch(self) -> None:
        """Run the whole pass once, in stream order: one driver call."""
        if self._handles is None:
            raise PhaseError(f"the graph of {self.label!r} is closed")
        driver.graph.launch(self._handles.executable, self.stream)

    def close(self) -> None:
        """Wait for launches in flight, destroy the graph, give its memory back. Idempotent.

        Raises PhaseError inside a window, DriverError if a destroy failed (all is tried first).
        """
        handles = self._handles
        if handles is None:
            return
        if open_window.mine() is not None:
            raise PhaseError(f"the graph of {self.label!r} cannot be closed inside a window")
        self._handles = None
        self._finalizer.detach()
        handles.give_back()
