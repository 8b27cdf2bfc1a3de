"""The bodies of one window's conditionals: recorded on a stream of their own, judged at their end.

A body is a capture of its own inside the window's. While it is open the guard knows its stream and
the forks of that, and no other: what is sent to a stream of the window meanwhile would be recorded
outside of the body.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lowgraph import driver
from lowgraph.capture import body_rules
from lowgraph.capture.guard import WindowGuard
from lowgraph.capture.journal import Journal
from lowgraph.errors import DriverError
from lowgraph.memory import open_window

__all__ = ["Bodies", "Body"]


@dataclass(frozen=True)
class Body:
    """A recorded body: its graph, which belongs to the conditional node, and where it was begun.

    number: from 1, in the order of recording. label: "body of while 'newton'".
    """

    number: int
    graph: int
    label: str
    where: str


class Bodies:
    """See the module. recorded: those that have begun, in order."""

    def __init__(self, guard: WindowGuard, journal: Journal, mode: str) -> None:
        """Keep the bodies of one window, whose capture has that mode."""
        self.recorded: list[Body] = []
        self.guard = guard
        self._journal = journal
        self._mode = mode

    @contextmanager
    def open(self, graph: int, label: str, stream: int) -> Iterator[Body]:
        """Record what `stream` is given in the block into a body graph.

        stream: a non-blocking one that is in no capture. Raises ConditionalBodyInvalid, DriverError
        at the end: the capture around it is still valid.
        """
        body = Body(len(self.recorded) + 1, graph, label, open_window.requester())
        self.recorded.append(body)
        with self.guard.disarmed():
            driver.conditional.begin_body(stream, graph, self._mode)
        before = self._journal.placed
        self._journal.place(body.number, aside=False)
        try:
            with self.guard.inside(body, stream):
                yield body
                self.guard.check_forks()
        except BaseException:
            with suppress(DriverError):  # what is raised says more
                self._end(stream)
            raise
        finally:
            self._journal.place(*before)
        self._end(stream)
        found = body_rules.illegal_node(graph)
        if found is not None:
            raise open_window.refused(body_rules.refusal(label, *found, body.where))

    def _end(self, stream: int) -> None:
        with self.guard.disarmed():
            try:
                driver.stream.end_capture(stream)
            except DriverError:
                with suppress(DriverError):  # an end that failed without ending the capture
                    if driver.stream.capture_status(stream) != "none":
                        driver.stream.end_capture(stream)
                raise
