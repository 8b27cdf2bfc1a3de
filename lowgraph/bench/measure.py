"""Measuring cases: rivals open side by side, then arms take turns in bursts, then a traced run."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowgraph.bench.cases import Case
from lowgraph.bench.process import ArmFailed, ArmProcess
from lowgraph.bench.rows import Rival

__all__ = ["Limit", "Measured", "measure", "start"]

_OPEN_S, _BURST_S = 900.0, 120.0  # compiling a model takes minutes, a burst does not
_HOST_STEPS = 4  # few, behind a wait: more would wait for room in the queue or in the feed's ring
_TRACED_STEPS = 5
_MOST_STEPS = 500
_FEWEST_THREADS = 4  # of a rival's compiler: the largest is still at it when the others are done


class Limit:
    """Minutes that a run may take; None is no limit."""

    def __init__(self, minutes: float | None) -> None:
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    def left(self) -> float:
        """Seconds."""
        return float("inf") if self._end is None else self._end - time.monotonic()

    def opening(self) -> float:
        """Seconds that rivals may take to open: half of what is left, so that there is a rest."""
        return min(_OPEN_S, max(0.0, self.left() / 2))


@dataclass
class Measured:
    """What is known of an arm. wall, host: microseconds of a step, one figure a round.

    opened_s: seconds until it could be timed, compiling included. steps: of a burst. error: why it
        has no figures, or no more, "" if nothing failed.
    """

    who: str
    facts: dict[str, Any] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    opened_s: float = 0.0
    steps: int = 1
    trace: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def measure(
    cases: Sequence[Case], programs: Path, *, with_rivals: bool, rounds: int, burst_ms: float,
    say: Callable[[str], None], limit: Limit,
) -> Iterator[list[Measured]]:  # fmt: skip
    """All arms of each case, ours first, as they are done; one that fails keeps its place.

    The rivals of all cases are opened first, side by side: compiling takes longer than all timing,
    and hardly more than one core. Nothing opens while anything is timed. A case that is reached
    when the time is over is [].
    """
    with _Crew(programs, limit, say) as crew:
        rivals = crew.open_rivals(cases if with_rivals and limit.left() > 0 else ())
        for number, case in enumerate(cases):
            if limit.left() <= 0:
                yield []
                continue
            say(f"{case.row.id} {case.config}")
            lanes = [*crew.open(case, case.arms(False)[0]), *rivals.get(number, ())]
            _time(lanes, rounds, burst_ms)
            crew.close(lanes)
            yield [lane.found for lane in lanes]


def _time(lanes: Sequence[_Lane], rounds: int, burst_ms: float) -> None:
    alive = [lane for lane in lanes if not lane.found.error]
    for lane in alive:
        lane.settle(burst_ms)
    for number in range(rounds):
        first = number % max(1, len(alive))  # who begins changes, so that nobody always does
        for lane in (*alive[first:], *alive[:first]):
            lane.round()
    for lane in alive:
        lane.trace()


class _Crew:
    """The processes of a run's arms; leaving closes those that are there still."""

    def __init__(self, programs: Path, limit: Limit, say: Callable[[str], None]) -> None:
        self._programs = programs
        self._limit = limit
        self._say = say
        self._speaking = threading.Lock()  # print writes a text and its end of line apart
        self._started: list[ArmProcess] = []

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *error: object) -> None:
        self._close(self._started)

    def open(
        self, case: Case, arm: Rival, seconds: float = _OPEN_S, threads: int = 0
    ) -> list[_Lane]:
        """Start a process and its arm or arms; threads: of the process's compiler, 0 is its own."""
        begin = time.monotonic()
        process = start(case, arm, self._programs, threads)
        self._started.append(process)
        lanes = _opened(process, case, arm, seconds)
        for lane in lanes:
            lane.found.opened_s = time.monotonic() - begin
        with self._speaking:
            self._say(f"  {case.row.id} {arm.who}: {_outcome(lanes[0].found)}")
        return lanes

    def open_rivals(self, cases: Sequence[Case]) -> dict[int, list[_Lane]]:
        """The rivals of each case by its number."""
        wanted = [(n, case, arm) for n, case in enumerate(cases) for arm in case.arms(True)[1:]]
        if not wanted:
            return {}
        threads = max(_FEWEST_THREADS, len(os.sched_getaffinity(0)) // len(wanted))
        found: dict[int, list[_Lane]] = {}
        with ThreadPoolExecutor(len(wanted)) as pool:
            opened = pool.map(
                lambda each: self.open(each[1], each[2], self._limit.opening(), threads), wanted
            )
            for (number, _, _), lanes in zip(wanted, opened, strict=True):
                found.setdefault(number, []).extend(lanes)
        return found

    def close(self, lanes: Sequence[_Lane]) -> None:
        """End the processes of some arms, side by side."""
        done = list(dict.fromkeys(lane.process for lane in lanes))
        self._started = [process for process in self._started if process not in done]
        self._close(done)

    @staticmethod
    def _close(processes: Sequence[ArmProcess]) -> None:
        with ThreadPoolExecutor(max(1, len(processes))) as pool:
            list(pool.map(lambda process: process.close(), processes))


def _outcome(found: Measured) -> str:
    failed = f"failed: {' '.join(found.error.split())}" if found.error else "ready"
    return f"{failed} ({found.opened_s:.0f} s)"


class _Lane:
    """An arm in its process."""

    def __init__(self, process: ArmProcess, found: Measured) -> None:
        self.process = process
        self.found = found

    def settle(self, burst_ms: float) -> None:
        """Warm up and choose how many steps a burst has."""
        for steps in (3, 10):
            figures = self._ask("burst", steps)
        if figures:
            wanted = burst_ms * 1e3 / max(figures["wall_us"], figures["host_us"], 1e-3)
            self.found.steps = int(min(max(wanted, 3), _MOST_STEPS))

    def round(self) -> None:
        """One burst for the wall's time, one short one for the host's."""
        wall = self._ask("burst", self.found.steps)
        host = self._ask("burst", _HOST_STEPS)
        if wall and host:
            self.found.wall.append(wall["wall_us"])
            self.found.host.append(host["host_us"])

    def trace(self) -> None:
        """The busy time, by a run that is not timed."""
        self.found.trace = self._ask("trace", _TRACED_STEPS)

    def _ask(self, what: str, steps: int) -> dict[str, Any]:
        """The answer; {} from the first failure on."""
        if self.found.error:
            return {}
        try:
            answer: dict[str, Any] = self.process.ask(
                _BURST_S, do=what, who=self.found.who, steps=steps
            )
        except ArmFailed as error:
            self.found.error = f"{what}: {error}"
            return {}
        return answer


def start(case: Case, arm: Rival, programs: Path, threads: int = 0) -> ArmProcess:
    """The process of an arm, which is not opened yet; threads: as _Crew.open."""
    return ArmProcess(case.command(arm, programs), _environment(programs, threads), programs)


def _opened(process: ArmProcess, case: Case, arm: Rival, seconds: float) -> list[_Lane]:
    spec = {**case.spec, "who": arm.who, "mode": arm.mode}
    try:
        facts = process.ask(seconds, do="open", spec=spec)
    except ArmFailed as error:
        return [_Lane(process, Measured(arm.who, error=str(error)))]
    return [_Lane(process, Measured(name, told)) for name, told in facts.items()]


def _environment(programs: Path, threads: int) -> dict[str, str]:
    """What is imported here is imported there; JAX leaves the card's memory to the others."""
    path = os.pathsep.join([str(programs.parent), *filter(None, sys.path)])
    found = {**os.environ, "PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return found | ({"TORCHINDUCTOR_COMPILE_THREADS": str(threads)} if threads else {})
