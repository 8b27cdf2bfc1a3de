"""Measuring a case: its arms' processes, bursts in turn, a traced run at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowgraph.bench.cases import Case
from lowgraph.bench.process import ArmFailed, ArmProcess
from lowgraph.bench.rows import Rival

__all__ = ["Measured", "measure", "start"]

_OPEN_S, _BURST_S = 900.0, 120.0  # compiling a model takes minutes, a burst does not
_HOST_STEPS = 4  # few, behind a wait: more would wait for room in the queue or in the feed's ring
_TRACED_STEPS = 5
_MOST_STEPS = 500


@dataclass
class Measured:
    """What is known of an arm. wall, host: microseconds of a step, one figure a round.

    steps: of a burst. error: why it has no figures, or no more, "" if nothing failed.
    """

    who: str
    facts: dict[str, Any] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    steps: int = 1
    trace: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def measure(
    case: Case, programs: Path, *, with_rivals: bool, rounds: int, burst_ms: float,
    say: Callable[[str], None],
) -> list[Measured]:  # fmt: skip
    """All arms of a case; one that fails keeps its place, with the error."""
    lanes: list[_Lane] = []
    with _processes() as started:
        for arm in case.arms(with_rivals):
            say(f"  {arm.who}: starting")
            process = start(case, arm, programs)
            started.append(process)
            lanes += _opened(process, case, arm.who, arm.mode)
        alive = [lane for lane in lanes if not lane.found.error]
        for lane in alive:
            lane.settle(burst_ms)
        for number in range(rounds):
            first = number % max(1, len(alive))  # who begins changes, so that nobody always does
            for lane in (*alive[first:], *alive[:first]):
                lane.round()
        for lane in alive:
            lane.trace()
    return [lane.found for lane in lanes]


class _Lane:
    """An arm in its process."""

    def __init__(self, process: ArmProcess, found: Measured) -> None:
        self._process = process
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
            answer: dict[str, Any] = self._process.ask(
                _BURST_S, do=what, who=self.found.who, steps=steps
            )
        except ArmFailed as error:
            self.found.error = f"{what}: {error}"
            return {}
        return answer


def start(case: Case, arm: Rival, programs: Path) -> ArmProcess:
    """The process of an arm, which is not opened yet."""
    return ArmProcess(case.command(arm, programs), _environment(programs), programs)


def _opened(process: ArmProcess, case: Case, who: str, mode: str) -> list[_Lane]:
    try:
        facts = process.ask(_OPEN_S, do="open", spec={**case.spec, "who": who, "mode": mode})
    except ArmFailed as error:
        return [_Lane(process, Measured(who, error=str(error)))]
    return [_Lane(process, Measured(name, told)) for name, told in facts.items()]


@contextmanager
def _processes() -> Iterator[list[ArmProcess]]:
    started: list[ArmProcess] = []
    try:
        yield started
    finally:
        for process in started:
            process.close()


def _environment(programs: Path) -> dict[str, str]:
    """What is imported here is imported there; JAX leaves the card's memory to the others."""
    path = os.pathsep.join([str(programs.parent), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
