"""StepReport: what a step did, zeros included, as data and as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lowgraph.capture.records import LaunchRecord, LibraryCall
from lowgraph.errors import ExecUpdateRejected
from lowgraph.memory import PassFigures, counted, readable

__all__ = ["StepReport"]

# Numbers and addresses, but not a place's line: a frozen rate is one reason, whatever its value.
_VALUE = re.compile(r"(?<![\w.:/])-?\d[\w.+-]*")


def _without_values(reason: str) -> str:
    return _VALUE.sub("#", reason)


@dataclass
class StepReport:
    """Figures of a GraphStep since it was made.

    phase: name of the present phase. why_no_graph: "" while a graph is live.
    eager_steps, replays: steps that ran without and with the graph; `steps` is their sum. A priming
        pass is an eager step.
    captures: graphs recorded, by the first capture and by recaptures. Of the recaptures, updates
        gave a live executable new parameters; reinstantiations made another executable, as
        `rejections` counts by reason (ExecUpdateRejected.reason) and last_rejection says in full.
    deferred: graphs and primed passes, of any step, that were dropped without close() and that this
        step gave back.
    refusals: attempts refused, with the first reason, and how often each was given.
    launches_eager_step: kernels of one eager step, those of libraries included where they could be
        counted; library_calls_eager_step: library calls where they could not, which only a capture
        can do, so it is 0 once the step was recorded. launches_replay_step: launches of one replay,
        counted at the gate. nodes: of the graph; nodes_in_bodies: of its conditionals; kernels:
        among both.
    stages: kernels of the latest recording by the stage that launched them ("" outside of any);
        empty if it names none.
    inputs: declared ones, checked at each replay. pins, pin_launches: those that may move, and the
        launches that they add to a replay; pin_prices: of each by name.
    draws: counters, four random numbers each, that a step takes of each random state by name.
    pool_bytes: held by the pool from the driver. retained_bytes: kept by the graph alone.
    primed, window: what the last priming pass and the last window took from the pool.
    unowned: addresses that the graph's kernels were given and that neither a slice nor a staging
        slot of the pool covers: what keeps them valid is up to the caller.
    shape_warning: where the latest recorded pass had other sizes than its priming pass, or "".
    """

    label: str
    device: str
    phase: str = "COLD"
    why_no_graph: str = ""
    eager_steps: int = 0
    replays: int = 0
    captures: int = 0
    updates: int = 0
    reinstantiations: int = 0
    rejections: dict[str, int] = field(default_factory=dict)
    last_rejection: str = ""
    deferred: int = 0
    refusals: int = 0
    first_refusal: str = ""
    reasons: dict[str, int] = field(default_factory=dict)
    launches_eager_step: int = 0
    library_calls_eager_step: int = 0
    launches_replay_step: int = 0
    kernels: int = 0
    nodes: int = 0
    nodes_by_type: dict[str, int] = field(default_factory=dict)
    stages: dict[str, int] = field(default_factory=dict)
    nodes_in_bodies: int = 0
    inputs: int = 0
    pins: int = 0
    pin_launches: int = 0
    pin_prices: dict[str, str] = field(default_factory=dict)
    draws: dict[str, int] = field(default_factory=dict)
    pool_bytes: int = 0
    retained_bytes: int = 0
    primed: PassFigures = field(default_factory=PassFigures)
    window: PassFigures = field(default_factory=PassFigures)
    unowned: int = 0
    shape_warning: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def launches_known(self) -> bool:
        """Whether the launches of an eager step were counted."""
        return self.launches_eager_step + self.library_calls_eager_step > 0

    @property
    def steps(self) -> int:
        """Steps that ran."""
        return self.eager_steps + self.replays

    def count_refusal(self, reason: str) -> bool:
        """Count a refused attempt; returns whether the reason is a new one, values in it apart."""
        new = _without_values(reason) not in map(_without_values, self.reasons)
        self.refusals += 1
        self.first_refusal = self.first_refusal or reason
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        return new

    def count_rejection(self, rejection: ExecUpdateRejected) -> None:
        """Count an executable that was made afresh because the live one could not be updated."""
        self.reinstantiations += 1
        self.rejections[rejection.reason] = self.rejections.get(rejection.reason, 0) + 1
        self.last_rejection = str(rejection)

    def count_launches(
        self, launches: Sequence[LaunchRecord], library: Sequence[LibraryCall]
    ) -> None:
        """Take the figures of an eager step."""
        self.launches_eager_step = len(launches) + sum(call.kernels or 0 for call in library)
        self.library_calls_eager_step = sum(call.kernels is None for call in library)

    def count_stages(
        self, launches: Sequence[LaunchRecord], library: Sequence[LibraryCall]
    ) -> None:
        """Take the kernels of a recorded pass by stage, in the order of their first launches."""
        found: Counter[str] = Counter()
        for launch in launches:
            found[launch.stage] += 1
        for call in library:
            found[call.stage] += call.kernels or 0
        self.stages = dict(found) if any(found) else {}

    def _launches_text(self) -> str:
        calls = self.library_calls_eager_step
        uncounted = f" and {counted(calls, 'library call')} of unknown kernels" if calls else ""
        return (
            f"  launches: {self.launches_eager_step}{uncounted} in an eager step, "
            f"{self.launches_replay_step} in a replay"
        )

    def _stages_text(self) -> list[str]:
        told = ", ".join(f"{name or 'in none'} {count}" for name, count in self.stages.items())
        return [f"  kernels by stage: {told}"] if told else []

    def text(self) -> str:
        """The report for people, one figure group a line."""
        told = self.first_refusal in self.why_no_graph  # also when there was none
        bodies = f" and {self.nodes_in_bodies} in bodies" if self.nodes_in_bodies else ""
        lines = [
            f"{self.label} on {self.device}: {self.phase}"
            + (f" (no graph: {self.why_no_graph})" if self.why_no_graph else ""),
            f"  steps {self.steps}: {self.eager_steps} eager, {self.replays} replayed",
            f"  captures {self.captures}, updates {self.updates}, refusals {self.refusals}"
            + ("" if told else f"; first: {self.first_refusal}"),
            f"  deferred destroys {self.deferred}, re-instantiations {self.reinstantiations}"
            + "".join(f", {reason} {count}" for reason, count in self.rejections.items())
            + (f"; last: {self.last_rejection}" if self.last_rejection else ""),
            self._launches_text(),
            f"  graph: {counted(self.nodes, 'node')}{bodies}, kernels among them: {self.kernels}",
            *self._stages_text(),
            f"  pins {self.pins} (launches a replay: {self.pin_launches})",
            *(f"    {name}: {price}" for name, price in self.pin_prices.items()),
            *(f"  {name}: {counted(draws, 'draw')} a replay" for name, draws in self.draws.items()),
            f"  pool {readable(self.pool_bytes)}, {readable(self.retained_bytes)} retained by "
            f"the graph, addresses outside the pool: {self.unowned}",
            f"  priming: {self.primed.text()}",
            f"  window: {self.window.text()}",
        ]
        lines += [f"  warning: {self.shape_warning}"] if self.shape_warning else []
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])
