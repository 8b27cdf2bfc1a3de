"""How an arm of ours is timed: events around a burst, the host's clock around its calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lowgraph import driver
from lowgraph.bench.busy import trace, traced
from lowgraph.capture import CapturedGraph

__all__ = ["StepArm", "graph_costs"]

_US = 1e6


class StepArm:
    """An arm over one stream; `step` enqueues one step.

    what: its facts. device_kind: nothing is traced on the host device.
    """

    def __init__(
        self, step: Callable[[], object], stream: int, facts: dict[str, Any], device_kind: str
    ) -> None:
        self._step = step
        self._stream = stream
        self._facts = facts
        self._kind = device_kind
        self._begin, self._end = (driver.event.create(timing=True) for _ in range(2))

    def facts(self) -> dict[str, Any]:
        """As given."""
        return self._facts

    def burst(self, steps: int) -> dict[str, float]:
        """Microseconds of a step: wall between two events, host to enqueue."""
        step = self._step
        driver.event.record(self._begin, self._stream)
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        host = time.perf_counter() - begin
        driver.event.record(self._end, self._stream)
        driver.event.synchronize(self._end)
        wall_ms = driver.event.elapsed_ms(self._begin, self._end)
        return {"wall_us": wall_ms * 1e3 / steps, "host_us": host * _US / steps}

    def trace(self, steps: int) -> dict[str, Any]:
        """Busy time of a step, by PyTorch's profiler: the instrument that the rivals have."""
        if self._kind == "host":
            return {"busy_us": None, "why": "the host device has no tracer"}
        return traced(self._step, self.wait, steps)

    def events(self, steps: int) -> tuple[list[dict[str, Any]], str]:
        """What `trace` counts, event by event, or none and why."""
        if self._kind == "host":
            return [], "the host device has no tracer"
        return trace(self._step, self.wait, steps)

    def wait(self) -> None:
        """For all that was enqueued."""
        driver.stream.synchronize(self._stream)

    def close(self) -> None:
        """Destroy the events."""
        for event in (self._begin, self._end):
            driver.event.destroy(event)


def graph_costs(graph: CapturedGraph) -> dict[str, Any]:
    """Microseconds to instantiate, upload and update an executable of this graph's recording.

    And graph_bytes, the device memory that it took. A second executable is made for it; the live
    one is not touched. Upload includes the wait. A refused update has no time, but a reason.
    """
    handles = graph._handles  # the recorded graph has no public name: nobody else may want it
    assert handles is not None, "a live graph has handles"
    found: dict[str, Any] = {}

    def timed(name: str, act: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = act()
        found[name] = round((time.perf_counter() - begin) * _US, 1)
        return result

    def upload() -> None:
        driver.graph.upload(made, graph.stream)
        driver.stream.synchronize(graph.stream)

    driver.stream.synchronize(graph.stream)
    free = driver.memory.info()[0]
    made = timed("instantiate_us", lambda: driver.graph.instantiate(handles.graph))
    timed("upload_us", upload)
    found["graph_bytes"] = free - driver.memory.info()[0]
    result = timed("update_us", lambda: driver.graph.update(made, handles.graph))
    driver.graph.exec_destroy(made)
    if not result.ok:
        del found["update_us"]
        found["update_refused"] = result.reason
    return found
