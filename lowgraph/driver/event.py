"""Events. An event is its handle as an integer."""

from __future__ import annotations

from cuda.bindings import driver

from lowgraph.driver import context, gate

_DISABLE_TIMING = int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
_RECORD_EXTERNAL = int(driver.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL)


def create(timing: bool = False) -> int:
    """Create an event (cuEventCreate); without timing it is cheaper and has no elapsed time."""
    context.require("cuEventCreate")
    return int(gate.call(driver.cuEventCreate, 0 if timing else _DISABLE_TIMING))


def destroy(event: int) -> None:
    """Destroy an event (cuEventDestroy); a record in flight is still done."""
    gate.call(driver.cuEventDestroy, event)


def record(event: int, stream: int, external: bool = False) -> None:
    """Record the event on the stream (cuEventRecord).

    `external` in a capture makes it a node that records at each replay (cuEventRecordWithFlags);
    such a record cannot join a fork.
    """
    if external:
        gate.call(driver.cuEventRecordWithFlags, event, stream, _RECORD_EXTERNAL)
    else:
        gate.call(driver.cuEventRecord, event, stream)


def order(first: int, then: int) -> None:
    """Make a stream's later work come behind what another one has been given by now."""
    event = create()
    try:
        record(event, first)
        gate.call(driver.cuStreamWaitEvent, then, event, 0)
    finally:
        destroy(event)


def is_done(event: int) -> bool:
    """Return whether the last record was reached (cuEventQuery); True if never recorded."""
    return gate.finished(driver.cuEventQuery, event)


def synchronize(event: int) -> None:
    """Wait until the last record is reached (cuEventSynchronize)."""
    gate.call(driver.cuEventSynchronize, event)


def elapsed_ms(start: int, end: int) -> float:
    """Return the milliseconds between two reached records of timing events (cuEventElapsedTime)."""
    return float(gate.call(driver.cuEventElapsedTime, start, end))
