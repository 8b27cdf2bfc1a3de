"""Window: the code between begin and end of one capture, and the way back from whatever happens.

    window = Window(stream, pool=pool, label="step", primed=primed)
    with window:
        body(stream)
    window.recording            # the graph, judged; or the `with` has raised

Leaving it always ends the capture, so that the stream is usable again, puts the hooks, the cyclic
garbage collector and the pool back, and raises the *first* thing that went wrong: the driver's 901
("invalidated by an earlier error") is never the whole answer.
"""

from __future__ import annotations

import contextlib
import gc
from types import TracebackType

from lowgraph import driver
from lowgraph.capture import bisect, watching
from lowgraph.capture import census as census_of
from lowgraph.capture.bodies import Bodies, Body
from lowgraph.capture.census import Census
from lowgraph.capture.guard import SPECIAL_STREAMS, WindowGuard
from lowgraph.capture.interrupts import Shield
from lowgraph.capture.journal import Journal, Listeners
from lowgraph.capture.legacy_trap import LegacyTrap
from lowgraph.capture.recording import Owner, Recording
from lowgraph.capture.verdict import Evidence, as_refusal, verdict
from lowgraph.driver import gate
from lowgraph.errors import BlockingCaptureStream, CaptureRefused, DriverError
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Primed, open_window

__all__ = ["Owner", "Recording", "Window"]


