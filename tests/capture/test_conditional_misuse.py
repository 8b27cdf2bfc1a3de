"""Mistakes in the bodies of conditionals are refused, and the capture around them is as before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from cuda.bindings import driver as bindings

from lowgraph import driver
from lowgraph.capture import Phase, Rebind
from lowgraph.errors import (
    CaptureFailed,
    CaptureIncomplete,
    CaptureInProgress,
    CaptureRefused,
    ConditionalBodyInvalid,
    ConfigError,
    LowgraphError,
    UnjoinedFork,
)
from lowgraph.memory import open_window
from tests.capture.looping import Looping, gain


def _in_window(looping: Looping, act: Callable[[int], object]) -> None:
    def inside(stream: int) -> None:
        if open_window.mine() is not None:
            act(stream)

    looping.inside = inside


def _refused(looping: Looping, kind: type[LowgraphError]) -> LowgraphError:
    step = looping.step()
    step()
    with pytest.raises(kind) as raised:
        step.capture()
    assert driver.stream.capture_status(looping.stream) == "none"
    assert (driver.gate.guard, driver.gate.observer) == (None, None)
    looping.inside = lambda stream: None
    before = looping.total()
    step()
    step()
    assert step.phase is Phase.READY and looping.total() == before + 2 * gain(5)
    return raised.value


def test_work_for_the_body_on_the_streams_around_it_is_refused(looping: Looping) -> None:
    _in_window(looping, lambda s: looping.add(looping.stream, 1, 1, looping.sum, 1))
    refusal = _refused(looping, CaptureIncomplete)
    assert "would be recorded outside of the body" in str(refusal)
    assert "use the stream that the body is given" in str(refusal)


def test_a_fork_in_the_body_that_is_joined(looping: Looping) -> None:
    side, first, second = driver.stream.create(), driver.event.create(), driver.event.create()

    def forked(stream: int) -> None:
        driver.event.record(first, stream)
        driver.stream.wait_event(side, first)
        looping.add(side, 1, 1, looping.sum, 10_000)
        driver.event.record(second, side)
        driver.stream.wait_event(stream, second)

    looping.inside = forked
    step = looping.step()
    step()
    step()
    assert step.phase is Phase.READY, step.report().text()
    assert looping.total() == 2 * (gain(5) + 50_000)
    step.close()
    driver.stream.destroy(side)
    for event in (first, second):
        driver.event.destroy(event)


def test_a_fork_in_the_body_that_is_not_joined(looping: Looping) -> None:
    side, event = driver.stream.create(), driver.event.create()

    def forked(stream: int) -> None:
        driver.event.record(event, stream)
        driver.stream.wait_event(side, event)
        looping.add(side, 1, 1, looping.sum, 1)

    _in_window(looping, forked)
    refusal = _refused(looping, UnjoinedFork)
    assert f"stream {side:#x}" in str(refusal)
    driver.stream.destroy(side)
    driver.event.destroy(event)


@pytest.fixture
def event() -> Iterator[int]:
    made = driver.event.create()
    yield made
    driver.event.destroy(made)


def test_an_event_on_the_streams_around_the_body_is_refused(looping: Looping, event: int) -> None:
    _in_window(looping, lambda s: driver.event.record(event, looping.stream))
    refusal = _refused(looping, CaptureIncomplete)
    assert "cuEventRecord was sent to" in str(refusal) and "outside of the body" in str(refusal)


def test_a_wait_in_the_body_for_an_event_around_it_is_refused(looping: Looping, event: int) -> None:
    """The driver would answer 902 and lose both captures."""
    inside, armed = looping.body, [True]

    def body(stream: int) -> None:
        driver.event.record(event, stream)
        inside(stream)

    def wait(stream: int) -> None:
        if armed[0]:
            driver.stream.wait_event(stream, event)

    _in_window(looping, wait)
    step = looping.step(body=body)
    step()
    with pytest.raises(CaptureRefused, match=r"in the while body .* \(902\).*leave the wait out"):
        step.capture()
    armed[0] = False
    step()
    step()
    assert step.phase is Phase.READY


def test_a_wait_behind_the_body_for_an_event_of_it_is_refused(looping: Looping, event: int) -> None:
    _in_window(looping, lambda s: driver.event.record(event, s))
    before = looping.body

    def body(stream: int) -> None:
        before(stream)
        if open_window.mine() is not None:
            driver.stream.wait_event(stream, event)

    step = looping.step(body=body)
    step()
    with pytest.raises(CaptureRefused, match="recorded outside of it, at the while body of"):
        step.capture()


def test_a_bare_capture_is_refused(looping: Looping) -> None:
    driver.stream.begin_capture(looping.stream)
    try:
        with pytest.raises(CaptureRefused, match=r"bare capture.*GraphStep or a Window"):
            looping.body(looping.stream)
    finally:
        driver.graph.destroy(driver.stream.end_capture(looping.stream))


def test_a_stream_outside_of_the_capture_is_refused(looping: Looping) -> None:
    other = driver.stream.create()

    def body(stream: int) -> None:
        target = stream if open_window.mine() is None else other
        looping.steer.run_if(target, looping.limit, lambda s: None, label="astray")

    step = looping.step(body=body)
    step()
    with pytest.raises(CaptureIncomplete, match=r"'astray' was given stream .* not in the capture"):
        step.capture()
    driver.stream.destroy(other)


def test_a_flag_that_is_no_int32_is_bad_input(looping: Looping) -> None:
    with pytest.raises(ConfigError, match=r"the flag of 'while'.*give an int32"):
        looping.steer.run_while(looping.stream, looping.sum, lambda stream: None)


def test_what_the_body_raises_passes_through(looping: Looping) -> None:
    def fail(stream: int) -> None:
        raise ValueError("mine")

    _in_window(looping, fail)
    step = looping.step()
    step()
    with pytest.raises(ValueError, match="mine"):
        step()
    assert driver.stream.capture_status(looping.stream) == "none"
    looping.inside = lambda stream: None
    step()
    step()
    assert step.phase is Phase.READY


def _fork(looping: Looping, stream: int) -> None:
    event, side = bindings.cuEventCreate(2)[1], bindings.cuStreamCreate(1)[1]
    assert not bindings.cuEventRecord(event, stream)[0]
    assert not bindings.cuStreamWaitEvent(side, event, 0)[0]
    assert not bindings.cuMemsetD8Async(looping.left.address, 1, 4, side)[0]


_BREAKS: dict[str, Callable[[Looping, int], object]] = {
    "a wait for its stream": lambda looping, stream: bindings.cuStreamSynchronize(stream),
    "an allocation, which breaks the window's capture too": lambda looping, stream: (
        bindings.cuMemAlloc(8)
    ),
    "an illegal launch": lambda looping, stream: bindings.cuLaunchKernel(
        looping.down.handle, 1, 1, 1, 4096, 1, 1, 0, stream, 0, 0
    ),
    "a fork that is not joined": _fork,
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("call", _BREAKS)
def test_a_body_that_a_foreign_call_breaks(looping: Looping, call: str, nested: bool) -> None:
    """Past our gate. In a capture straight into the node's body it would end the process."""
    broken = _BREAKS[call]

    def inside(stream: int) -> None:
        if nested:
            looping.steer.run_if(stream, looping.again, lambda s: broken(looping, s))
        else:
            broken(looping, stream)

    _in_window(looping, inside)
    refusal = _refused(looping, CaptureFailed)
    assert "901" in str(refusal) or "904" in str(refusal)


