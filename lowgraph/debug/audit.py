"""Audit: whether every pointer of a graph still leads where it led, and whether its nodes race.

    audit = Audit.of(step)      # built once: the graph's structure
    audit.require()             # before a replay: asks pool and buffers, raises AuditFailed

A pointer is good in a slice of the generation it was recorded with that lives or that an array over
it holds, in memory that the graph took itself, in a staging slot, and in a foreign buffer that is
registered (a declared pin, or `foreign`) and was not freed. The audit follows what is set in the
executable, updates and recaptures.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from lowgraph.capture import CapturedGraph, CopyIn, ForeignMemory, GraphStep, NodeRecord, Table
from lowgraph.capture.node_params import Contents
from lowgraph.capture.pin_set import extent
from lowgraph.debug.audit_report import AuditReport, summary
from lowgraph.debug.known_memory import KnownMemory, foreign_memory, lives
from lowgraph.debug.race_search import Race, races
from lowgraph.debug.reading import Reading, declared_memory, reread, take, take_handle
from lowgraph.debug.stale import (
    FREED,
    GIVEN_BACK,
    GONE,
    RELEASED,
    Behind,
    Stale,
    behind_pins,
    stale_pointers,
)
from lowgraph.driver.callers import requester
from lowgraph.errors import AuditFailed, ConfigError
from lowgraph.memory import PersistentPool, Slice, describe_address

__all__ = ["Audit"]


class Audit:
    """See the module. Make it by `of` or `of_handle`.

    form: what the graph holds, as of the last check.
    """

    def __init__(
        self,
        reading: Reading,
        pool: PersistentPool,
        foreign: Sequence[ForeignMemory],
        subject: GraphStep | CapturedGraph | None,
    ) -> None:
        self._pool = pool
        self._foreign = list(foreign)
        self._subject = subject
        self._released: dict[int, str] = {}  # by id of the buffer, where it was released
        self._races: tuple[list[Race], list[str]] | None = None
        self._adopt(reading)

    @classmethod
    def of(cls, subject: GraphStep | CapturedGraph, foreign: Sequence[ForeignMemory] = ()) -> Audit:
        """The audit of a live graph. Raises as `debug.read` does."""
        reading = take(subject, foreign)
        graph = subject.graph if isinstance(subject, GraphStep) else subject
        assert graph is not None, "what was read has a graph"
        return cls(reading, graph.pool, foreign, subject)

    @classmethod
    def of_handle(
        cls,
        handle: int,
        pool: PersistentPool,
        *,
        label: str = "graph",
        foreign: Sequence[ForeignMemory] = (),
    ) -> Audit:
        """The audit of a graph (CUgraph) of somebody else's, as it is at this moment.

        An argument of eight bytes that points into known memory now is taken for a pointer.
        """
        return cls(take_handle(handle, label, pool, foreign), pool, foreign, None)

    # ---- what users call ----

    def check(self) -> tuple[Stale, ...]:
        """The pointers that are stale now; () is what should be.

        No driver call, but a query for each `ForeignBuffer` that is watched. Raises ConfigError
        when the step has no graph any more, PhaseError for a closed graph.
        """
        self._follow()
        bad, behind = self._bad(), self._behind()
        if not bad and not behind and not self._outside:
            return ()
        found = [*stale_pointers(self.form, bad), *behind_pins(self.form, behind)]
        return tuple(replace(one, now=describe_address(self._pool, one.address)) for one in found)

    def require(self) -> None:
        """Raise AuditFailed, naming each, if a pointer is stale. Call it before a replay."""
        stale = self.check()
        if stale:
            raise AuditFailed(tuple(map(str, stale)))

    def release(self, memory: ForeignMemory) -> None:
        """A registered foreign buffer is not to be used any more: pointers into it are stale."""
        if not any(one is memory for one in self._foreign):
            raise ConfigError(f"{memory.name!r} is not registered with this audit")
        self._released[id(memory)] = requester()

    def report(self) -> AuditReport:
        """Everything: stale pointers now, races, by-value arguments."""
        stale = self.check()
        if self._races is None:
            self._races = races(self.form)
        return summary(self.form, stale, self._races)

    # ---- inside ----

    def _adopt(self, reading: Reading) -> None:
        self.form = reading.form
        self._pieces, self._memory = list(reading.pieces), list(reading.form.memory)
        self._contents: Contents | None = None
        self._records: list[NodeRecord] = []
        graph = self._graph()
        if graph is not None:
            self._contents = graph.contents
            self._records = [graph.node(index) for index in range(graph.nodes)]
        self._index()

    def _index(self) -> None:
        self._races = None
        self._outside = bool(stale_pointers(self.form, {}))

    def _graph(self) -> CapturedGraph | None:
        if not isinstance(self._subject, GraphStep):
            return self._subject
        if self._subject.graph is None:
            raise ConfigError(f"{self._subject.label!r} has no graph any more to audit")
        return self._subject.graph

    def _follow(self) -> None:
        """Take up what the executable was given since the last check."""
        graph = self._graph()
        if graph is None or self._subject is None:
            return
        if graph.contents is not self._contents:  # updated, or recorded anew
            self._adopt(take(self._subject, self._foreign))
            return
        changed = [
            index for index, record in enumerate(self._records) if graph.node(index) is not record
        ]
        if changed:
            self._reread(graph, changed)

    def _reread(self, graph: CapturedGraph, changed: list[int]) -> None:
        """Nodes that were set. The others keep what they were recorded with."""
        foreign = list(self._foreign)
        if isinstance(self._subject, GraphStep):
            foreign += declared_memory(self._subject)  # where a rebind pin has moved to
        known, nodes = KnownMemory(graph.pool, foreign), list(self.form.nodes)
        for index in changed:
            record = self._records[index] = graph.node(index)
            nodes[index] = reread(nodes[index], record, known)
        apart = set(changed)
        kept = {one.memory for node in nodes if node.index not in apart for one in node.arguments}
        places = self._take_in(known, kept)
        for index in changed:
            told = (
                one if one.memory is None else replace(one, memory=places[one.memory])
                for one in nodes[index].arguments
            )
            nodes[index] = replace(nodes[index], arguments=tuple(told))
        self.form = replace(self.form, memory=tuple(self._memory), nodes=tuple(nodes))
        self._index()

    def _take_in(self, known: KnownMemory, kept: Collection[int | None]) -> list[int]:
        """Places of what nodes were set to: of the same memory, or such as no node needs any more.

        A rebind pin sets its nodes at every move: new places for each would fill the memory.
        """
        held = {
            (self._memory[place], id(self._pieces[place])): place
            for place in kept
            if place is not None
        }
        free = iter([place for place in range(len(self._memory)) if place not in kept])
        places = []
        for memory, piece in zip(known.used, known.pieces, strict=True):
            place = held.get((memory, id(piece)))
            if place is None:
                place = next(free, len(self._memory))
                self._memory[place : place + 1] = [memory]
                self._pieces[place : place + 1] = [piece]
            places.append(place)
        return places

    def _bad(self) -> dict[int, tuple[str, str]]:
        """Kind and since when, by place in the form's memory."""
        held = {id(piece) for piece, _, _, _ in self._pool.holdings()}
        found = {}
        for place, piece in enumerate(self._pieces):
            told = self._state(place, piece, held)
            if told is not None:
                found[place] = told
        return found

    def _behind(self) -> list[Behind]:
        """Copy-in and table pins of the step whose memory was freed."""
        found = []
        for pin in self._subject.declared if isinstance(self._subject, GraphStep) else ():
            if isinstance(pin, CopyIn | Table) and isinstance(pin.owner, ForeignMemory):
                memory = foreign_memory(pin.owner)
                if not memory.alive:
                    told = f"{pin.kind} {pin.name!r}"
                    found.append(Behind(*extent(pin), told, memory, memory.where))
        return found

    def _state(
        self, place: int, piece: Slice | ForeignMemory | None, held: set[int]
    ) -> tuple[str, str] | None:
        if isinstance(piece, ForeignMemory):
            if id(piece) in self._released:
                return RELEASED, self._released[id(piece)]
            memory = foreign_memory(piece)
            return None if memory.alive else (FREED, memory.where)
        if piece is None:
            covered = self._pool.staging.covers(self.form.memory[place].address)
            return None if covered else (GONE, "")
        if id(piece) not in held:
            return GONE, piece.ended_at
        return None if lives(piece) else (GIVEN_BACK, piece.ended_at)
