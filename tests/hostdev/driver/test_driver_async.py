"""Calls that issue work return before it runs; streams, events and the legacy stream order it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu

from lowgraph.hostdev import control
from tests.hostdev.driver.kit import (
    INVALID_HANDLE,
    NO_TIMING,
    NOT_PERMITTED,
    NOT_READY,
    SUCCESS,
    Kit,
    code_of,
    must,
)

pytestmark = pytest.mark.host

BLOCKING = 0
LEGACY = 0


def test_a_busy_stream_answers_600_and_another_one_does_not(kit: Kit) -> None:
    busy, idle = kit.stream(), kit.stream()
    with kit.held(busy):
        assert code_of(cu.cuStreamQuery(busy)) == NOT_READY
        assert code_of(cu.cuStreamQuery(idle)) == SUCCESS
    assert code_of(cu.cuStreamQuery(busy)) == SUCCESS


def test_a_launch_returns_before_the_kernel_runs(kit: Kit) -> None:
    stream, x, y = kit.stream(), kit.put([1, 2, 3]), kit.put([0, 0, 0])
    with kit.held(stream):
        assert kit.scale(y, x, 2.0, 3, stream) == SUCCESS
        assert kit.get(y, 3) == [0, 0, 0]
    assert kit.get(y, 3) == [2, 4, 6]


def test_work_of_one_stream_runs_in_order(kit: Kit) -> None:
    stream, x = kit.stream(), kit.put([1.0])
    with kit.held(stream):
        for _ in range(10):
            kit.scale(x, x, 2.0, 1, stream)
        must(cu.cuMemsetD32Async(x, 0x40400000, 1, stream))  # 3.0f
        for _ in range(3):
            kit.scale(x, x, 2.0, 1, stream)
    assert kit.get(x, 1) == [24.0]


def test_an_event_wait_orders_two_streams(kit: Kit) -> None:
    first, second, event = kit.stream(), kit.stream(), kit.event()
    x, y = kit.put([1.0]), kit.put([0.0])
    with kit.held(first):
        kit.scale(x, x, 5.0, 1, first)
        must(cu.cuEventRecord(event, first))
        must(cu.cuStreamWaitEvent(second, event, 0))
        kit.scale(y, x, 1.0, 1, second)
        assert code_of(cu.cuEventQuery(event)) == NOT_READY
        assert code_of(cu.cuStreamQuery(second)) == NOT_READY
    must(cu.cuStreamSynchronize(second))
    assert kit.get(y, 1) == [5.0]


def test_a_wait_takes_the_record_of_its_time(kit: Kit) -> None:
    """An event recorded again after the wait was issued does not delay the waiter."""
    early, late, waiter, event = kit.stream(), kit.stream(), kit.stream(), kit.event()
    must(cu.cuEventRecord(event, early))
    must(cu.cuStreamWaitEvent(waiter, event, 0))
    with kit.held(late):
        must(cu.cuEventRecord(event, late))
        must(cu.cuStreamSynchronize(waiter))
        assert code_of(cu.cuEventQuery(event)) == NOT_READY


def test_an_event_never_recorded_is_done(kit: Kit) -> None:
    event, stream = kit.event(), kit.stream()
    assert code_of(cu.cuEventQuery(event)) == SUCCESS
    assert code_of(cu.cuEventSynchronize(event)) == SUCCESS
    assert code_of(cu.cuStreamWaitEvent(stream, event, 0)) == SUCCESS


def stays_behind(stream: int, held: bool) -> None:
    """Its work is held back by that of another stream, or comes to its end beside that."""
    end = time.monotonic() + (0.02 if held else 30)
    while code_of(cu.cuStreamQuery(stream)) == NOT_READY and time.monotonic() < end:
        time.sleep(0.001)
    assert code_of(cu.cuStreamQuery(stream)) == (NOT_READY if held else SUCCESS)


@pytest.mark.parametrize("other", [BLOCKING, 1])
def test_the_legacy_stream_waits_for_blocking_streams_only(kit: Kit, other: int) -> None:
    stream, x, y = kit.stream(other), kit.put([7.0]), kit.put([0.0])
    with kit.held(stream):
        kit.scale(y, x, 1.0, 1, LEGACY)
        stays_behind(LEGACY, other == BLOCKING)
    must(cu.cuStreamSynchronize(LEGACY))
    assert kit.get(y, 1) == [7.0]


@pytest.mark.parametrize("other", [BLOCKING, 1])
def test_blocking_streams_only_wait_for_the_legacy_stream(kit: Kit, other: int) -> None:
    stream, x, y = kit.stream(other), kit.put([7.0]), kit.put([0.0])
    with kit.held(LEGACY):
        kit.scale(y, x, 1.0, 1, stream)
        stays_behind(stream, other == BLOCKING)


def test_elapsed_time_is_that_of_the_work_between(kit: Kit) -> None:
    stream, start, end, done = kit.stream(), kit.event(), kit.event(), threading.Event()
    begin = time.monotonic()
    must(cu.cuEventRecord(start, stream))
    kit.call_host(stream, lambda: (time.sleep(0.05), done.wait()))
    must(cu.cuEventRecord(end, stream))
    assert code_of(cu.cuEventElapsedTime(start, end)) == NOT_READY
    done.set()
    must(cu.cuEventSynchronize(end))
    around = 1e3 * (time.monotonic() - begin)
    assert 49 <= must(cu.cuEventElapsedTime(start, end)) <= around + 1  # ms, as a float32


def test_elapsed_time_needs_two_timed_records(kit: Kit) -> None:
    timed, untimed, stream = kit.event(), kit.event(NO_TIMING), kit.stream()
    assert code_of(cu.cuEventElapsedTime(timed, timed)) == INVALID_HANDLE
    must(cu.cuEventRecord(timed, stream))
    must(cu.cuEventRecord(untimed, stream))
    must(cu.cuStreamSynchronize(stream))
    assert code_of(cu.cuEventElapsedTime(timed, untimed)) == INVALID_HANDLE


WAITS: dict[str, Callable[[Kit], Any]] = {
    "cuCtxSynchronize": lambda kit: must(cu.cuCtxSynchronize()),
    "cuMemFree": lambda kit: must(cu.cuMemFree(must(cu.cuMemAlloc(256)))),
    "finish": lambda kit: control.finish(),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_for_the_device_is_for_what_was_issued_before(kit: Kit, name: str) -> None:
    """A thread that goes on issuing work does not keep another one waiting."""
    early, late = kit.stream(), kit.stream()
    gates, begun, over = [threading.Event() for _ in range(2)], threading.Event(), []
    context, before = must(cu.cuCtxGetCurrent()), control.calls(name)

    def wait() -> None:
        must(cu.cuCtxSetCurrent(context))
        begun.set()
        WAITS[name](kit)
        over.append(name)

    kit.call_host(early, gates[0].wait)
    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(30)
    end = time.monotonic() + 30
    while name != "finish" and control.calls(name) == before and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(0.05)  # it is in the call, and waits
    assert not over
    kit.call_host(late, lambda: (gates[0].set(), gates[1].wait()))
    thread.join(30)
    waited = thread.is_alive()
    gates[1].set()
    thread.join()
    assert over == [name] and not waited


def test_a_stream_destroyed_in_flight_finishes_its_work(kit: Kit) -> None:
    stream, x, gate = must(cu.cuStreamCreate(1)), kit.put([3.0]), threading.Event()
    kit.call_host(stream, gate.wait)
    kit.scale(x, x, 2.0, 1, stream)
    must(cu.cuStreamDestroy(stream))
    assert code_of(cu.cuStreamQuery(stream)) == INVALID_HANDLE
    gate.set()
    must(cu.cuCtxSynchronize())
    assert kit.get(x, 1) == [6.0]


def test_an_event_destroyed_in_flight_still_orders(kit: Kit) -> None:
    first, second, event = kit.stream(), kit.stream(), must(cu.cuEventCreate(0))
    x, y = kit.put([1.0]), kit.put([0.0])
    with kit.held(first):
        kit.scale(x, x, 5.0, 1, first)
        must(cu.cuEventRecord(event, first))
        must(cu.cuStreamWaitEvent(second, event, 0))
        must(cu.cuEventDestroy(event))
        kit.scale(y, x, 1.0, 1, second)
    must(cu.cuStreamSynchronize(second))
    assert kit.get(y, 1) == [5.0]


def test_a_pageable_source_may_be_overwritten_at_once(kit: Kit) -> None:
    stream, target = kit.stream(), kit.put([0.0] * 4)
    source = np.full(4, 8.0, np.float32)
    with kit.held(stream):
        must(cu.cuMemcpyHtoDAsync(target, source.ctypes.data, source.nbytes, stream))
        source[:] = -1.0
    assert kit.get(target, 4) == [8.0] * 4


def test_a_pinned_source_is_read_when_the_copy_runs(kit: Kit) -> None:
    stream, target = kit.stream(), kit.put([0.0])
    pinned = must(cu.cuMemHostAlloc(4, 0))
    view = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 1).from_address(int(pinned)))
    view[0] = 1.0
    with kit.held(stream):
        must(cu.cuMemcpyHtoDAsync(target, pinned, 4, stream))
        view[0] = 2.0
    assert kit.get(target, 1) == [2.0]
    must(cu.cuMemFreeHost(pinned))


def test_a_copy_to_pageable_memory_has_run_when_it_returns(kit: Kit) -> None:
    stream, x = kit.stream(), kit.put([1.0])
    out = np.zeros(1, np.float32)
    kit.call_host(stream, lambda: time.sleep(0.02))
    kit.scale(x, x, 4.0, 1, stream)
    must(cu.cuMemcpyDtoHAsync(out.ctypes.data, x, 4, stream))
    assert out[0] == 4.0


def test_host_functions_run_on_the_device_side_and_may_not_call_the_driver(kit: Kit) -> None:
    stream = kit.stream()
    seen: list[object] = []
    kit.call_host(stream, lambda: seen.append(code_of(cu.cuMemAlloc(256))))
    for number in range(3):
        kit.call_host(stream, lambda number=number: seen.append(number))
    must(cu.cuStreamSynchronize(stream))
    assert seen == [NOT_PERMITTED, 0, 1, 2]


@pytest.fixture
def blocking_device() -> Iterator[None]:
    control.set_blocking(True)
    yield
    control.set_blocking(False)


@pytest.mark.usefixtures("blocking_device")
def test_on_a_blocking_device_a_call_returns_after_its_work(kit: Kit) -> None:
    stream, ran = kit.stream(), []
    kit.call_host(stream, lambda: (time.sleep(0.02), ran.append(1)))
    assert ran == [1]
    assert code_of(cu.cuStreamQuery(stream)) == SUCCESS
