"""A step whose turn to be recorded comes while another thread's window stays open."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import CapturedGraph, GraphStep, Phase, Window, drain_dropped
from lowgraph.driver import captures
from lowgraph.errors import CaptureInProgress, CaptureRefused
from lowgraph.memory import PersistentPool
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound
from tests.capture.worker import Worker
from tests.support.interleave import lock_asked_for

PATIENCE = 0.05  # seconds
FOR_EVER = 1000.0
MODES = ("thread_local", "global", "relaxed")


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Long windows are short here."""
    before, captures.LOCK.patience = captures.LOCK.patience, PATIENCE
    yield
    captures.LOCK.patience = before


@pytest.fixture
def other(micro: Micro) -> Iterator[Micro]:
    """A step with a pool and a stream of its own."""
    made = Micro(micro.rig)
    own = made.stream = driver.stream.create()
    yield made
    driver.stream.synchronize(own)
    made.close()
    driver.stream.destroy(own)


def beside(micro: Micro, act: Callable[[], Any], mode: str = "thread_local") -> Any:
    """What comes of `act` in a thread of its own while a window is open; the window stays good."""
    window = Window(micro.stream, pool=micro.pool, label="first", mode=mode)
    with window:
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
        answer = Worker(micro, act).result()
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
    assert window.recording is not None and window.recording.census.nodes == 2
    window.discard()
    return answer


def expected(other: Micro, steps: int) -> tuple[int, bytes]:
    other_stream, other.rig.stream = other.rig.stream, other.stream
    try:
        return other.expected(steps)
    finally:
        other.rig.stream = other_stream


def wait_then_go_on(step: GraphStep) -> float:
    """Run the step once, and three times more; returns the seconds of the first, which waits.

    A wait of the others would be one that the test does not live to see the end of: no figure tells
    three short steps of a busy machine from a wait of 50 ms.
    """
    begin = time.monotonic()
    step()
    took = time.monotonic() - begin
    run_without_waiting(step, 3)
    return took


def run_without_waiting(step: GraphStep, calls: int) -> None:
    captures.LOCK.patience = FOR_EVER
    for _ in range(calls):
        step()


# ---- where a plain pass is legal: counted, and the run goes on ----


@pytest.mark.parametrize("mode", MODES)
def test_a_primed_step_is_refused_once_a_window_and_goes_on(
    micro: Micro, other: Micro, mode: str
) -> None:
    step = other.step(label="second")
    step()
    took = beside(micro, lambda: wait_then_go_on(step), mode)
    assert not isinstance(took, BaseException), took
    assert took >= PATIENCE
    report = step.report()
    assert (report.refusals, report.eager_steps, step.phase) == (1, 5, Phase.REFUSED)
    assert "no turn to record 'second'" in report.first_refusal
    assert "the capture of 'first' on stream" in report.first_refusal
    assert "gave up after 0.05 s. Do it before or after the step" in report.first_refusal
    assert other.said == [f"lowgraph: second: no graph: CaptureRefused: {report.first_refusal}"]
    for _ in range(3):  # primes, records, replays
        step()
    assert step.phase is Phase.READY and step.report().replays == 2
    assert other.state() == expected(other, 8)
    assert_sound(micro)


@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
def test_a_cold_step_is_refused_and_runs_and_takes_memory(
    micro: Micro, other: Micro, mode: str
) -> None:
    step = other.step()
    answer = beside(micro, lambda: (step(), run_without_waiting(step, 1)), mode)
    assert not isinstance(answer, BaseException), answer
    report = step.report()
    assert (report.refusals, report.eager_steps, step.phase) == (1, 2, Phase.COLD)
    assert report.why_no_graph == report.first_refusal
    assert report.launches_eager_step == 0, "what nobody listened to is not counted"
    for _ in range(3):
        step()
    assert step.phase is Phase.READY and step.report().launches_eager_step == 4
    assert other.state() == expected(other, 5)


