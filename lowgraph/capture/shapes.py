"""ShapeKeyedSteps: one GraphStep for each shape, in a cache with a budget of graphs and of bytes.

    steps = ShapeKeyedSteps(lambda key: GraphStep(body_for(key), ...), pool=pool, max_graphs=8)
    for batch in batches:
        steps(batch.shape)          # the step of that shape: primed, recorded, or replayed
    print(steps.report().text())
    steps.close()

A graph for every shape ever seen fills the device, and what fails then is somebody else's call. So
the least recently used step goes when a new one needs its place: one whose replays are done if
there is any; if all are in flight, the least recently used is waited for first.

Giving up on a key (it alone exceeds the budget of bytes, or its step was DISABLED) is counted and
never for good: the key runs without a graph and is tried again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial

from lowgraph import driver
from lowgraph.capture.closing import Closing
from lowgraph.capture.phase import Phase
from lowgraph.capture.shapes_report import ShapesReport
from lowgraph.capture.step import GraphStep
from lowgraph.errors import GraphBudgetExceeded, PhaseError
from lowgraph.integers import integer
from lowgraph.memory import PersistentPool, top_owners
from lowgraph.memory.teardown import do_all

__all__ = ["ShapeKeyedSteps"]


class _Entry:
    """A cached step, the event behind its last call, and the bytes that it keeps in the pool."""

    def __init__(self, step: GraphStep) -> None:
        self.step = step
        try:
            self.event = driver.event.create()
        except BaseException:
            step.close()
            raise
        self.nbytes = 0
        self.recorded = False
        self.calls_disabled = 0

    def run(self) -> None:
        """The step; afterwards its bytes are known."""
        self.step()
        driver.event.record(self.event, self.step.stream)
        if not self.recorded:
            graph = self.step.graph
            self.recorded = graph is not None
            if graph is not None:
                self.nbytes = graph.retained_bytes
            else:
                primed = self.step.phase is Phase.PRIMING
                self.nbytes = self.step.report().primed.used if primed else 0

    def close(self) -> None:
        """Close the step, once idle. Idempotent. Everything is tried."""
        event, self.event = self.event, 0
        destroys = [partial(driver.event.destroy, event)] if event else []
        do_all((self.step.close, *destroys))


class ShapeKeyedSteps(Closing):
    """See the module. One thread uses it.

    make: gives the step of a key, not yet run; the cache closes it. A key is any hashable value.
    max_graphs: most steps to keep. max_bytes: most bytes that they may keep in the pool together,
        primed slices included; None: no limit. Both may be changed between calls.
    strict: raise GraphBudgetExceeded when one key alone exceeds `max_bytes`; False counts it only.
    retry_after: calls of a DISABLED step until it is made anew.
    """

    def __init__(
        self,
        make: Callable[[Hashable], GraphStep],
        *,
        pool: PersistentPool,
        max_graphs: int = 8,
        max_bytes: int | None = None,
        strict: bool = True,
        retry_after: int = 100,
    ) -> None:
        """Make an empty cache. Raises ConfigError for a budget without room for any graph."""
        self.max_graphs = integer(max_graphs, "max_graphs", 1)
        self.max_bytes = None if max_bytes is None else integer(max_bytes, "max_bytes", 1)
        self.strict = strict
        self.retry_after = integer(retry_after, "retry_after", 1)
        self._make = make
        self._pool = pool
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()  # least recently used first
        self._evicted: set[Hashable] = set()
        self._closed = False
        self._counts = ShapesReport()

    def __len__(self) -> int:
        """Return the number of steps kept."""
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        """Return whether the step of a key is kept."""
        return key in self._entries

    def __call__(self, key: Hashable) -> None:
        """Run the next step of this shape; returns when it is enqueued.

        Raises what the step raises, and, with `strict`, GraphBudgetExceeded: the step *has run*
        then, without a graph.
        """
        entry = self._entry(key)
        try:
            entry.run()
        except BaseException:
            if entry.step.phase is Phase.COLD:  # it never got anywhere: keep no place for it
                self._drop(key)
            raise
        self._retry_disabled(key, entry)
        self._fit(key, entry)

    def step(self, key: Hashable) -> GraphStep | None:
        """The kept step of a key, or None; no use of it."""
        entry = self._entries.get(key)
        return None if entry is None else entry.step

    def forget(self, key: Hashable) -> None:
        """Close the step of a key, once idle, if there is one."""
        if key in self._entries:
            self._drop(key)

    def report(self) -> ShapesReport:
        """The figures so far: a copy."""
        return self._counts.at(len(self._entries), self._nbytes, self.max_graphs, self.max_bytes)

    def close(self) -> None:
        """Wait for what is in flight and close every step. Idempotent.

        Everything is tried; the first DriverError is raised.
        """
        self._closed = True
        do_all(self._entries.popitem()[1].close for _ in range(len(self._entries)))

    # ---- inside ----

    @property
    def _nbytes(self) -> int:
        return sum(entry.nbytes for entry in self._entries.values())

    def _entry(self, key: Hashable) -> _Entry:
        if self._closed:
            raise PhaseError("this cache of steps is closed: make a new one")
        entry = self._entries.get(key)
        if entry is not None:
            self._counts.hits += 1
            self._entries.move_to_end(key)
            return entry
        self._counts.misses += 1
        while len(self._entries) >= self.max_graphs:
            self._evict(tuple(self._entries))
        if key in self._evicted:
            self._counts.recaptures += 1
            self._evicted.discard(key)
        entry = self._entries[key] = _Entry(self._make(key))
        return entry

    def _fit(self, key: Hashable, entry: _Entry) -> None:
        """Evict others until the bytes fit; give this key up if it alone does not."""
        budget = self.max_bytes
        if budget is None:
            return
        if entry.nbytes > budget:
            error = GraphBudgetExceeded(key, entry.nbytes, budget, top_owners(self._pool))
            self._give_up(key, str(error))
            if self.strict:
                raise error
            return
        while self._nbytes > budget:
            self._evict([other for other in self._entries if other != key])

    def _retry_disabled(self, key: Hashable, entry: _Entry) -> None:
        if entry.step.phase is not Phase.DISABLED:
            return
        entry.calls_disabled += 1
        if entry.calls_disabled == 1:
            self._counts.give_up(key, entry.step.report().why_no_graph)
        if entry.calls_disabled > self.retry_after:
            self._drop(key)

    def _evict(self, candidates: list[Hashable] | tuple[Hashable, ...]) -> None:
        """Close the first candidate that is idle; if none is, wait for the first."""
        entries = self._entries
        idle = (key for key in candidates if driver.event.is_done(entries[key].event))
        victim = next(idle, None)
        if victim is None:
            victim = candidates[0]
            self._counts.waits += 1
            driver.event.synchronize(entries[victim].event)
        if entries[victim].recorded:
            self._evicted.add(victim)
        self._counts.evictions += 1
        self._drop(victim)
        stats = self._pool.stats()
        if stats.free > stats.reserved - stats.free:
            # Steps of changing sizes leave fragments: hold at most twice what is in use, so that
            # others find memory on the device.
            self._counts.trimmed += self._pool.trim()

    def _give_up(self, key: Hashable, reason: str) -> None:
        self._counts.give_up(key, reason)
        self._drop(key)

    def _drop(self, key: Hashable) -> None:
        self._entries.pop(key).close()
