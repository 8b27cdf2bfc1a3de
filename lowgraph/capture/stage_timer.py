"""StageTimer: the device time of each stage of a step, also of a step that is one graph.

    timer = StageTimer(body)
    step = GraphStep(timer, device=device, pool=pool, library=library, stream=stream)
    step()
    timer.read().us()          # microseconds by stage, of the step that ran last
    ...
    step.close()
    timer.close()

It wraps the body and records a timing event wherever a stage begins or ends: in an unrecorded pass
a plain one, in a capture an event record node (CU_EVENT_RECORD_EXTERNAL), which takes the time anew
at each replay. A body that is not wrapped has none of it. The nodes cost time of their own, so that
a timed graph is to be set against a plain one (`lowgraph.train.atlas` does).

Stages that follow each other share an event where a capture recorded nothing between them. What
lies between two events is one stage's, the innermost, so that the times of all add up to the whole.
Events are recorded on the body's stream alone: work of a forked stream counts from the join on. No
node of a conditional's body can record one (facts of the driver): its time is that of the stage
that the conditional stands in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from lowgraph import counters, driver
from lowgraph.capture.closing import Closing
from lowgraph.counters import Counts
from lowgraph.driver import captures, event
from lowgraph.errors import PhaseError
from lowgraph.stages import current, inclusive, listening

__all__ = ["StageTimer", "StageTimes"]


@dataclass(frozen=True)
class StageTimes:
    """Figures of one step by stage, in the order in which stages were first met.

    own_us: microseconds on the device between events, of the innermost stage; what is in no stage
        is that of "". own_nodes: nodes that a capture recorded there, events left out; all 0 of
        an unrecorded pass. own_launches: kernels that an unrecorded pass launched there, of this
        library, by any thread; all 0 of a recorded one.
    """

    own_us: dict[str, float]
    own_nodes: dict[str, int]
    own_launches: dict[str, int]

    def us(self) -> dict[str, float]:
        """Microseconds by stage, inner stages included."""
        return inclusive(self.own_us)

    def nodes(self) -> dict[str, int]:
        """Nodes by stage, inner stages included."""
        return {path: int(count) for path, count in inclusive(self.own_nodes).items()}

    def launches(self) -> dict[str, int]:
        """Launches by stage, inner stages included."""
        return {path: int(count) for path, count in inclusive(self.own_launches).items()}

    @property
    def total_us(self) -> float:
        """Microseconds from the first event to the last."""
        return sum(self.own_us.values())


@dataclass(frozen=True)
class _Interval:
    """What lies between two events: whose it is, and the nodes, or else launches, made there."""

    path: str
    start: int
    end: int
    made: int


class _Pass:
    """One pass of a body, told of its stages: events on its stream, intervals between them."""

    def __init__(self, stream: int, recorded: bool, spare: list[int], counts: Counts) -> None:
        self.events: list[int] = []
        self.intervals: list[_Interval] = []
        self.recorded = recorded
        self._stream = stream
        self._spare = spare
        self._counts = counts
        self._thread = threading.get_ident()
        self._seen = 0  # nodes or launches at the last event, that event's node included
        self._mark()

    def begin(self, path: str) -> None:
        """A stage begins: what was before is its surroundings'."""
        if threading.get_ident() == self._thread:
            self.cut(current())

    def end(self, path: str) -> None:
        """A stage ends: what was before is its own."""
        if threading.get_ident() == self._thread:
            self.cut(path)

    def cut(self, path: str) -> None:
        """End an interval of stage `path` here, unless nothing was recorded in it."""
        recorder = captures.recorder()
        if self.recorded and recorder is not None and recorder.placed[0]:
            return  # in the body of a conditional
        made = self._count() - self._seen
        if made or not self.recorded:
            start = self.events[-1]
            self._mark()
            self.intervals.append(_Interval(path, start, self.events[-1], made))

    def made(self) -> dict[str, int]:
        """Nodes, or else launches, by stage."""
        sums: dict[str, int] = {}
        for one in self.intervals:
            sums[one.path] = sums.get(one.path, 0) + one.made
        return sums

    def _mark(self) -> None:
        made = self._spare.pop() if self._spare else event.create(timing=True)
        self.events.append(made)
        event.record(made, self._stream, external=self.recorded)
        self._seen = self._count()

    def _count(self) -> int:
        if not self.recorded:
            return self._counts.launches
        graph = driver.stream.capture_graph(self._stream)
        return self._seen if graph is None else driver.graph.count_nodes(graph)


class StageTimer(Closing):
    """See the module. Calling it runs one pass of `body` on a stream, timed.

    One thread runs it and reads it. Close it after the graphs that were recorded with it.

    Attributes: own_launches, of the latest unrecorded pass by stage (see StageTimes).
    """

    def __init__(self, body: Callable[[int], None]) -> None:
        self.own_launches: dict[str, int] = {}
        self._body = body
        self._latest: _Pass | None = None
        self._stream = 0
        self._spare: list[int] = []
        self._events: list[int] = []  # of recordings: a graph may still record them

    def __call__(self, stream: int) -> None:
        """Enqueue or record one step."""
        recorded = driver.stream.capture_status(stream) == "active"
        with counters.scope() as counts:
            timed = _Pass(stream, recorded, self._spare, counts)
            try:
                with listening(timed):
                    self._body(stream)
                timed.cut(current())
            except BaseException:
                self._keep(timed)
                raise
        before, self._latest, self._stream = self._latest, timed, stream
        if before is not None:
            self._keep(before)
        if not recorded:
            self.own_launches = timed.made()

    @property
    def recorded(self) -> bool:
        """Whether the pass that `read` tells of was recorded, and is timed at each replay."""
        return self._latest is not None and self._latest.recorded

    @property
    def events(self) -> int:
        """Events of a pass: the nodes that it adds to a graph. 0 before any."""
        return 0 if self._latest is None else len(self._latest.events)

    def read(self) -> StageTimes:
        """Wait for the stream; returns the times of the latest pass, or of its latest replay.

        Raises PhaseError if none ran to its end yet, DriverError: of a recording that was never
        replayed no event was reached.
        """
        if self._latest is None:
            raise PhaseError("no step was timed yet: run the step, then read its stages")
        driver.stream.synchronize(self._stream)
        times: dict[str, float] = {}
        for one in self._latest.intervals:
            us = 1e3 * event.elapsed_ms(one.start, one.end)
            times[one.path] = times.get(one.path, 0.0) + us
        made = self._latest.made()
        none = dict.fromkeys(made, 0)
        nodes, launches = (made, none) if self._latest.recorded else (none, made)
        return StageTimes(times, nodes, launches)

    def close(self) -> None:
        """Destroy the events. Idempotent."""
        latest, self._latest = self._latest, None
        if latest is not None:
            self._keep(latest)
        for events in (self._spare, self._events):
            while events:
                event.destroy(events.pop())

    def _keep(self, done: _Pass) -> None:
        """A pass whose times nobody will read: its events serve again, unless a graph has them."""
        (self._events if done.recorded else self._spare).extend(done.events)
        done.events = []
