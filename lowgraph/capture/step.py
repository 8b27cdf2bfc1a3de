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
the step stops trying. What the body itself raises is not a refusal: it passes through.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from types import TracebackType

from lowgraph import counters, driver
from lowgraph.capture.graph import CapturedGraph, drain_dropped
from lowgraph.capture.interrupts import Shield
from lowgraph.capture.journal import Journal
from lowgraph.capture.phase import Move, Phase, PhaseMachine
from lowgraph.capture.report import StepReport
from lowgraph.capture.scalars import same_launches
from lowgraph.capture.window import Window
from lowgraph.errors import CaptureFailed, CaptureRefused, ContextPoisoned, DriverError, PhaseError
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Primed, open_window

__all__ = ["Body", "GraphStep"]

Body = Callable[[int], None]


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


class GraphStep:
    """See the module.

    body: a plain callable that enqueues one whole step on the stream it is given. It runs several
        times, allocates only from `pool`, and reads what changes from step to step from the device.
    stream: a non-blocking stream. library: nothing is compiled in the window. graph: False never
        captures. mode: of the capture. say: told each reason for a refusal once.
    """

    def __init__(
        self,
        body: Body,
        *,
        device: driver.Device,
        pool: PersistentPool,
        stream: int,
        library: Library | None = None,
        label: str = "step",
        graph: bool = True,
        max_refusals: int = 20,
        mode: str = "thread_local",
        say: Callable[[str], None] = _to_stderr,
    ) -> None:
        """Make a cold step; nothing runs yet."""
        self.label = label
        self.stream = stream
        self.max_refusals = max_refusals
        self._body = body
        self._pool = pool
        self._library = library
        self._mode = mode
        self._say = say
        self._machine = PhaseMachine(label)
        self._graph: CapturedGraph | None = None
        self._primed: tuple[Primed, Journal] | None = None
        self._body_runs = False
        self._counts = StepReport(label, device.spec, why_no_graph="not recorded yet")
        if not graph:
            self._disable("graph=False")

    # ---- what users call ----

    @property
    def phase(self) -> Phase:
        """The present phase."""
        return self._machine.phase

    @property
    def graph(self) -> CapturedGraph | None:
        """The live graph, or None."""
        return self._graph

    def __call__(self) -> None:
        """Run the next step, by the graph once there is one; returns when it is enqueued.

        Raises what the body raises, ContextPoisoned, and PhaseError on a closed step or when called
        from its own body. A refusal is not raised: see `report()`.
        """
        if self._graph is None:
            self._refuse_nested("step")
            if self.phase is not Phase.PRIMING or not self._captured():
                self._run_without_graph()
                return
        try:
            self.replay()
        except CaptureFailed:  # counted by then, and nothing ran
            self._run_without_graph()

    step = __call__

    def prime(self) -> None:
        """Run one real step unrecorded, keeping every slice that it takes for the window."""
        self._refuse_nested("prime")
        self._machine.check(Move.PRIME)
        drain_dropped()
        with Shield() as shield:
            self._prime(shield)

    def _prime(self, shield: Shield) -> None:
        self._drop_primed()
        self._machine.go(Phase.PRIMING)
        journal = Journal()
        try:
            # Under the lock: the hooks that the journal sets are the process's.
            with open_window.LOCK, journal.watch(), self._pool.priming(self.label) as primed:
                try:
                    shield.down()  # a real step may take long
                    self._run_body()
                finally:
                    shield.up()
        except BaseException:
            self._machine.go(Phase.COLD)
            raise
        self._primed = primed, journal
        self._counts.primed = primed.figures
        self._counts.launches_eager_step = journal.kernel_launches
        self._counts.eager_steps += 1

    def capture(self) -> None:
        """Record the step, instantiate and upload it. Nothing runs: the next replay is the step.

        Raises CaptureRefused with the reason; the attempt's memory is given back then, and the
        phase is REFUSED, or DISABLED after `max_refusals`.
        """
        self._refuse_nested("capture")
        self._machine.check(Move.CAPTURE)
        drain_dropped()
        with Shield():
            self._capture()

    def _capture(self) -> None:
        self._machine.go(Phase.CAPTURING)
        try:
            graph = self._record()
        except CaptureRefused as refusal:
            if isinstance(refusal, CaptureFailed):
                self._machine.go(Phase.INVALIDATED)
            self._refused(refusal)
            raise
        except BaseException:
            self._machine.go(Phase.INVALIDATED)
            self._counts.why_no_graph = "the last window was left by an exception"
            raise
        self._graph = graph
        self._machine.go(Phase.READY)
        self._counts.captures += 1
        self._counts.why_no_graph = ""

    def replay(self) -> None:
        """Launch the graph once: one driver call, and nothing waits.

        Raises CaptureFailed when the driver refuses the launch (nothing ran; the graph is given
        back and the phase is REFUSED), ContextPoisoned.
        """
        graph = self._graph
        if graph is None:
            self._machine.check(Move.REPLAY)
            return
        try:
            if self._counts.replays:
                graph.launch()
            else:
                self._first_launch(graph)
        except ContextPoisoned:
            raise
        except DriverError as error:
            raise self._replay_refused(graph, error) from error
        self._counts.replays += 1

    def close(self) -> None:
        """Wait for replays in flight, destroy the graph and give its memory back. Idempotent."""
        self._refuse_nested("close")
        self._machine.check(Move.CLOSE)
        if self.phase is Phase.CLOSED:
            return
        with Shield():
            self._machine.go(Phase.CLOSED)
            self._counts.why_no_graph = "closed"
            self._drop_primed()
            graph, self._graph = self._graph, None
            if graph is not None:
                graph.close()

    def report(self) -> StepReport:
        """The figures so far: a copy."""
        report = copy.deepcopy(self._counts)
        report.phase = self.phase.name
        report.pool_bytes = self._pool.stats().reserved
        report.retained_bytes = 0 if self._graph is None else self._graph.retained_bytes
        return report

    def __enter__(self) -> GraphStep:
        """Return the step, to be closed at the end of the `with` block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the step."""
        self.close()

    # ---- inside ----

    def _run_body(self) -> None:
        self._body_runs = True
        try:
            self._body(self.stream)
        finally:
            self._body_runs = False

    def _captured(self) -> bool:
        try:
            self.capture()
        except CaptureRefused:
            return False
        return True

    def _run_without_graph(self) -> None:
        """The step itself, as a priming pass while another attempt is to come."""
        if self.phase is not Phase.DISABLED:
            self.prime()
            return
        if self._counts.launches_eager_step == 0:
            self._run_watched()
        else:
            with self._pool.eager_pass(self.label):
                self._run_body()
        self._counts.eager_steps += 1

    def _run_watched(self) -> None:
        """One eager pass under the journal, so that a run without a graph knows its launches."""
        journal = Journal()
        with open_window.LOCK, journal.watch(), self._pool.eager_pass(self.label):
            self._run_body()
        self._counts.launches_eager_step = journal.kernel_launches

    def _record(self) -> CapturedGraph:
        assert self._primed is not None, "phase PRIMING without a primed set"
        primed, primed_journal = self._primed
        window = Window(
            self.stream,
            pool=self._pool,
            label=self.label,
            mode=self._mode,
            library=self._library,
            primed=primed,
            primed_journal=primed_journal,
        )
        try:
            with window:
                self._run_body()
            assert window.recording is not None, "a window that raised nothing has a recording"
            graph = CapturedGraph(window.recording, self._pool)
        except BaseException:
            window.discard()
            raise
        finally:
            self._drop_primed()  # also when the window was refused before it began
        counts = self._counts
        counts.window = graph.figures
        counts.nodes, counts.kernels = graph.census.nodes, graph.census.kernels
        counts.nodes_by_type = dict(graph.census.types)
        counts.unowned = len(graph.unowned)
        counts.launches_eager_step = len(primed_journal.launches) + graph.journal.library_kernels
        if not same_launches(primed_journal, graph.journal):
            self._note(
                f"the priming pass launched {len(primed_journal.launches)} kernels, the recorded "
                f"one {len(graph.journal.launches)} or others: scalars were not compared"
            )
        return graph

    def _first_launch(self, graph: CapturedGraph) -> None:
        with counters.scope() as counts:
            graph.launch()
        self._counts.launches_replay_step = counts.launches + counts.graph_launches

    def _refused(self, refusal: CaptureRefused) -> None:
        counts = self._counts
        reason = str(refusal)
        self._machine.go(Phase.REFUSED)
        counts.refusals += 1
        counts.first_refusal = counts.first_refusal or reason
        counts.why_no_graph = reason
        if reason not in counts.reasons:
            kind = type(refusal).__name__
            self._say(f"lowgraph: {self.label}: no graph: {kind}: {reason}")
        counts.reasons[reason] = counts.reasons.get(reason, 0) + 1
        if counts.refusals >= self.max_refusals:
            self._disable(f"{counts.refusals} attempts refused, the last: {reason}")
            self._say(f"lowgraph: {self.label}: DISABLED after {counts.refusals} refusals")

    def _replay_refused(self, graph: CapturedGraph, error: DriverError) -> CaptureFailed:
        self._graph = None
        try:
            graph.close()
        except DriverError as second:
            self._note(f"giving the refused graph back: {second}")
        refusal = CaptureFailed(f"a replay of {self.label!r} was refused: {error}")
        self._refused(refusal)
        return refusal

    def _disable(self, why: str) -> None:
        self._machine.go(Phase.DISABLED)
        self._counts.why_no_graph = why

    def _drop_primed(self) -> None:
        if self._primed is not None:
            self._pool.drop(self._primed[0])
            self._primed = None

    def _note(self, text: str) -> None:
        if text not in self._counts.notes:
            self._counts.notes.append(text)

    def _refuse_nested(self, call: str) -> None:
        if self._body_runs:
            raise PhaseError(
                f"{call} of {self.label!r} was called from its own body: a body may not drive its "
                "own step"
            )
