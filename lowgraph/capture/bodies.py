"""The bodies of one window's conditionals: recorded on a stream of their own, judged at their end.

A body is recorded by a capture and into a graph of its own, and copied into the conditional node's
body once it has ended well and was found good. A capture straight into the body would be less work;
but where it is invalidated, or not joined, driver 580.159 frees a graph that the node still names,
and the end of the window's capture ends the process. Conditionals inside of a body are empty nodes
of its graph until it is copied.

While a body is open the guard knows its stream and the forks of that, and no other: what is sent to
a stream of the window meanwhile would be recorded outside of the body.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from lowgraph import driver
from lowgraph.capture import body_rules
from lowgraph.capture.guard import WindowGuard
from lowgraph.capture.journal import Journal
from lowgraph.errors import ConditionalBodyInvalid, DriverError
from lowgraph.memory import open_window

__all__ = ["Bodies", "Body", "Slot"]


@dataclass
class Body:
    """A body that is recorded, and where it was begun.

    number: from 1, in the order of recording. label: "body of while 'newton'". graph: the one that
    it is recorded into, then the body that belongs to the conditional node; 0 between, or refused.
    """

    number: int
    label: str
    where: str
    graph: int = 0


@dataclass
class Slot:
    """One side of a conditional. graph: the node's body, 0 while the body around it is recorded.

    recorded: what waits to be copied there; inside: the conditionals in it, by their empty nodes.
    """

    graph: int = 0
    body: Body | None = None
    recorded: int = 0
    inside: dict[int, _Inner] = field(default_factory=dict)


@dataclass(frozen=True)
class _Inner:
    """A conditional inside of a body: what its node will be made of."""

    handle: int
    kind: str
    slots: list[Slot]


class Bodies:
    """See the module. recorded: those that have begun, in order."""

    def __init__(self, guard: WindowGuard, journal: Journal, mode: str) -> None:
        """Keep the bodies of one window, whose capture has that mode."""
        self.recorded: list[Body] = []
        self.guard = guard
        self._journal = journal
        self._mode = mode
        self._open: list[Slot] = []  # outermost first

    def create_handle(self, graph: int) -> int:
        """Make the condition of a conditional that `graph`, of an open capture, will hold."""
        # All bodies in one graph share its conditions; what one is recorded into is no part of it.
        return driver.conditional.create_handle(self._open[0].graph if self._open else graph)

    def add(self, stream: int, handle: int, kind: str, sides: int) -> list[Slot]:
        """Add a conditional behind the work of `stream`, or keep its place in the open body."""
        if not self._open:
            made = driver.conditional.add_to_capture(stream, handle, kind, sides)
            return [Slot(graph) for graph in made.bodies]
        inner = _Inner(handle, kind, [Slot() for _ in range(sides)])
        self._open[-1].inside[driver.conditional.hold_place(stream)] = inner
        return inner.slots

    @contextmanager
    def open(self, slot: Slot, label: str, stream: int) -> Iterator[Body]:
        """Record what `stream` is given in the block as one side of a conditional.

        stream: a non-blocking one that is in no capture. Raises ConditionalBodyInvalid, DriverError
        at the end: the capture around it is still valid.
        """
        slot.body = body = Body(len(self.recorded) + 1, label, open_window.requester())
        self.recorded.append(body)
        self._begin(body, stream)
        try:
            with self._inside(slot, body, stream):
                yield body
        except BaseException:
            # What is raised says more; should the caller swallow it, what came before it counts.
            with suppress(DriverError, ConditionalBodyInvalid):
                self._settle(slot, stream)
            raise
        self._settle(slot, stream)

    @contextmanager
    def _inside(self, slot: Slot, body: Body, stream: int) -> Iterator[None]:
        before = self._journal.placed
        self._journal.place(body.number, aside=False)
        self._open.append(slot)
        try:
            with self.guard.inside(body, stream):
                yield
                self.guard.check_forks()
        finally:
            self._open.pop()
            self._journal.place(*before)
            body.graph = 0

    def _begin(self, body: Body, stream: int) -> None:
        with self.guard.disarmed():
            driver.stream.begin_capture(stream, self._mode)
            body.graph = driver.stream.capture_graph(stream) or 0

    def _end(self, stream: int) -> int:
        with self.guard.disarmed():
            try:
                return driver.stream.end_capture(stream)
            except DriverError:
                with suppress(DriverError):  # an end that failed without ending the capture
                    if driver.stream.capture_status(stream) != "none":
                        driver.graph.destroy(driver.stream.end_capture(stream))
                raise

    def _settle(self, slot: Slot, stream: int) -> None:
        """End the body, judge it, and copy it if it is one of the window's own conditionals."""
        try:
            slot.recorded = self._end(stream)
            self._judge(slot)
            if slot.graph:
                self._fill(slot)
        except BaseException:
            self._drop(slot)
            raise

    def _judge(self, slot: Slot) -> None:
        found = body_rules.illegal_node(slot.recorded)
        if found is not None and slot.body is not None:
            raise open_window.refused(body_rules.refusal(slot.body.label, *found, slot.body.where))

    def _fill(self, slot: Slot) -> None:
        """Copy what was recorded, and the conditionals inside, into the node's body."""
        if not slot.recorded:  # it failed, so that the window is refused
            return
        with self.guard.disarmed():
            stand_ins = {node: partial(self._add_inner, slot.graph, inner)
                         for node, inner in slot.inside.items()}  # fmt: skip
            twins = driver.transplant.copy_nodes(slot.recorded, slot.graph, stand_ins)
        if slot.body is not None:
            slot.body.graph = slot.graph
            self._journal.copied(slot.body.number, twins)
        self._drop(slot)

    def _add_inner(self, graph: int, inner: _Inner, behind: list[int]) -> int:
        sides = len(inner.slots)
        made = driver.conditional.add(graph, behind, inner.handle, inner.kind, sides)
        for slot, body in zip(inner.slots, made.bodies, strict=True):
            slot.graph = body
            self._fill(slot)
        return made.node

    def _drop(self, slot: Slot) -> None:
        """Destroy what was recorded, here and in the conditionals inside."""
        for inner in slot.inside.values():
            for side in inner.slots:
                self._drop(side)
        recorded, slot.recorded = slot.recorded, 0
        if recorded:
            with self.guard.disarmed(), suppress(DriverError):  # what is raised says more
                driver.graph.destroy(recorded)
