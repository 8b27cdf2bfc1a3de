"""Graphs that lowgraph did not capture: recorded by the driver's own calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cuda.bindings import driver as cu

from lowgraph import driver
from tests.capture.bodies import Body, Parts


@contextmanager
def recorded(parts: Parts, body: Body) -> Iterator[int]:
    """The handle of a graph of the body, destroyed at the block's end."""
    mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    assert int(cu.cuStreamBeginCapture(parts.stream, mode)[0]) == 0
    try:
        body(parts)
    finally:
        code, graph = cu.cuStreamEndCapture(parts.stream)
    assert int(code) == 0
    try:
        yield int(graph)
    finally:
        driver.graph.destroy(int(graph))