def test_each_long_window_is_an_attempt_and_too_many_disable_the_step(
    micro: Micro, other: Micro
) -> None:
    step = other.step(max_refusals=2)
    for _ in range(2):
        beside(micro, step)
    assert step.phase is Phase.DISABLED and step.report().refusals == 2
    assert "2 attempts refused" in step.report().why_no_graph


def test_a_step_without_graph_does_not_wait(micro: Micro, other: Micro) -> None:
    step = other.step(graph=False)
    assert beside(micro, lambda: run_without_waiting(step, 2)) is None
    assert step.report().launches_eager_step == 0
    step()
    assert step.report().launches_eager_step == 4 and other.state() == expected(other, 3)


def test_a_capture_that_is_asked_for_is_refused(micro: Micro, other: Micro) -> None:
    step = other.step()
    step.prime()
    refusal = beside(micro, step.capture)
    assert type(refusal) is CaptureRefused and isinstance(refusal.__cause__, CaptureInProgress)
    assert step.phase is Phase.REFUSED and step.report().refusals == 1
    assert other.pool.stats().retained == 0, "what was primed is given back"


def test_a_recapture_leaves_the_live_graph(micro: Micro, other: Micro) -> None:
    step = other.step()
    step()
    step()
    for number, free_first in enumerate((False, True)):
        error = beside(micro, lambda free=free_first: step.recapture(free))  # type: ignore[misc]
        assert isinstance(error, CaptureInProgress) and step.phase is Phase.READY
        step()
        assert step.report().replays == 2 + number
    assert other.state() == expected(other, 4)


# ---- where it is not: nothing runs, and the reason is said ----


def refused(micro: Micro, other: Micro, step: GraphStep, why: str, mode: str) -> None:
    ran = other.passes
    error = beside(micro, step, mode)
    assert isinstance(error, CaptureInProgress) and why in str(error), error
    assert "without a graph" in str(error) and "Do it before or after" in str(error)
    assert error.label == "first" and error.thread == threading.current_thread().name
    assert other.passes == ran, "nothing of the step has run"
    for _ in range(3):
        step()
    assert step.phase is Phase.READY


@pytest.mark.parametrize("ran", [0, 1])
def test_a_pool_that_the_window_uses(micro: Micro, other: Micro, ran: int) -> None:
    own, other.pool = other.pool, micro.pool
    step = other.step()
    for _ in range(ran):
        step()
    refused(micro, other, step, "its pool serves that window", "thread_local")
    step.close()
    other.pool = own


@pytest.mark.parametrize("ran", [0, 1])
def test_a_stream_that_is_in_the_capture(micro: Micro, other: Micro, ran: int) -> None:
    step = other.step(stream=micro.stream)
    for _ in range(ran):
        step()
    refused(micro, other, step, "its stream is in that capture", "thread_local")
    micro.rig.sync()
    step.close()


def test_a_first_pass_beside_a_global_capture(micro: Micro, other: Micro) -> None:
    refused(micro, other, other.step(), "its first pass allocates, which breaks", "global")


def test_what_the_body_raises_is_no_refusal(other: Micro) -> None:
    def extra(number: int) -> None:
        raise CaptureInProgress("mine")

    other.extra = extra
    step = other.step()
    with pytest.raises(CaptureInProgress, match="mine"):
        step()
    assert step.report().refusals == 0 and step.phase is Phase.COLD


# ---- the pool's lock ----


def test_pools_of_other_threads_work_beside_a_window(micro: Micro, other: Micro) -> None:
    def act() -> int:
        pieces = [other.pool.take(f"piece {n}", 1 << n) for n in range(12)]
        for piece in pieces:
            other.pool.give_back(piece)
        return other.pool.stats().slices

    before = other.pool.stats().slices
    assert beside(micro, act) == before
    assert isinstance(beside(micro, micro.pool.stats), CaptureInProgress), "its own pool waits"