class Window:
    """See the module. A window is used once.

    mode: "thread_local", "global" or "relaxed", as for `driver.stream.begin_capture`.
    primed: what the priming pass kept, and `primed_journal` what it did: scalars that differ are
        refused (FrozenScalar).
    library: nothing is compiled or loaded inside; its kernels are made resident before.
    journal: "full" or "light", see Journal.
    trap: of a probe pass (`capture.probe`), whose graph is thrown away and whose refusals are told
        nobody.
    """

    begins = True
    """Whether it begins its capture: until then calls may be made that would break one."""

    def __init__(
        self,
        stream: int,
        *,
        pool: PersistentPool,
        label: str = "capture",
        mode: str = "thread_local",
        library: Library | None = None,
        primed: Primed | None = None,
        primed_journal: Journal | None = None,
        journal: str = "full",
        trap: LegacyTrap | None = None,
    ) -> None:
        """Describe the window; entering it begins the capture."""
        self.stream = stream
        self.label = label
        self.mode = mode
        self.journal = Journal(journal)
        self.journal.stream = stream
        self.recording: Recording | None = None
        self._pool = pool
        self._library = library
        self._primed = primed
        self._primed_journal = primed_journal
        self._began_at = ""
        self._undo: list[str] = []
        self._shield = Shield()
        self._collecting = False
        self._sealed: str | None = None
        self._listening: Listeners = (None, None, None)
        self._guard: WindowGuard | None = None
        self._outer_guard: gate.Guard | None = None
        self._bodies: list[Body] = []
        self._owner = Owner(label)
        self._trap = trap
        self._bisector: bisect.Bisector | None = None

    # ---- in ----

    def __enter__(self) -> Window:
        """Begin the capture.

        Raises BlockingCaptureStream, CaptureRefused (a window is open already) or CaptureFailed;
        all is as it was then.
        """
        self._began_at = open_window.requester()
        self._shield.up()
        try:
            self._refuse_second()
            self._make_ready()
            self._open()
        except BaseException as error:
            refusal = self._leave(error) or error
            self._shield.down()
            self._tell(refusal)
            if refusal is error:
                raise
            raise refusal from error
        return self

    def _make_ready(self) -> None:
        self._refuse_blocking()
        if self._library is not None:
            self._library.make_resident()
        if self._primed_journal is not None:
            self._primed_journal.prepare(self.stream)

    def _refuse_second(self) -> None:
        other = open_window.mine()
        if other is not None:
            reason = f"{self.label!r} begins inside the window of {other.label!r}"
            remedy = f"end the capture begun at {other.began_at} first"
            raise open_window.refused(CaptureRefused(reason, self._began_at, remedy))

    def _refuse_blocking(self) -> None:
        special = SPECIAL_STREAMS.get(self.stream)
        if special is None:
            # cuStreamGetFlags of a stream that captures breaks that capture, from any thread (900).
            if driver.stream.capture_status(self.stream) != "none":
                return  # somebody else's: its turn does not come, or the begin answers 401
            if not driver.stream.is_blocking(self.stream):
                return
        what = special or f"stream {self.stream:#x}, a blocking stream"
        raise BlockingCaptureStream(
            f"{self.label!r} would capture on {what}: any work of any thread on the legacy stream "
            "would break the capture (906)",
            self._began_at,
            "make the stream with driver.stream.create(), which is non-blocking",
        )

    def _open(self) -> None:
        """Do it step by step, noting each once it is done; `_leave` undoes those, last first."""
        self._pool.begin_window(self.label, self._primed)
        self._undo.append("pool")
        self._collecting = gc.isenabled()
        self._undo.append("gc")
        gc.disable()
        self._undo.append("registry")
        opened = open_window.OpenWindow(self.label, self.stream, self._began_at, self.mode)
        opened.undo = self._owner.undo
        open_window.declare(opened)
        if self._library is not None:
            self._sealed = self._library.sealed
            self._undo.append("seal")
            self._library.sealed = f"the capture window of {self.label!r}"
        self._listening = self.journal.listen()
        self._undo.append("journal")
        # Before the begin, so that no call of another thread falls between the two.
        self._outer_guard, self._guard = gate.guard, WindowGuard(opened)
        opened.bodies = bodies = Bodies(self._guard, self.journal, self.mode)
        self._bodies = bodies.recorded
        self._undo.append("guard")
        gate.guard = self._guard
        self._guard.let_others_finish()
        self._begin_capture()
        self._undo.append("capture")
        if self._trap is not None:
            self._trap.join(self.stream)
            self._undo.append("trap")
        self._bisector = bisect.open_bisector(self.label, self.stream)
        if self._bisector is not None:
            self.journal.after_op = self._bisector.after_op
            self._undo.append("bisector")
            self._bisector.start()
        self._guard.armed = True

    def _begin_capture(self) -> None:
        driver.stream.begin_capture(self.stream, self.mode)

    # ---- out ----

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the capture and judge it; raises what went wrong first."""
        # The shield is still up: an interrupt on entry of this method would leave all as it is.
        try:
            if isinstance(error, CaptureRefused) and error.where is None:
                error.where = open_window.raised_at(error)
            refusal = self._leave(error)
        finally:
            self._lower_shield()
        self._tell(refusal)
        if refusal is not None and refusal is not error:
            raise refusal from (refusal.__cause__ or error)

    def discard(self) -> None:
        """Drop the recording: destroy its graph and give its memory back. Idempotent.

        Nothing is done once a CapturedGraph has taken it over.
        """
        recording, self.recording = self.recording, None
        if recording is not None and not recording.owner.adopted:
            self._pool.release(recording.owner)
            self._destroy(recording.graph)
            recording.owner.let_go()

    def _tell(self, refusal: BaseException | None) -> None:
        if isinstance(refusal, CaptureRefused) and self._trap is None:
            watching.refused(self.label, refusal, self._began_at)

    def _lower_shield(self) -> None:
        try:
            self._shield.down()
        except BaseException:  # a Ctrl-C that was held: nobody will get the recording
            self.discard()
            raise

    def _leave(self, error: BaseException | None) -> BaseException | None:
        """Undo all that was done; returns what to raise, `error` itself if that was first."""
        graph, end_error = 0, None
        while self._undo:
            step = self._undo.pop()
            if step == "bisector" and self._bisector is not None:
                self._bisector.stop()
                self.journal.after_op = None
            elif step == "trap" and self._trap is not None and self._guard is not None:
                with self._guard.disarmed():
                    self._trap.part(self.stream)
            elif step == "guard":
                gate.guard = self._outer_guard
            elif step == "capture":
                graph, end_error = self._close_capture(error is None)
            elif step == "journal":
                Journal.stop(self._listening)
            elif step == "seal" and self._library is not None:
                self._library.sealed = self._sealed
            elif step == "registry":
                open_window.clear()
            elif step == "gc" and self._collecting:
                gc.enable()
            elif step == "pool":
                return self._settle(graph, end_error, error)
        return None if error is None else as_refusal(self.label, error)

    def _close_capture(self, complete: bool) -> tuple[int, DriverError | None]:
        if self._guard is not None:
            self._guard.armed = False
            if complete:  # else what left the body comes first
                self._guard.check_forks()
        return self._end_capture()

    def _end_capture(self) -> tuple[int, DriverError | None]:
        """The graph, 0 where there is none, and what the driver said then."""
        try:
            return driver.stream.end_capture(self.stream), None
        except DriverError as error:
            self._end_again()
            return 0, error

    def _end_again(self) -> None:
        # An end that failed without ending the capture (a fault injected below us
        # does that) would leave the stream capturing for good.
        with contextlib.suppress(DriverError):
            if driver.stream.capture_status(self.stream) != "none":
                driver.graph.destroy(driver.stream.end_capture(self.stream))

    def _settle(
        self, graph: int, end_error: DriverError | None, error: BaseException | None
    ) -> BaseException | None:
        """Judge the graph; keep memory and recording, or give memory back and drop the graph."""
        try:
            census = self._take_census(graph) if graph else None
            refusal = verdict(
                self._evidence(),
                census,
                end_error,
                error,
            )
            if refusal is None and census is not None:
                self._keep(graph, census)
        except BaseException as failure:  # a driver call of the judging itself failed
            refusal = as_refusal(self.label, failure) if error is None else error
        if refusal is not None:
            self._drop(graph)
        return refusal

    def _take_census(self, graph: int) -> Census:
        return census_of.take_census(graph, self._body_graphs())

    @property
    def broken(self) -> bisect.Break | None:
        """Where a bisected window was broken; None if it was not, or is not bisected."""
        return None if self._bisector is None else self._bisector.found

    def _evidence(self) -> Evidence:
        journal, primed = self.journal, self._primed_journal
        return Evidence(self.label, self._began_at, journal, primed, self._forked(), self.broken)

    def _body_graphs(self) -> tuple[int, ...]:
        return tuple(body.graph for body in self._bodies if body.graph)  # 0: it was refused

    def _forked(self) -> str:
        forks = {} if self._guard is None else self._guard.forks.forks
        return "; ".join(fork.text() for fork in forks.values())

    def _keep(self, graph: int, census: Census) -> None:
        owner = self._owner
        # What the kernels point at stays for as long as the graph may run them.
        with open_window.LOCK:
            figures = self._pool.end_window(owner)
            unowned = self._pool.hold_addresses(self.journal.addresses, owner)
        self.recording = Recording(
            graph,
            self.stream,
            self.label,
            census,
            self.journal,
            figures,
            owner,
            unowned,
            self._body_graphs(),
            self._began_at,
        )

    def _drop(self, graph: int) -> None:
        if self._pool.in_window:
            self._pool.abort_window()
        if graph:
            self._destroy(graph)
        self._owner.let_go()

    def _destroy(self, graph: int) -> None:
        # What is being raised meanwhile says more than a graph that cannot be destroyed.
        with contextlib.suppress(DriverError):
            driver.graph.destroy(graph)
