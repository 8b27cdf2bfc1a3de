"""The passes of a step's body: primed, eager, or recorded in a window. No phases, no replays."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lowgraph import driver, stages
from lowgraph.capture import probe, watching
from lowgraph.capture.beside import Beside
from lowgraph.capture.handles import PrimedPass, drain_dropped
from lowgraph.capture.interrupts import shielded
from lowgraph.capture.journal import Journal
from lowgraph.capture.legacy_trap import LegacyTrap
from lowgraph.capture.node_params import Contents
from lowgraph.capture.pin_set import PinSet
from lowgraph.capture.report import StepReport
from lowgraph.capture.scalars import same_launches
from lowgraph.capture.shape_set import PassWarnings
from lowgraph.capture.window import Recording, Window
from lowgraph.driver.foreign_stream import StreamLike, stream_handle
from lowgraph.errors import (
    CaptureInProgress,
    CaptureRefused,
    ContextPoisoned,
    DriverError,
    PhaseError,
)
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, open_window

__all__ = ["Body", "StepPasses", "to_stderr"]

Body = Callable[[int], None]


def to_stderr(text: str) -> None:
    """Where warnings go that nobody else is told."""
    print(text, file=sys.stderr, flush=True)


class StepPasses:
    """Runs a body as GraphStep wants it, and writes what it saw into the step's figures."""

    def __init__(
        self,
        body: Body,
        stream: StreamLike,
        pool: PersistentPool,
        library: Library | None,
        mode: str,
        counts: StepReport,
        pins: PinSet,
        journal: str = "full",
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.body = body
        self.stream = stream_handle(stream)
        self.stream_object: object = stream  # kept: its handle is in use
        self.pool = pool
        self.library = library
        self.mode = mode
        self.counts = counts
        self.pins = pins
        self.detail = journal
        self.window: type[Window] = Window  # what a pass is recorded in
        self.body_runs = False
        self.body_began = False  # in the latest pass
        self.beside = Beside(counts.label, self.stream, pool)
        self._warnings = PassWarnings(counts, say)
        self._kept = PrimedPass(pool, journal)
        # A step that is dropped between priming and recording would keep its slices for good.
        self._finalizer = weakref.finalize(self, self._kept.drop_later)
        self._finalizer.atexit = False

    @property
    def label(self) -> str:
        """The step's."""
        return self.counts.label

    def refuse_nested(self, call: str) -> None:
        """Raise PhaseError while the body runs: it may not drive its own step."""
        if self.body_runs:
            raise PhaseError(
                f"{call} of {self.label!r} was called from its own body: a body may not drive its "
                "own step"
            )

    def prime(self) -> None:
        """One real step, unrecorded; the slices that it takes are kept for the next window."""
        self.body_began = False
        self._refuse_context()
        with shielded() as shield:
            self._drain()
            self.drop_primed()
            self.pins.before_pass()
            journal = Journal(self.detail)
            # Under the lock: the hooks that the journal sets are the process's.
            with open_window.LOCK, journal.watch(), self.pool.priming(self.label) as primed:
                try:
                    shield.down()  # a real step may take long
                    self._run_body()
                finally:
                    shield.up()
            self._kept.primed, self._kept.journal = primed, journal
        watching.primed(self, journal)
        self.counts.primed = primed.figures
        self.counts.count_launches(journal.launches, journal.library)
        self.counts.eager_steps += 1

    def prepare(self) -> None:
        """What the primed pass asked for before a window, where that begins no capture itself."""
        self._kept.journal.prepare(self.stream)

    def eager(self) -> None:
        """One real step that keeps nothing; its launches are counted if none's were before.

        Nothing is counted while another thread has the lock: the hooks are the process's.
        """
        self._refuse_context()
        self.pins.before_pass()
        if self.counts.launches_known or not open_window.LOCK.attempt():
            with self.pool.eager_pass(self.label):
                self._run_body()
        else:
            journal = Journal(self.detail)
            try:
                with journal.watch(), self.pool.eager_pass(self.label):
                    self._run_body()
            finally:
                open_window.LOCK.release()
            self.counts.count_launches(journal.launches, journal.library)
        self.counts.eager_steps += 1

    def goes_on_beside(self) -> bool:
        """Whether to run `eager` beside a window that was given up: see Beside."""
        return self.beside.goes_on(self.counts.steps > 0)

    def turned_away(self, error: CaptureInProgress) -> CaptureRefused:
        """The refusal of a priming pass; raises CaptureInProgress where `eager` may not run."""
        self.beside.check(self.counts.steps > 0)
        return self.beside.give_up(error)

    @contextmanager
    def recorded(self) -> Iterator[Recording]:
        """Record the primed step, which runs nothing, for the block to take over.

        Raises CaptureRefused, and what the body raises. An exception that leaves the block discards
        the recording.
        """
        self._refuse_context()
        if self.window.begins:
            self._drain()
        self.pins.before_window()
        journal = self._kept.journal
        window = self._window()
        try:
            # What is recorded into somebody else's capture stays there: no trying out.
            if probe.is_probing() and self.window.begins:
                probe.run(self.label, self._run_body, self._window)
            with window:
                self._run_body()
            assert window.recording is not None, "a window that raised nothing has a recording"
            recording = window.recording
            recording.owner.stream = self.stream_object
            contents = Contents(recording.graph, recording.journal, recording.bodies)
            self.pins.judge(contents)
            self._warnings.tell(self.pins.warnings(contents))
            yield recording
        except BaseException as error:
            window.discard()
            if isinstance(error, CaptureRefused):
                self._warnings.explain(error, journal, window.journal)
                watching.refused(self.label, error)
            raise
        finally:
            self.drop_primed()  # also when the window was refused before it began
        self._note_recording(recording, journal)

    def _window(self, trap: LegacyTrap | None = None) -> Window:
        """A window over what was primed; several may follow each other."""
        return self.window(
            self.stream,
            pool=self.pool,
            label=self.label,
            mode=self.mode,
            library=self.library,
            primed=self._kept.primed,
            primed_journal=self._kept.journal,
            journal=self.detail,
            trap=trap,
        )

    def drop_primed(self) -> None:
        """Free what a priming pass kept for a window that will not be. Idempotent."""
        self._kept.give_back()

    def note(self, text: str) -> None:
        """Add a note to the report, once."""
        if text not in self.counts.notes:
            self.counts.notes.append(text)

    def _refuse_context(self) -> None:
        """Raise WrongContext before the body does part of its work in another context."""
        driver.context.require(f"a pass of {self.label!r}")

    def _drain(self) -> None:
        """Give back what the collector found; what goes wrong there is not this step's failure."""
        try:
            self.counts.deferred += drain_dropped()
        except ContextPoisoned:
            raise
        except DriverError as error:
            self.note(f"giving back a graph that was dropped without close(): {error}")

    def _run_body(self) -> None:
        self.body_runs = self.body_began = True
        try:
            with stages.restored():
                self.body(self.stream)
        finally:
            self.body_runs = False

    def _note_recording(self, recording: Recording, primed: Journal) -> None:
        counts, census, journal = self.counts, recording.census, recording.journal
        counts.captures += 1
        counts.window = recording.figures
        counts.nodes, counts.kernels = census.nodes, census.kernels
        counts.nodes_by_type = dict(census.types)
        counts.nodes_in_bodies = sum(census.in_bodies.values())
        counts.unowned = len(recording.unowned)
        counts.count_launches(primed.launches, journal.library)
        counts.count_stages(journal.launches, journal.library)
        if self._warnings.compare(primed, journal) and not same_launches(primed, journal):
            self.note("kernels were recorded in another order than primed: scalars not compared")
        if not same_launches(primed, journal, inside=True):
            self.note(
                "the priming pass did not come to the same bodies of conditionals, or as often: "
                "scalars were not compared there"
            )
        watching.recorded(self, journal, self.pins.declared)
