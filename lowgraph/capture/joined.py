"""JoinedWindow: a window inside a capture that somebody else began and will end.

What lowgraph launches in it becomes nodes of their graph. Everything else is as in a window of our
own: no allocation, wait or module load, launches that go astray are told. The graph is theirs: it
is neither ended nor destroyed here, and nodes that a refused window left in it stay there.
"""

from __future__ import annotations

from collections import Counter

from lowgraph import driver
from lowgraph.capture import census as census_of
from lowgraph.capture.census import Census
from lowgraph.capture.window import Window
from lowgraph.driver import codes
from lowgraph.errors import CaptureRefused, DriverError
from lowgraph.memory import open_window

__all__ = ["JoinedWindow"]

_INVALIDATED = 901


class JoinedWindow(Window):
    """See the module. Kernels have to be resident before: loading one would break the capture."""

    begins = False
    _before = Census(0, {}, ())

    def _make_ready(self) -> None:
        graph = driver.stream.capture_graph(self.stream)
        if graph is None:
            status = driver.stream.capture_status(self.stream)
            raise open_window.refused(
                CaptureRefused(
                    f"{self.label!r} would join the capture of stream {self.stream:#x}, which is "
                    + ("in none" if status == "none" else "broken (901)"),
                    self._began_at,
                    "record it between the begin and the end of their capture, with its stream",
                )
            )
        self._before = census_of.take_census(graph)

    def _begin_capture(self) -> None:
        """They have begun it."""

    def _end_capture(self) -> tuple[int, DriverError | None]:
        graph = driver.stream.capture_graph(self.stream)
        if graph is not None:
            return graph, None
        name = codes.name_of(_INVALIDATED)
        text = "the capture that was joined is not active any more"
        call = "cuStreamGetCaptureInfo"
        return 0, DriverError(call, hex(self.stream), _INVALIDATED, name, text)

    def _take_census(self, graph: int) -> Census:
        """Of the nodes that came in the window, and of the bodies of their conditionals."""
        after, before = super()._take_census(graph), self._before
        types = Counter(after.types) - Counter(before.types)
        functions = Counter(after.functions) - Counter(before.functions)
        return Census(
            after.nodes - before.nodes, dict(types), tuple(functions.elements()), after.in_bodies
        )

    def _destroy(self, graph: int) -> None:
        """It is not ours."""
