"""One measuring run of a step: its kernels and nodes by stage, and the time of each stage.

A plain step and one with timers run in turns, so that what the timers cost is known from the same
minutes. The run waits for each step: its figures are of steps one by one, not of a queue.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from lowgraph import driver
from lowgraph.capture import CapturedGraph, StageTimer, StageTimes
from lowgraph.stages import inclusive, without
from lowgraph.train.atlas.clock import step_clock
from lowgraph.train.atlas.roadmap import Link, links_of
from lowgraph.train.atlas.rows import Row, in_order
from lowgraph.train.atlas.subject import Kernels, Subject, by_stage, nodes

__all__ = ["Measured", "measure"]


@dataclass
class Measured:
    """What one run found. Times in microseconds.

    launches: kernels of an eager step. nodes: of the graph, without timers. rows: see `rows`.
    plain_us, timed_us: of each step after the first two, on the device, without and with timers.
    eager_us: of an eager step, from the host's view, one behind the other. eager_stages_us: of an
    eager step by stage, inner stages included, on the device; idle time between launches is in it.
    event_nodes: that the timers add. arms: that the step entered. why_no_graph: "" if it has one.
    links: the graph's nodes in order, for the roadmap.
    """

    launches: Kernels = field(default_factory=Kernels)
    nodes: Kernels = field(default_factory=Kernels)
    rows: list[Row] = field(default_factory=list)
    plain_us: list[float] = field(default_factory=list)
    timed_us: list[float] = field(default_factory=list)
    eager_us: float = 0.0
    eager_stages_us: dict[str, float] = field(default_factory=dict)
    event_nodes: int = 0
    arms: tuple[str, ...] = ()
    why_no_graph: str = ""
    links: list[Link] = field(default_factory=list)

    @property
    def step_us(self) -> float:
        """Median of a step without timers, on the device."""
        return median(self.plain_us)

    @property
    def timed_step_us(self) -> float:
        """Median of a step with timers, on the device."""
        return median(self.timed_us)

    @property
    def spread_us(self) -> float:
        """From the fastest plain step to the slowest: smaller differences of medians say little."""
        return max(self.plain_us) - min(self.plain_us)


def measure(subject: Subject, steps: int, graph: bool = True) -> Measured:
    """Run `steps` timed steps, as many plain ones, and a third as many eager ones.

    steps: at least 3: the first primes, the second records. graph: False launches every kernel of
    every step. Raises what the step raises.
    """
    found = Measured()
    with ExitStack() as undo:
        timer = undo.enter_context(StageTimer(subject.body))
        plain = undo.enter_context(subject.graph_step(subject.body, "plain", graph))
        timed = undo.enter_context(subject.graph_step(timer, "timed", graph))
        clock = undo.enter_context(step_clock(subject.stream))
        for _ in range(2):
            subject.around(plain)
        found.why_no_graph = plain.report().why_no_graph
        _count(found, subject, plain.graph)
        for number in range(1, steps + 1):
            if number > 2:
                subject.around(lambda: found.plain_us.append(clock(plain)))
            subject.around(lambda: found.timed_us.append(clock(timed)))
            found.rows += _rows(number, found, timer.recorded, timer.read())
        del found.timed_us[:2]
        found.event_nodes = timer.events if timer.recorded else 0
        driver.stream.synchronize(subject.stream)
        undo.callback(driver.stream.synchronize, subject.stream)
        _time_eager(found, subject, max(1, steps // 3))
    return found


def _count(found: Measured, subject: Subject, graph: CapturedGraph | None) -> None:
    with without() as asked:
        found.launches = subject.launches(graph)
    found.arms = tuple(sorted(asked))
    if graph is not None:
        found.nodes = nodes(graph)
        found.links = links_of(graph)


def _rows(number: int, found: Measured, replayed: bool, times: StageTimes) -> Iterator[Row]:
    """A step's rows: all stages of the step, the first time in the order of the eager pass."""
    us = times.us()
    known = dict.fromkeys(row.stage for row in found.rows) or us
    sent = inclusive(by_stage(Kernels() if replayed else found.launches))
    ran = inclusive(by_stage(found.nodes if replayed else Kernels()))
    for stage in in_order((*known, *us, *sent, *ran)):
        counts = int(sent.get(stage, 0)), int(ran.get(stage, 0))
        yield Row(number, stage, *counts, us.get(stage, 0.0))


def _time_eager(found: Measured, subject: Subject, steps: int) -> None:
    begin = time.perf_counter()
    for _ in range(steps):
        subject.eager()
    driver.stream.synchronize(subject.stream)
    found.eager_us = 1e6 * (time.perf_counter() - begin) / steps
    sums: dict[str, float] = {}
    with StageTimer(subject.body) as timer:
        for _ in range(steps):
            subject.eager(timer)
            for stage, us in timer.read().us().items():
                sums[stage] = sums.get(stage, 0.0) + us
    found.eager_stages_us = {stage: us / steps for stage, us in sums.items()}
