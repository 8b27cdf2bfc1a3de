"""Doctor: listens while a block runs, and reports.

    with Doctor() as doctor:
        run_the_program()
    for line in doctor.report().lines():
        print(line)

It listens at lowgraph's recordings (`capture.watching`), and, on the host device, at every capture
of the process. Nothing that it sees is changed; a block that closes its graphs has them audited at
that moment, the others are audited by `report()`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any

from lowgraph import driver
from lowgraph.capture import Break, CapturedGraph, Journal, Probe, bisecting, probing, watching
from lowgraph.capture.census import Census
from lowgraph.capture.pins import Pin
from lowgraph.debug.doctor import advice
from lowgraph.debug.doctor.driver_record import DriverRecord
from lowgraph.debug.doctor.gate_record import GateRecord
from lowgraph.debug.doctor.library_record import LibraryRecord
from lowgraph.debug.doctor.report import DoctorReport
from lowgraph.driver.callers import working_folder
from lowgraph.errors import CaptureRefused, DeviceUnavailable
from lowgraph.hostdev import watch
from lowgraph.hostdev.watch import CaptureEvent

__all__ = ["Doctor"]


class Doctor:
    """See the module. say: told of each capture as it ends.

    bisect: the capture's status is asked after every op of a window, and before each recording of a
    step its body is recorded once for nothing, see `capture.bisecting` and `capture.probing`.
    """

    def __init__(
        self, bisect: bool = False, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self._bisect = bisect
        self._folder = working_folder()  # now: the program may go elsewhere
        self._driver = DriverRecord(say)
        self._library = LibraryRecord(self._driver, say)
        self._listening = ExitStack()
        self._breaks: list[Break] = []
        self._probes: list[Probe] = []
        self._seconds = 0.0
        self._notes: list[str] = []

    def __enter__(self) -> Doctor:
        """Start listening."""
        watch.adopt()
        gate = GateRecord(self._on_event, watch.is_told)
        for each in (watch.listening(self._on_event), watching.listening(self), gate.listening()):
            self._listening.enter_context(each)
        if self._bisect:
            self._breaks = self._listening.enter_context(bisecting())
            self._probes = self._listening.enter_context(probing())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self._listening.close()

    def report(self) -> DoctorReport:
        """What was seen so far. Graphs that live are audited; their nodes are read again."""
        self._timed(self._library.audit_all)
        captures = [*self._library.captures, *self._driver.captures]
        leaks = [*self._driver.leaks, *self._library.leaks]
        unowned = self._library.unowned()
        report = DoctorReport(
            _device(),
            captures,
            leaks,
            unowned,
            self._library.frozen,
            self._library.refusals,
            self._library.races,
            list(dict.fromkeys(self._breaks)),
            list({(one.label, one.broken, str(one.error)): one for one in self._probes}.values()),
            [],
            self._driver.beside,
            self._seconds,
            list(dict.fromkeys([*self._notes, *self._library.notes])),
            self._folder,
        )
        return replace(report, advice=list(advice.of(report)))

    # ---- what is told; nothing of the doctor's own may reach the program ----

    def primed(self, step: object, journal: Journal) -> None:
        """See `watching.Listener`; so are those below."""
        self._timed(self._library.primed, step, journal)

    def recorded(self, step: object, journal: Journal, pins: tuple[Pin, ...]) -> None:
        """A step's recording is live."""
        self._timed(self._library.recorded, step, journal, pins)

    def live(self, graph: CapturedGraph, began_at: str) -> None:
        """A graph can be launched."""
        self._timed(self._library.live, graph, began_at)

    def joined(self, label: str, census: Census, began_at: str) -> None:
        """A part's nodes are in a capture of others."""
        self._timed(self._library.joined, label, census, began_at)

    def refused(self, label: str, refusal: CaptureRefused, began_at: str) -> None:
        """An attempt was refused."""
        self._timed(self._library.refused, label, refusal, began_at)

    def closing(self, graph: CapturedGraph) -> None:
        """A graph is about to be closed."""
        self._timed(self._library.closing, graph)

    def _on_event(self, event: CaptureEvent) -> None:
        self._timed(self._driver.on_event, event)

    def _timed(self, act: Callable[..., Any], *args: Any) -> None:
        start = time.perf_counter()
        try:
            act(*args)
        except Exception as error:
            self._notes.append(f"the doctor itself failed: {type(error).__name__}: {error}")
        finally:
            self._seconds += time.perf_counter() - start


def _device() -> str:
    try:
        return driver.current().spec
    except DeviceUnavailable:
        return "host" if watch.is_told() else ""
