"""What lowgraph's own steps and windows did: graphs, refusals, frozen values, unowned pointers."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from dataclasses import replace

from lowgraph.capture import Break, CapturedGraph, Journal
from lowgraph.capture.census import Census
from lowgraph.capture.pins import Pin
from lowgraph.debug.audit import Audit
from lowgraph.debug.audit_report import report_of
from lowgraph.debug.doctor.driver_record import DriverRecord
from lowgraph.debug.doctor.findings import (
    JOINED,
    LOWGRAPH,
    CaptureSeen,
    FrozenFound,
    Leak,
    RaceFound,
    RefusalSeen,
    Unowned,
)
from lowgraph.debug.form import Form
from lowgraph.debug.reading import read
from lowgraph.debug.scalars import frozen
from lowgraph.debug.stale import OUTSIDE, Stale
from lowgraph.driver import codes
from lowgraph.errors import CaptureFailed, CaptureRefused, FrozenScalar, LowgraphError
from lowgraph.memory import counted

__all__ = ["LibraryRecord"]

_LEAK_OF = {
    "CaptureIncomplete": "work",
    "CaptureAllocationError": "allocation",
    "GraphHasMemoryNodes": "allocation",
    "SyncDuringCapture": "synchronisation",
}
"""Refusals of what would have leaked, by what it is."""

_NUMBER = re.compile(r"(?<![\w.:/])-?\d[\w.+-]*")


class LibraryRecord:
    """A listener of `capture.watching`; keeps no graph alive. notes: what could not be looked at.

    driver: asked which call broke a window. say: told of each new graph.
    """

    def __init__(self, driver: DriverRecord, say: Callable[[str], None]) -> None:
        self.captures: list[CaptureSeen] = []
        self.refusals: list[RefusalSeen] = []
        self.frozen: list[FrozenFound] = []
        self.races: list[RaceFound] = []
        self.leaks: list[Leak] = []
        self.notes: list[str] = []
        self._unowned: dict[tuple[str, str, str, int], Unowned] = {}
        self._unowned_nodes: dict[tuple[str, str, str, int], set[int]] = {}
        self._declared: dict[str, weakref.WeakSet[Pin]] = {}  # by label, which steps may share
        self._places: dict[str, set[tuple[int, int]]] = {}  # address, bytes: of these, ever
        self._graphs: weakref.WeakSet[CapturedGraph] = weakref.WeakSet()
        self._recorded: weakref.WeakKeyDictionary[object, weakref.ref[CapturedGraph]]
        self._recorded = weakref.WeakKeyDictionary()
        self._told: weakref.WeakSet[CaptureRefused] = weakref.WeakSet()
        self._driver = driver
        self._say = say

    # ---- what is told ----

    def primed(self, step: object, journal: Journal) -> None:
        """A later step than the recorded one: what differs is frozen in the replays between."""
        known = self._recorded.get(step)
        graph = None if known is None else known()
        if graph is None:
            return
        try:
            found = frozen(graph, journal)
        except LowgraphError:  # other launches: nothing to compare
            return
        for one in found:
            values = repr(one.recorded), repr(one.later)
            self._freeze(
                FrozenFound(graph.label, one.kernel, one.argument, *values, one.where, False)
            )

    def recorded(self, step: object, journal: Journal, pins: tuple[Pin, ...]) -> None:
        """Remember which graph is the step's."""
        for graph in self._graphs:
            if graph.journal is journal:
                self._declared.setdefault(graph.label, weakref.WeakSet()).update(pins)
                self._note_places(graph.label)
                self._recorded[step] = weakref.ref(graph)
                break

    def live(self, graph: CapturedGraph, began_at: str) -> None:
        """Read the graph's nodes, and judge what they hold."""
        self._graphs.add(graph)
        self._driver.take_break(graph.label)
        try:
            form = read(graph)
        except LowgraphError as error:
            self.notes.append(f"the graph of {graph.label!r} could not be read: {error}")
            return
        seen = _seen(form, self._driver.mode_of(graph.label), began_at)
        self._say(f"recorded {seen.label!r}: {counted(seen.size, 'node')}, begun at {began_at}")
        self._add(seen)
        audit = report_of(form)
        self._take_stale(graph.label, form, audit.stale)
        self.notes += [f"{graph.label!r}: {one}" for one in audit.left_out]
        for race in audit.races:
            found = RaceFound(
                graph.label, race.memory or hex(race.address), race.certain, str(race)
            )
            if found not in self.races:
                self.races.append(found)

    def joined(self, label: str, census: Census, began_at: str) -> None:
        """Count what a part added; the graph is another's, and read by whoever has it."""
        seen = CaptureSeen(label, LOWGRAPH, "", began_at, JOINED)
        for kind, number in census.types.items():
            seen.count(kind, number=number)
        self._say(f"joined by {label!r}: {counted(seen.size, 'node')}, at {began_at}")
        self._add(seen)

    def refused(self, label: str, refusal: CaptureRefused, began_at: str) -> None:
        """Count it, by its reason with the numbers left out."""
        if refusal in self._told:
            return
        self._told.add(refusal)
        new = _refusal(label, refusal, began_at)
        if isinstance(refusal, CaptureFailed):
            by = self._driver.take_break(label)
            if by is not None:  # it names the call, which bisecting may not
                new.broken = (
                    f"broken at {by.where or 'no line of Python'} by {by.call}, which answered "
                    f"{by.code} {codes.name_of(by.code)}{'' if by.own else ', in another thread'}"
                )
        for known in self.refusals:
            if _key(known) == _key(new):
                known.times += 1
                break
        else:
            self.refusals.append(new)
        if isinstance(refusal, FrozenScalar):
            later = "" if refusal.primed is None else repr(refusal.primed)  # or it was declared
            values = repr(refusal.recorded), later
            names = refusal.kernel, refusal.parameter
            self._freeze(FrozenFound(label, *names, *values, refusal.where or "", True))
        kind = _LEAK_OF.get(new.type)
        if kind is not None:
            self._leak(Leak(kind, label, "", new.reason, new.where, stopped=True))

    def closing(self, graph: CapturedGraph) -> None:
        """The last moment to ask whether its pointers hold, and where its pins have been."""
        self._note_places(graph.label)
        self._audit(graph)
        self._graphs.discard(graph)

    # ---- at the end ----

    def audit_all(self) -> None:
        """Ask it of the graphs that still live."""
        for graph in list(self._graphs):
            if not graph.closed:
                self._audit(graph)

    def unowned(self) -> list[Unowned]:
        """Pointers outside of all that is known, those into declared memory left out."""
        for label in self._declared:
            self._note_places(label)
        return [
            one
            for one in self._unowned.values()
            if one.kind != OUTSIDE
            or not any(
                start <= one.address < start + max(nbytes, 1)
                for start, nbytes in self._places.get(one.graph, ())
            )
        ]

    # ---- inside ----

    def _audit(self, graph: CapturedGraph) -> None:
        try:
            audit = Audit.of(graph)
            self._take_stale(graph.label, audit.form, audit.check())
        except LowgraphError as error:
            self.notes.append(f"the graph of {graph.label!r} could not be audited: {error}")

    def _note_places(self, label: str) -> None:
        """Now, as a closed step's pins forget where they were."""
        now = (pin.now for pin in self._declared.get(label, ()))
        places = {(place.address, place.nbytes) for place in now if place is not None}
        self._places.setdefault(label, set()).update(places)

    def _take_stale(self, label: str, form: Form, found: tuple[Stale, ...]) -> None:
        for one in found:
            key = label, one.kernel, one.argument, one.address
            where = form.nodes[one.node].where
            told = one.node, one.kernel, one.argument, one.address, one.kind, where, str(one)
            known = self._unowned.setdefault(key, Unowned(label, *told))
            nodes = self._unowned_nodes.setdefault(key, set())  # it is asked more than once
            nodes.add(one.node)
            known.nodes = len(nodes)

    def _add(self, seen: CaptureSeen) -> None:
        for known in self.captures:
            if replace(known, times=1) == seen:
                known.times += 1
                return
        self.captures.append(seen)

    def _freeze(self, new: FrozenFound) -> None:
        for known in self.frozen:
            if (known.graph, known.kernel, known.argument, known.where, known.refused) == (
                new.graph, new.kernel, new.argument, new.where, new.refused
            ):  # fmt: skip
                known.times += 1
                return
        self.frozen.append(new)

    def _leak(self, new: Leak) -> None:
        for known in self.leaks:
            if (known.kind, known.capture, known.where) == (new.kind, new.capture, new.where):
                known.times += 1
                return
        self.leaks.append(new)


def _seen(form: Form, mode: str, began_at: str) -> CaptureSeen:
    seen = CaptureSeen(form.label, LOWGRAPH, mode, began_at, "recorded")
    for node in form.nodes:
        seen.count(node.kind, node.name if node.kind == "kernel" else "")
        stage = seen.stages.setdefault(node.stage, {})
        stage[node.kind] = stage.get(node.kind, 0) + 1
    return seen


def _refusal(label: str, refusal: CaptureRefused, began_at: str) -> RefusalSeen:
    reason, broken, suspects = refusal.reason, "", tuple[str, ...]()
    if isinstance(refusal, CaptureFailed):
        broken = refusal.broken.told() if isinstance(refusal.broken, Break) else ""
        suspects = tuple(map(str, refusal.suspects[:3]))
        reason = refusal.brief or reason
    told = reason, refusal.where or "", refusal.stage, refusal.remedy, began_at
    return RefusalSeen(label, type(refusal).__name__, *told, broken, suspects)


def _key(one: RefusalSeen) -> tuple[str, ...]:
    """One line that asks for more at each attempt is one reason."""
    return one.label, one.type, one.where or _without_numbers(one.reason)


def _without_numbers(reason: str) -> str:
    return _NUMBER.sub("#", reason)
