"""What has to be given back to driver and pool, apart from the objects that users hold.

The garbage collector never reaches the driver: an object that is dropped without `close()` leaves
what it held in a queue, which the next capture, or `drain_dropped()`, empties outside windows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from lowgraph import driver
from lowgraph.capture.journal import Journal
from lowgraph.capture.window import Owner
from lowgraph.errors import ContextPoisoned, DriverError
from lowgraph.memory import PersistentPool, Primed, open_window

_POLL = 5e-5  # seconds

__all__ = ["GraphHandles", "PrimedPass", "drain_dropped", "dropped"]


class Dropped(Protocol):
    """Something that the collector found unclosed."""

    def give_back(self) -> None:
        """Give it back; outside windows."""


dropped: deque[Dropped] = deque()


def drain_dropped() -> int:
    """Give back what the collector found unclosed; returns how many. Not inside a window."""
    count = 0
    while dropped and open_window.mine() is None:
        with open_window.LOCK:
            pass  # waits for a window's end, or raises while nothing has left the queue
        count += _give_next_back()
    return count


def _give_next_back() -> int:
    """The oldest, and with a priming pass those of its pool that follow it; returns how many.

    Together, because a pool looks through all that it holds to release anything: one by one, the
    time grew with the square of their number.
    """
    first = dropped.popleft()
    if not isinstance(first, PrimedPass):
        first.give_back()
        return 1
    passes = [first]
    while dropped:
        following = dropped.popleft()
        if not isinstance(following, PrimedPass) or following.pool is not first.pool:
            dropped.appendleft(following)
            break
        passes.append(following)
    first.pool.drop(*filter(None, [each.take_out() for each in passes]))
    return len(passes)


class PrimedPass:
    """The slices that a priming pass keeps for a window that has not begun, and its journal."""

    def __init__(self, pool: PersistentPool, detail: str = "full") -> None:
        self.pool = pool
        self.primed: Primed | None = None
        self.journal = Journal(detail)

    def drop_later(self) -> None:
        """What the collector calls: the slices are given back by whoever drains the queue."""
        if self.primed is not None:
            dropped.append(self)

    def give_back(self) -> None:
        """The slices are free. Idempotent."""
        primed = self.take_out()
        if primed is not None:
            self.pool.drop(primed)

    def take_out(self) -> Primed | None:
        """What it keeps, for the caller to drop."""
        primed, self.primed = self.primed, None
        return primed


class GraphHandles:
    """An executable, the graph it was instantiated from, and what its kernels need.

    contents: the graph that the executable has been updated to, or the first one. It keeps what an
    update replaced until `retire`.
    """

    def __init__(self, graph: int, stream: int, owner: Owner, pool: PersistentPool) -> None:
        self.graph = graph
        self.contents = graph
        self.executable = 0
        self.stream = stream
        self.owner = owner
        self.pool = pool
        self._replaced: list[tuple[int, Owner]] = []

    def replace(self, contents: int, owner: Owner) -> None:
        """The executable was updated to another graph, which another owner holds memory for."""
        self._replaced.append((self.contents, self.owner))
        self.contents, self.owner = contents, owner

    def retire(self) -> None:
        """Give back what the executable held before its updates, once no launch uses it."""
        if not self._replaced:
            return
        replaced, self._replaced = self._replaced, []
        # The first graph stays: it names the nodes of the executable.
        graphs = [graph for graph, _ in replaced if graph != self.graph]
        self._give_back([], graphs, [owner for _, owner in replaced])

    def give_back(self) -> None:
        """Wait until idle, destroy, release. Everything is tried; the first error is raised."""
        replaced, self._replaced = self._replaced, []
        graphs = dict.fromkeys([self.graph, self.contents, *(graph for graph, _ in replaced)])
        owners = [self.owner, *(owner for _, owner in replaced)]
        driver.poison.graph_names.pop(self.executable, None)
        self.pool.forget_executable(self)
        self._give_back([self.executable], list(graphs), owners)

    def _give_back(self, executables: list[int], graphs: list[int], owners: list[Owner]) -> None:
        acts: list[Callable[[], None]] = [
            self.pool.device.make_current,  # a thread that only closes has no context
            partial(_finish, self.stream),
            *(partial(driver.graph.exec_destroy, executable) for executable in executables),
            *(partial(driver.graph.destroy, graph) for graph in graphs),
        ]
        known = driver.poison.current is not None
        errors: list[DriverError] = []
        for act in acts:
            try:
                act()
            except DriverError as error:
                errors.append(error)
        for owner in owners:
            self.pool.release(owner)
            owner.let_go()
        # A lost device that was told before is no news; a fault that this wait sees first is.
        if errors and not (known and isinstance(errors[0], ContextPoisoned)):
            raise errors[0]


def _finish(stream: int) -> None:
    # A query is what breaks a global-mode capture of another thread, which holds the lock for as
    # long as it lasts; and nobody should wait for the lock while this waits for the device.
    while True:
        with open_window.LOCK:
            if driver.stream.is_done(stream):
                return
        time.sleep(_POLL)
