"""What a replay calls, and what is done when its launch is refused for want of a context."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lowgraph import counters, driver
from lowgraph.capture.graph import CapturedGraph
from lowgraph.capture.pin_set import PinSet
from lowgraph.driver import codes
from lowgraph.errors import DriverError

__all__ = ["first_launch", "launched_again", "replayer"]


def first_launch(graph: CapturedGraph, pins: PinSet, stream: int) -> int:
    """The first replay of a recording; returns its launches, those of the pins left out."""
    driver.callbacks.raise_pending(stream)  # of the unrecorded pass
    pins.before_replay()
    with counters.scope(own=True) as counts:  # beside it another thread may replay a step
        graph.launch()
    return counts.launches + counts.graph_launches


def replayer(graph: CapturedGraph, pins: PinSet | None, stream: int) -> Callable[[], None]:
    """What a replay calls: nothing is looked up, allocated or locked between it and the gate.

    pins: None when there is none. Measured by benchmarks/step_overhead.py.
    """
    launch = graph.launch if pins is None else partial(_pinned_launch, pins, graph)
    calls_host = "host" in graph.census.types
    return partial(_launch_after_host_calls, launch, stream) if calls_host else launch


def launched_again(
    error: DriverError, launch: Callable[[], None] | None, device: driver.Device
) -> DriverError | None:
    """Launch once more if the thread had no context, with the device's; returns the error left.

    Nothing of the failed launch was made then, the pins' copies included. Raises the error if
    another context is current: the thread has its reasons, and the graph is as good as ever.
    """
    if launch is None or not _lends_context(error, device):
        return error
    try:
        launch()
    except DriverError as again:
        return again
    return None


def _lends_context(error: DriverError, device: driver.Device) -> bool:
    if error.code != codes.INVALID_CONTEXT:
        return False
    current = device.current_context()
    if current == device.context:
        return False
    if current:
        raise error
    device.make_current()
    return True


def _pinned_launch(pins: PinSet, graph: CapturedGraph) -> None:
    pins.before_replay()
    graph.launch()


def _launch_after_host_calls(launch: Callable[[], None], stream: int) -> None:
    driver.callbacks.raise_pending(stream)
    launch()
