"""A clock of steps: what one took on the device, waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lowgraph.driver import event

__all__ = ["step_clock"]


@contextmanager
def step_clock(stream: int) -> Iterator[Callable[[Callable[[], None]], float]]:
    """Give what runs a step on the stream and waits for it; it returns device microseconds."""
    start, end = event.create(timing=True), event.create(timing=True)

    def run(step: Callable[[], None]) -> float:
        event.record(start, stream)
        step()
        event.record(end, stream)
        event.synchronize(end)
        return 1e3 * event.elapsed_ms(start, end)

    try:
        yield run
    finally:
        event.destroy(start)
        event.destroy(end)
