"""Host calls: kept by the graph, counted, failures told once, no driver call from inside."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from lowgraph import driver
from lowgraph.capture import HostCall, Phase, raise_pending
from lowgraph.driver import callbacks
from lowgraph.errors import (
    CaptureRefused,
    ConfigError,
    CudaInHostCallback,
    EmptyCapture,
    HostCallbackError,
)
from tests.capture.micro import Micro

pytestmark = pytest.mark.both


class Closure:
    """A function that notes each call, and whose life a weak reference can follow."""

    def __init__(self, calls: list[int]) -> None:
        self.calls = calls

    def __call__(self) -> None:
        self.calls.append(len(self.calls))


def _calling(micro: Micro, function: Callable[[], object], name: str = "note") -> None:
    """The body enqueues a HostCall, made anew in each pass: nobody keeps it."""
    micro.extra = lambda number: HostCall(function, name).enqueue(micro.stream)


def _step_forgetting(micro: Micro, calls: list[int]) -> weakref.ref[Closure]:
    """A recorded step whose closure only the graph keeps; it ran once, unrecorded."""
    closure = Closure(calls)
    alive = weakref.ref(closure)
    _calling(micro, closure)
    step = micro.step()
    step.prime()
    step.capture()
    micro.extra = lambda number: None
    del closure
    gc.collect()
    micro.rig.sync()
    return alive


def test_the_graph_keeps_the_function_for_every_replay(micro: Micro) -> None:
    calls: list[int] = []
    alive = _step_forgetting(micro, calls)
    step = micro.steps[0]
    calls.clear()
    for _ in range(5):
        step()
        gc.collect()
    micro.rig.sync()
    assert calls == [0, 1, 2, 3, 4] and alive() is not None
    assert step.phase is Phase.READY and step.report().nodes_by_type == {"kernel": 4, "host": 1}
    assert micro.state() == micro.expected(6)


def test_the_function_is_let_go_after_close_and_idle(micro: Micro) -> None:
    calls: list[int] = []
    alive = _step_forgetting(micro, calls)
    hold, seen = threading.Event(), []
    gate = HostCall(lambda: seen.append(hold.wait(30)), "hold")
    gate.enqueue(micro.stream)  # the replay stays in flight until it is let through
    micro.steps[0]()
    closing = threading.Thread(target=micro.steps[0].close)
    closing.start()
    while micro.steps[0].phase is not Phase.CLOSED:  # else it may not have begun
        time.sleep(0.001)
    closing.join(0.1)
    assert closing.is_alive() and alive() is not None and calls == [0]
    hold.set()
    closing.join(30)
    gc.collect()
    assert not closing.is_alive() and seen == [True] and calls == [0, 1]
    assert alive() is None


def test_a_dropped_graph_lets_go_when_it_is_drained(micro: Micro) -> None:
    alive = _step_forgetting(micro, [])
    before = len(callbacks._table)
    micro.steps.clear()
    gc.collect()
    assert alive() is not None  # the collector makes no driver call, and cannot know of idleness
    step = micro.step()
    step()
    gc.collect()
    assert alive() is None and len(callbacks._table) == before - 1


def test_an_unrecorded_call_is_let_go_once_it_ran(micro: Micro) -> None:
    closure = Closure([])
    alive = weakref.ref(closure)
    HostCall(closure).enqueue(micro.stream)
    del closure
    micro.rig.sync()
    gc.collect()
    assert alive() is None and not callbacks._table


def test_a_refused_window_keeps_nothing(micro: Micro) -> None:
    step = micro.step()
    step.prime()
    closures = [Closure([])]
    alive = weakref.ref(closures[0])

    def recorded_then_refused(number: int) -> None:
        HostCall(closures.pop()).enqueue(micro.stream)
        raise EmptyCapture("planted")

    micro.extra = recorded_then_refused
    with pytest.raises(EmptyCapture, match="planted"):
        step.capture()
    gc.collect()
    assert alive() is None and not callbacks._table


def test_a_recapture_lets_the_old_function_go(micro: Micro) -> None:
    alive = _step_forgetting(micro, [])
    calls: list[int] = []
    _calling(micro, lambda: calls.append(1))
    step = micro.steps[0]
    step()
    assert step.recapture(), step.report().text()
    gc.collect()
    assert alive() is None
    micro.rig.sync()
    calls.clear()
    step()
    step()
    micro.rig.sync()
    assert calls == [1, 1]


def test_a_failure_is_told_once_with_its_replay(micro: Micro) -> None:
    runs: list[int] = []

    def third_fails() -> None:
        runs.append(1)
        if len(runs) == 4:  # one unrecorded call, then replays
            raise ValueError("three is too many")

    _calling(micro, third_fails)
    step = micro.step()
    for _ in range(4):
        step()
    micro.rig.sync()
    before = micro.state()
    with pytest.raises(HostCallbackError, match="'note' failed in replay 3: ValueError") as raised:
        step()
    assert raised.value.name == "note" and raised.value.replay == 3
    assert isinstance(raised.value.__cause__, ValueError)
    assert micro.state() == before and step.phase is Phase.READY  # nothing was launched
    step()
    micro.rig.sync()
    assert len(runs) == 5 and not callbacks.pending
    raise_pending(micro.stream)
    assert micro.state() == micro.expected(5)


@pytest.mark.parametrize("graph", [True, False])
def test_a_failure_of_an_unrecorded_pass_is_told_by_the_next_step(
    micro: Micro, graph: bool
) -> None:
    _calling(micro, lambda: 1 / 0)
    step = micro.step(graph=graph)
    step()
    micro.rig.sync()
    phase, passes = step.phase, micro.passes
    with pytest.raises(HostCallbackError, match="in an unrecorded pass: ZeroDivisionError"):
        step()
    assert step.phase is phase and micro.passes == passes and not callbacks.pending


def test_failures_beyond_a_bound_are_counted_only(micro: Micro) -> None:
    call = HostCall(lambda: 1 / 0, "bad")
    for _ in range(40):
        call.enqueue(micro.stream)
    micro.rig.sync()
    told = []
    while callbacks.pending:
        with pytest.raises(HostCallbackError) as raised:
            raise_pending(micro.stream)
        told.append(raised.value)
    assert len(told) == 32 and told[-1].dropped == 8
    assert "8 later failures were not kept" in str(told[-1])


def test_a_driver_call_from_inside_is_refused_before_the_driver(micro: Micro) -> None:
    refused: list[str] = []

    def asks() -> None:
        try:
            driver.memory.info()
        except CudaInHostCallback as error:
            refused.append(str(error))
            raise

    _calling(micro, asks, "asks")
    step = micro.step()
    step.prime()
    micro.rig.sync()
    with pytest.raises(CudaInHostCallback):
        raise_pending(micro.stream)
    step.capture()
    step.replay()
    micro.rig.sync()
    assert refused[-1].startswith("host call 'asks' failed in replay 1: cuMemGetInfo was not sent")
    with pytest.raises(CudaInHostCallback) as raised:
        step()
    assert raised.value.replay == 1 and not callbacks.running
    assert driver.memory.info()[0] > 0  # this thread may


def test_another_thread_may_call_while_a_host_call_runs(micro: Micro) -> None:
    """Neither the gate nor the GIL is shut for others: the wait below would never end."""
    hold, seen = threading.Event(), []
    HostCall(lambda: seen.append(hold.wait(30))).enqueue(micro.stream)
    assert not driver.stream.is_done(micro.stream)

    def let_through() -> None:
        micro.rig.device.make_current()
        hold.set()

    other = threading.Timer(0.1, let_through)
    other.start()
    driver.stream.synchronize(micro.stream)  # in the driver, while the others need the GIL
    other.join()
    assert seen == [True]


def test_a_bare_capture_is_refused(micro: Micro) -> None:
    driver.stream.begin_capture(micro.stream)
    with pytest.raises(CaptureRefused, match="bare capture"):
        HostCall(lambda: None).enqueue(micro.stream)
    driver.graph.destroy(driver.stream.end_capture(micro.stream))
    assert not callbacks._table


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="give a function"):
        HostCall(3)  # type: ignore[arg-type]