def test_two_threads_over_one_pool_beside_a_window_do_not_meet(
    micro: Micro, other: Micro, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the pool's own lock alone, which keeps them apart: while one is inside, one is."""
    inside: list[int] = []
    most: list[int] = []

    def annotate(address: int, nbytes: int, state: str, name: str) -> None:
        inside.append(address)
        most.append(len(inside))
        time.sleep(1e-4)  # lets the other thread run
        inside.pop()

    def churn() -> None:
        for _ in range(20):
            other.pool.give_back(other.pool.take("churn", 64))

    def act() -> list[Any]:
        workers = [Worker(micro, churn), Worker(micro, churn)]
        return [worker.result() for worker in workers]

    with monkeypatch.context() as patched:
        patched.setattr(other.rig.device, "annotate", annotate)
        assert beside(micro, act) == [None, None]
    assert len(most) >= 80 and max(most) == 1


def test_a_pool_grows_beside_a_window_and_nobody_waits_for_it(micro: Micro) -> None:
    """While the driver is asked the pool's lock is free: threads could wait for each other."""
    seen: list[Any] = []

    class Asked:
        def alloc(self, nbytes: int) -> int:
            seen.append(Worker(micro, lambda: pool.stats().reserved).result())
            return driver.memory.alloc(nbytes)

        def free(self, address: int) -> None:
            driver.memory.free(address)

    pool = PersistentPool(micro.rig.device, limit=1 << 20, upstream=Asked())
    piece = beside(micro, lambda: pool.take("grown", 1000))
    assert piece.nbytes == 4000 and seen == [0]
    assert pool.stats().driver_allocs == 1 and pool.stats().reserved == 4096
    pool.give_back(piece)
    pool.close()


def test_a_pool_that_gives_memory_back_waits_for_the_window(micro: Micro, other: Micro) -> None:
    full = PersistentPool(micro.rig.device, limit=1 << 12)
    full.give_back(full.take("first", 1 << 8))
    for act in (other.pool.trim, lambda: full.take("more", 1 << 10)):
        error = beside(micro, act)
        assert isinstance(error, CaptureInProgress), error
        assert "a pool that asks the driver for memory or gives it back" in str(error)
    full.close()


def test_a_full_pool_makes_room_once_the_window_is_over(micro: Micro) -> None:
    captures.LOCK.patience = 10.0
    full = PersistentPool(micro.rig.device, limit=1 << 12)
    full.give_back(full.take("first", 1 << 8))
    workers: list[Worker] = []
    window = Window(micro.stream, pool=micro.pool)
    with lock_asked_for() as asked, window:
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
        workers.append(Worker(micro, lambda: full.take("more", 1 << 10)))
        assert asked.wait(30)
        time.sleep(0.02)
        assert workers[0].finished_at == 0.0
    window.discard()
    piece = workers[0].result()
    assert piece.nbytes == 4096 and full.stats().driver_frees == 1
    full.give_back(piece)
    full.close()


def test_what_the_collector_found_stays_in_the_queue(micro: Micro, other: Micro) -> None:
    gc.collect()  # what tests before left would be counted here
    drain_dropped()
    window = Window(other.stream, pool=other.pool)
    with window:
        other.advance(other.stream, 1, 1, other.counter, other.rate)
    assert window.recording is not None
    CapturedGraph(window.recording, other.pool)  # dropped at once
    del window
    gc.collect()
    assert isinstance(beside(micro, drain_dropped), CaptureInProgress)
    assert drain_dropped() == 1


def test_the_lock_is_free_after_use(other: Micro) -> None:
    other.pool.give_back(other.pool.take("one", 1))

    def attempt() -> bool:
        taken = captures.LOCK.attempt()
        if taken:
            captures.LOCK.release()
        return taken

    assert Worker(other, attempt).result() is True
    with captures.LOCK:
        assert Worker(other, attempt).result() is False
