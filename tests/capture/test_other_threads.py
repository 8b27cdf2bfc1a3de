"""Threads beside an open window: what passes, what waits for its end, what is refused, and when.

Each hazard is shown first by a bare driver call, which reaches the driver past the guard.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.capture import CapturedGraph, drain_dropped
from lowgraph.capture.window import Window
from lowgraph.driver import captures
from lowgraph.errors import CaptureFailed, CaptureInProgress
from lowgraph.memory import PersistentPool
from tests.capture.micro import SOURCE, Micro
from tests.capture.test_refusals import assert_sound
from tests.capture.worker import Act, Worker
from tests.support.interleave import lock_asked_for

MODES = ("thread_local", "global", "relaxed")


@pytest.fixture
def patience() -> Iterator[None]:
    """Waits for a window end after 50 ms, so that a body may wait for its own waiter here."""
    before, captures.LOCK.patience = captures.LOCK.patience, 0.05
    yield
    captures.LOCK.patience = before


@pytest.fixture
def done_event(micro: Micro) -> Iterator[int]:
    """An event recorded before the capture, on a stream that is idle by now."""
    event = driver.event.create()
    driver.event.record(event, micro.stream)
    driver.event.synchronize(event)
    yield event
    driver.event.destroy(event)


def window_with(micro: Micro, act: Act, mode: str = "thread_local") -> Window:
    window = Window(micro.stream, pool=micro.pool, label="step", mode=mode)
    with window:
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
        act()
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
    return window


def beside(micro: Micro, act: Act, mode: str = "thread_local") -> Any:
    """What comes of an act in another thread that the body waits for; the capture stays good."""
    answers: list[Any] = []
    window_with(micro, lambda: answers.append(Worker(micro, act).result()), mode).discard()
    assert_sound(micro)
    return answers[0]


def waits_for_the_window(micro: Micro, act: Act, mode: str = "thread_local") -> Any:
    """What comes of an act in another thread that has to wait for the end of the window."""
    workers: list[Worker] = []

    def body() -> None:
        workers.append(Worker(micro, act))
        assert asked.wait(30), "it waits for nobody"
        time.sleep(0.02)
        assert workers[0].finished_at == 0.0, "it does not wait for the window"

    with lock_asked_for() as asked:
        window_with(micro, body, mode).discard()
    return workers[0].result()


def bare_breaks(micro: Micro, act: Act, mode: str) -> CaptureFailed:
    """The same by a bare driver call: it breaks the capture, or the test is about nothing."""
    with pytest.raises(CaptureFailed) as raised:
        window_with(micro, lambda: Worker(micro, act).result(), mode)
    assert_sound(micro)
    return raised.value


# ---- what passes ----


@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
def test_other_threads_work_on_their_own_streams(micro: Micro, mode: str, done_event: int) -> None:
    stream = driver.stream.create()

    def act() -> str:
        address = driver.memory.alloc(64)
        driver.memory.memset_d8_async(address, 1, 64, stream)
        driver.stream.synchronize(stream)
        assert driver.event.is_done(done_event)
        return "done"

    assert beside(micro, act, mode) == "done"
    driver.stream.destroy(stream)


def test_another_thread_may_load_a_kernel(micro: Micro) -> None:
    def act() -> str:
        return micro.rig.library.kernel(SOURCE, "forward", {"OTHER_THREAD": 1}).name

    window = Window(micro.stream, pool=micro.pool, library=micro.rig.library, label="step")
    with window:
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
        assert Worker(micro, act).result() == "forward"
    window.discard()


# ---- what waits: the window's end comes first ----


WAITS: dict[str, Callable[[Micro, int], Any]] = {
    "cuStreamSynchronize": lambda m, e: driver.stream.synchronize(m.stream),
    "cuStreamQuery": lambda m, e: driver.stream.is_done(m.stream),
    "cuCtxSynchronize": lambda m, e: driver.gate.call(cu.cuCtxSynchronize),
}
BARE: dict[str, Callable[[Micro, int], Any]] = {
    "cuStreamSynchronize": lambda m, e: cu.cuStreamSynchronize(m.stream),
    "cuStreamQuery": lambda m, e: cu.cuStreamQuery(m.stream),
    "cuCtxSynchronize": lambda m, e: cu.cuCtxSynchronize(),
    "cuEventQuery": lambda m, e: cu.cuEventQuery(e),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WAITS)
def test_a_wait_for_the_capture_breaks_it_bare_and_waits_with_us(
    micro: Micro, name: str, mode: str, done_event: int
) -> None:
    bare_breaks(micro, lambda: BARE[name](micro, done_event), mode)
    answer = waits_for_the_window(micro, lambda: WAITS[name](micro, done_event), mode)
    assert not isinstance(answer, BaseException)
    assert_sound(micro)


def test_a_poll_beside_a_global_capture_waits_too(micro: Micro, done_event: int) -> None:
    assert bare_breaks(micro, lambda: BARE["cuEventQuery"](micro, done_event), "global")
    poll = lambda: driver.event.is_done(done_event)  # noqa: E731
    assert waits_for_the_window(micro, poll, "global") is True


@pytest.mark.parametrize("mode", MODES)
def test_a_relaxed_thread_polls_beside_any_capture(
    micro: Micro, mode: str, done_event: int
) -> None:
    def act() -> int:
        with driver.stream.relaxed():
            return sum(driver.event.is_done(done_event) for _ in range(100))

    assert beside(micro, act, mode) == 100


def test_the_relaxed_mode_ends_with_its_block(micro: Micro) -> None:
    def mode_after() -> tuple[int, int, bool]:
        relaxed = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        _, before = cu.cuThreadExchangeStreamCaptureMode(relaxed)
        cu.cuThreadExchangeStreamCaptureMode(before)
        with pytest.raises(ValueError, match="mine"), driver.stream.relaxed():
            with driver.stream.relaxed():
                assert captures.is_relaxed(threading.get_ident())
            assert captures.is_relaxed(threading.get_ident())
            raise ValueError("mine")
        _, after = cu.cuThreadExchangeStreamCaptureMode(before)
        return int(before), int(after), captures.is_relaxed(threading.get_ident())

    before, after, still = Worker(micro, mode_after).result()
    assert before == after and not still


@pytest.mark.parametrize("act", ["free", "pool", "exec", "module"])
def test_frees_and_destroys_wait_for_the_windows_end(micro: Micro, act: str) -> None:
    address = driver.memory.alloc(64)
    calls: dict[str, Act] = {
        "free": lambda: driver.memory.free(address),
        "pool": lambda: micro.pool.take("late", 1 << 16),
        "exec": lambda: driver.graph.exec_destroy(0),  # refused by the driver, after the wait
        "module": lambda: driver.module.unload(0),
    }
    waits_for_the_window(micro, calls[act])
    if act != "free":
        driver.memory.free(address)


def test_a_body_that_waits_for_its_waiter_is_told(micro: Micro, patience: None) -> None:
    address = driver.memory.alloc(64)
    error = beside(micro, lambda: driver.memory.free(address))
    assert isinstance(error, CaptureInProgress)
    assert (error.label, error.thread) == ("step", threading.current_thread().name)
    assert "test_other_threads.py:" in error.since and error.since in str(error)
    assert "gave up after 0.05 s" in str(error) and "'watchdog'" in str(error)
    driver.memory.free(address)


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_for_a_window_that_does_not_end_is_given_up(
    micro: Micro, name: str, patience: None, done_event: int
) -> None:
    error = beside(micro, lambda: WAITS[name](micro, done_event))
    assert isinstance(error, CaptureInProgress) and name in str(error)


def test_a_second_window_waits_and_then_records(micro: Micro) -> None:
    other = Micro(micro.rig)
    other.stream = driver.stream.create()
    workers: list[Worker] = []

    def record() -> int:
        window = window_with(other, lambda: None)
        assert window.recording is not None
        kernels = window.recording.census.kernels
        window.discard()
        return kernels

    window_with(micro, lambda: workers.append(Worker(micro, record))).discard()
    assert workers[0].result() == 2
    stream, other.stream = other.stream, micro.stream
    driver.stream.destroy(stream)
    other.close()


# ---- what is refused at once ----


SLIPS: dict[str, Callable[[Micro, int], Any]] = {
    "kernel advance": lambda m, e: m.advance(m.stream, 1, 1, m.counter, m.rate),
    "cuMemsetD32Async": lambda m, e: driver.memory.memset_d32_async(m.x.address, 0, 4, m.stream),
    "cuEventRecord": lambda m, e: driver.event.record(e, m.stream),
    "cuStreamWaitEvent": lambda m, e: driver.stream.wait_event(m.stream, e),
    "cuStreamEndCapture": lambda m, e: driver.stream.end_capture(m.stream),
    "cuGraphLaunch": lambda m, e: driver.graph.launcher(0, m.stream)(),
}


@pytest.mark.parametrize("name", SLIPS)
def test_nothing_of_another_thread_gets_into_the_graph(
    micro: Micro, name: str, done_event: int
) -> None:
    answers: list[Any] = []

    def body() -> None:
        answers.append(Worker(micro, lambda: SLIPS[name](micro, done_event)).result())

    window = window_with(micro, body)
    assert window.recording is not None
    assert window.recording.census.nodes == 2
    window.discard()
    assert isinstance(answers[0], CaptureInProgress) and name in str(answers[0])
    assert_sound(micro)


# ---- who is suspected ----


def test_901_names_the_other_threads_calls_newest_first(micro: Micro) -> None:
    stream = driver.stream.create()

    def act() -> None:
        driver.memory.memset_d8_async(micro.y.address, 0, 4, stream)
        driver.stream.synchronize(stream)
        cu.cuCtxSynchronize()  # past the library: unseen, but what it saw of the thread helps

    error = bare_breaks(micro, act, "thread_local")
    first = act.__code__.co_firstlineno
    assert "invalidated (901) by a call that is not in its journal" in error.reason
    assert [(one.thread, one.op, one.where) for one in error.suspects[:2]] == [  # type: ignore[attr-defined]
        ("watchdog", "cuStreamSynchronize", f"{__file__}:{first + 2}"),
        ("watchdog", "cuMemsetD8Async", f"{__file__}:{first + 1}"),
    ]
    assert f"newest first: watchdog: cuStreamSynchronize({stream:#x}) answered 0" in error.reason
    driver.stream.destroy(stream)


def test_an_end_by_another_thread_past_the_library_is_told_as_such(micro: Micro) -> None:
    error = bare_breaks(micro, lambda: cu.cuStreamEndCapture(micro.stream), "thread_local")
    assert "ended (401) by a call that is not in its journal" in error.reason


# ---- the collector ----


def test_a_graph_and_a_pool_collected_in_the_window_reach_no_driver(micro: Micro) -> None:
    gc.collect()  # what tests before left would be found, and counted, here
    drain_dropped()
    window = window_with(micro, lambda: None)
    assert window.recording is not None
    pool = PersistentPool(micro.rig.device)
    address = pool.take("never given back", 1).address
    cycle: list[Any] = [CapturedGraph(window.recording, micro.pool), pool]
    cycle.append(cycle)
    del pool, window
    seen: list[str] = []

    def collect() -> None:
        nonlocal cycle
        del cycle
        assert not gc.isenabled()
        before = driver.gate.observer
        driver.gate.observer = lambda name, args, code: seen.append(name)
        assert gc.collect() > 0
        driver.gate.observer = before

    window_with(micro, collect).discard()
    assert seen == [] and gc.isenabled()
    assert drain_dropped() == 1
    assert micro.pool.stats().retained == 0
    driver.memory.free(address)  # a pool that is dropped keeps its memory: nobody knows who uses it