def test_what_a_body_raises_may_be_swallowed(looping: Looping) -> None:
    """What it did before that is in every replay, as in an unrecorded pass."""

    def fail(stream: int) -> None:
        looping.add(stream, 1, 1, looping.sum, 10_000)
        raise ValueError("mine")

    def swallow(stream: int) -> None:
        with pytest.raises(ValueError, match="mine"):
            looping.steer.run_if(stream, looping.again, fail)

    looping.inside = swallow
    step = looping.step()
    step()
    step()
    step()
    assert step.phase is Phase.READY
    assert looping.total() == 3 * (gain(5) + 50_000)


def test_swallowing_the_refusal_of_a_body_does_not_save_the_capture(looping: Looping) -> None:
    def swallow(stream: int) -> None:
        with pytest.raises(ConditionalBodyInvalid):
            driver.entry.launch_host_function(stream, 0)

    _in_window(looping, swallow)
    _refused(looping, ConditionalBodyInvalid)


def test_a_rebind_pin_that_a_body_reads_is_refused(looping: Looping) -> None:
    """Its nodes cannot be given another address; the loop would follow the old one."""
    values = looping.pool.take("values", 1, np.int32)
    looping.set(values, 1)
    pin = Rebind("values", lambda: values)
    looping.inside = lambda s: looping.begin(s, 1, 1, looping.left, looping.again, pin)
    step = looping.step(pins=[pin])
    looping.set(looping.limit, 0)
    step()
    with pytest.raises(CaptureRefused, match=r"conditional's body holds .* rebind pin 'values'"):
        step.capture()


def test_close_twice(looping: Looping) -> None:
    looping.steer.close()
    looping.steer.close()


def test_another_threads_work_on_the_bodys_stream_is_refused(looping: Looping) -> None:
    told: list[str] = []

    def slip_in(stream: int) -> None:
        def other() -> None:
            looping.rig.device.make_current()
            try:
                driver.memory.memset_d8_async(looping.sum.address, 1, 8, stream)
            except CaptureInProgress as error:
                told.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)

    _in_window(looping, slip_in)
    step = looping.step()
    step()
    step()
    assert step.phase is Phase.READY and len(told) == 1 and "stream of the capture" in told[0]
    assert looping.total() == 2 * gain(5)
