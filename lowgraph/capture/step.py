"""GraphStep: a training step that becomes one graph launch, and goes on without when it cannot.

    step = GraphStep(body, device=device, pool=pool, library=library, stream=stream)
    for _ in range(steps):
        step()                # primes, then records and replays, then replays
    print(step.report().text())
    step.close()

The first call runs `body(stream)` unrecorded: a real step, and the priming pass. The second records
it, during which nothing runs, and launches what it recorded. From then on a call is one launch.
A capture that fails is *refused*: its memory is given back, the reason is said once and counted,
and that call runs the step eagerly instead, as priming for the next attempt; after `max_refusals`
the step stops trying. So it is if another thread's window outlasts the patience of the capture lock
(`capture.beside`). What the body itself raises is not a refusal: it passes through.

`recapture()` records the step anew while its graph stays live.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from functools import partial

from lowgraph import driver
from lowgraph.capture import watching
from lowgraph.capture.closing import Closing
from lowgraph.capture.graph import CapturedGraph
from lowgraph.capture.interrupts import shielded
from lowgraph.capture.passes import Body, StepPasses, to_stderr
from lowgraph.capture.phase import Move, Phase, PhaseMachine
from lowgraph.capture.pin_set import Draws, PinSet
from lowgraph.capture.pins import Input, Pin
from lowgraph.capture.recapture import prime_again, record_again
from lowgraph.capture.replay import first_launch, launched_again, replayer
from lowgraph.capture.report import StepReport
from lowgraph.driver.foreign_stream import StreamLike, stream_handle
from lowgraph.errors import (
    CaptureFailed,
    CaptureInProgress,
    CaptureRefused,
    ContextPoisoned,
    DriverError,
)
from lowgraph.integers import integer
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, open_window
from lowgraph.memory.teardown import do_all

__all__ = ["Body", "GraphStep"]


class GraphStep(Closing):
    """See the module. One thread drives a step; another one may close it.

    body: a plain callable that enqueues one whole step on the stream it is given. It runs several
        times, allocates only from `pool`, and reads what changes from step to step from the device.
    stream: a non-blocking stream, ours or of another library, whose object is kept alive.
    library: nothing is compiled in the window. graph: False never captures, and the report says
        why_off. mode: of the capture. say: told each reason for a refusal once.
    journal: "full" keeps every driver call of a pass with the user's line, "light" failing ones.
    pins, inputs: memory of others that the body uses, see `capture.pins`; checked at every replay.
    random: states on the device that the body draws from, for the report. per_step: names of
        by-value arguments that change from step to step: a graph with one is refused.
    """

    def __init__(
        self,
        body: Body,
        *,
        device: driver.Device,
        pool: PersistentPool,
        stream: StreamLike,
        library: Library | None = None,
        label: str = "step",
        graph: bool = True,
        why_off: str = "graph=False",
        max_refusals: int = 20,
        mode: str = "thread_local",
        say: Callable[[str], None] = to_stderr,
        journal: str = "full",
        pins: Sequence[Pin] = (),
        inputs: Sequence[Input] = (),
        random: Sequence[Draws] = (),
        per_step: Collection[str] = (),
    ) -> None:
        """Make a cold step; nothing runs yet."""
        self.label = label
        self.stream = stream_handle(stream)
        self.max_refusals = integer(max_refusals, f"{label!r}: max_refusals", 0)
        self._say = say
        self._pins = PinSet(
            pins,
            inputs,
            random=random,
            per_step=per_step,
            pool=pool,
            library=library,
            stream=self.stream,
            label=label,
        )
        self.declared: tuple[Pin, ...] = (*inputs, *pins)
        self._pinned = bool(self.declared)
        self._machine = PhaseMachine(label)
        self._graph: CapturedGraph | None = None
        self._launch: Callable[[], None] | None = None  # of a replay; None unless one may be made
        self._replays = 0
        self._counts = StepReport(label, device.spec, why_no_graph="not recorded yet")
        counts, pinned = self._counts, self._pins
        self._passes = StepPasses(body, stream, pool, library, mode, counts, pinned, journal, say)
        if not graph:
            self._disable(why_off)

    # ---- what users call ----

    @property
    def phase(self) -> Phase:
        """The present phase."""
        return self._machine.phase

    @property
    def graph(self) -> CapturedGraph | None:
        """The live graph, or None. A recapture may replace it."""
        return self._graph

    def __call__(self) -> None:
        """Run the next step, by the graph once there is one; returns when it is enqueued.

        Raises what the body or a pin raises, ContextPoisoned, PhaseError on a closed step or when
        called from its own body, CaptureInProgress beside another thread's window over the same
        stream or pool, or a global one if no step ran before. A refusal is not raised: see
        `report()`. HostCallbackError tells, once and before anything is launched, that a host call
        of an earlier step failed.
        """
        if self._launch is None and not self._becomes_ready():
            return
        try:
            self._launch()  # type: ignore[misc]  # ready: not None
        except DriverError as error:
            if self._failed_for_good(error) is not None:
                self._run_without_graph()
                return
        self._replays += 1

    step = __call__

    def prime(self) -> None:
        """Run one real step unrecorded, keeping every slice that it takes for the window.

        Raises what the body raises, and CaptureInProgress if another window does not end.
        """
        self._passes.refuse_nested("prime")
        self._machine.check(Move.PRIME)
        self._machine.go(Phase.PRIMING)
        try:
            self._passes.prime()
        except BaseException:
            self._machine.go(Phase.COLD)
            raise

    def capture(self) -> None:
        """Record the step, instantiate and upload it. Nothing runs: the next replay is the step.

        Raises CaptureRefused with the reason; the attempt's memory is given back then, and the
        phase is REFUSED, or DISABLED after `max_refusals`.
        """
        self._passes.refuse_nested("capture")
        self._machine.check(Move.CAPTURE)
        with shielded():
            self._capture()

    def _capture(self) -> None:
        self._machine.go(Phase.CAPTURING)
        try:
            with self._passes.recorded() as recording:
                graph = CapturedGraph(recording, self._passes.pool)
                self._machine.go(Phase.READY)
                self._go_live(graph)
        except CaptureRefused as refusal:
            if isinstance(refusal, CaptureFailed):
                self._machine.go(Phase.INVALIDATED)
            self._refused(refusal)
            raise
        except CaptureInProgress as error:
            turned_away = self._passes.beside.give_up(error)
            self._refused(turned_away)
            raise turned_away from error
        except BaseException:
            if self.phase is Phase.CAPTURING:  # else a Ctrl-C was held until the graph was live
                self._machine.go(Phase.INVALIDATED)
                self._counts.why_no_graph = "the last window was left by an exception"
            raise

    def replay(self) -> None:
        """Launch the graph once: one driver call, and nothing waits.

        Raises what a pin raises (nothing was launched), CaptureFailed when the driver refuses the
        launch (nothing ran; the graph is given back and the phase is REFUSED), ContextPoisoned.
        """
        launch = self._launch
        if launch is None:
            self._passes.refuse_nested("replay")
            self._machine.check(Move.REPLAY)
            return
        try:
            launch()
        except DriverError as error:
            refusal = self._failed_for_good(error)
            if refusal is not None:
                raise refusal from error
        self._replays += 1

    def recapture(self, free_first: bool = False) -> bool:
        """Record the step anew: a real, unrecorded step first, then the window, which runs nothing.

        The live graph stays until the new recording has taken its place: its executable is updated,
        or, if that is refused (the report says why), another one is instantiated. What the old
        recording held is given back then, once no launch uses it. free_first: the live graph goes
        before anything else, for when two working sets do not fit.

        Returns whether the executable was updated. Raises CaptureRefused with the reason, what the
        body raises, CaptureInProgress and PoolError: the graph from before is live and unchanged
        then, unless free_first.
        """
        self._passes.refuse_nested("recapture")
        self._machine.check(Move.RECAPTURE)
        with shielded():
            return self._recapture(free_first)

    def _recapture(self, free_first: bool) -> bool:
        if free_first:
            self._free_graph()
            self._machine.go(Phase.COLD)
            self._counts.why_no_graph = "freed first for a recapture, not recorded since"
            self.prime()
            self.capture()
            return False
        graph, launch = self._graph, self._launch
        assert graph is not None, "a ready step has a graph"
        self._launch = None  # a body that calls its own step is refused
        try:
            return self._recaptured(graph)
        except BaseException:
            if self._launch is None:  # the graph from before is the live one
                self._launch = None if self._graph is None else launch
            raise

    def close(self) -> None:
        """Wait for replays in flight, destroy the graph and give its memory back. Idempotent.

        Any thread may call it, between the steps of the one that drives this.
        """
        with shielded():
            self._close()

    def _close(self) -> None:
        with open_window.LOCK:
            self._passes.refuse_nested("close")
            self._machine.check(Move.CLOSE)
            if self.phase is Phase.CLOSED:
                return
            self._machine.go(Phase.CLOSED)
            self._counts.why_no_graph = "closed"
            graph, self._graph, self._launch = self._graph, None, None
        graphs = [] if graph is None else [graph.close]
        do_all((self._passes.drop_primed, *graphs, self._pins.close))

    def report(self) -> StepReport:
        """The figures so far: a copy."""
        self._pins.fill(self._counts)
        report = copy.deepcopy(self._counts)
        report.phase = self.phase.name
        report.replays = self._replays
        report.pool_bytes = self._passes.pool.stats().reserved
        report.retained_bytes = 0 if self._graph is None else self._graph.retained_bytes
        return report

    # ---- the way to a graph, and on without ----

    def _becomes_ready(self) -> bool:
        """Capture if a primed step may be; else run the step without a graph, and say so."""
        self._passes.refuse_nested("step")
        driver.callbacks.raise_pending(self.stream)
        if self.phase is Phase.PRIMING:
            try:
                self.capture()
                return True
            except CaptureRefused:
                pass
        self._run_without_graph()
        return False

    def _run_without_graph(self) -> None:
        """The step itself, as a priming pass while another attempt is to come."""
        passes = self._passes
        if self.phase is Phase.DISABLED or passes.goes_on_beside():
            passes.eager()
            return
        try:
            self.prime()
        except CaptureInProgress as error:
            if passes.body_began:  # the body's own: it passes through
                raise
            self._attempt_failed(passes.turned_away(error))
            passes.eager()

    def _recaptured(self, before: CapturedGraph) -> bool:
        """Prime and record beside the live graph; returns whether its executable was updated."""
        prime_again(self._passes)
        try:
            after = record_again(self._passes, before, self._go_live)
        except CaptureRefused as refusal:
            self._count_refusal(refusal)
            raise
        if after is not before:
            before.close()
            return False
        self._counts.updates += 1
        before.release_replaced()
        return True

    # ---- replays ----

    def _go_live(self, graph: CapturedGraph) -> None:
        self._graph = graph
        self._counts.why_no_graph = ""
        self._pins.attach(graph)
        self._launch = partial(self._first_launch, graph)

    def _first_launch(self, graph: CapturedGraph) -> None:
        self._counts.launches_replay_step = first_launch(graph, self._pins, self.stream)
        self._launch = replayer(graph, self._pins if self._pinned else None, self.stream)

    def _failed_for_good(self, error: DriverError) -> CaptureFailed | None:
        """Launch again if only the thread's context was missing; else the refusal, counted."""
        left = launched_again(error, self._launch, self._passes.pool.device)
        return None if left is None else self._replay_refused(left)

    def _replay_refused(self, error: DriverError) -> CaptureFailed:
        """Count a replay that the driver refused; a poisoned context is raised as it is."""
        if isinstance(error, ContextPoisoned):
            raise error
        self._free_graph()
        refusal = CaptureFailed(f"a replay of {self.label!r} was refused: {error}")
        self._refused(refusal)
        return refusal

    # ---- refusals ----

    def _refused(self, refusal: CaptureRefused) -> None:
        """There is no graph, and why; too many of them, and there never will be."""
        self._machine.go(Phase.REFUSED)
        self._attempt_failed(refusal)

    def _attempt_failed(self, refusal: CaptureRefused) -> None:
        self._count_refusal(refusal)
        counts = self._counts
        counts.why_no_graph = str(refusal)
        if counts.refusals >= self.max_refusals:
            self._disable(f"{counts.refusals} attempts refused, the last: {refusal}")
            self._say(f"lowgraph: {self.label}: DISABLED after {counts.refusals} refusals")

    def _count_refusal(self, refusal: CaptureRefused) -> None:
        watching.refused(self.label, refusal)
        if self._counts.count_refusal(str(refusal)):
            what = "no graph" if self._graph is None else "no new graph, the old one is live"
            self._say(f"lowgraph: {self.label}: {what}: {type(refusal).__name__}: {refusal}")

    def _disable(self, why: str) -> None:
        self._machine.go(Phase.DISABLED)
        self._counts.why_no_graph = why

    def _free_graph(self) -> None:
        graph = self._graph
        try:
            if graph is not None:
                graph.close()
        except (DriverError, CaptureInProgress) as error:
            if graph is not None and not graph.closed:  # its turn did not come
                raise
            self._passes.note(f"giving the graph back: {error}")
        self._graph = self._launch = None
