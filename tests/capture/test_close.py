"""The end of a step: closed twice, from other threads, dropped, or closed when a destroy fails."""

from __future__ import annotations

import gc
import threading

import pytest

from lowgraph.capture import Phase, drain_dropped
from lowgraph.errors import DriverError, PhaseError
from lowgraph.memory import open_window
from tests.capture.bodies import THREE, Parts
from tests.capture.micro import Micro
from tests.support.interleave import lock_asked_for


def test_close_twice_and_from_two_threads(micro: Micro) -> None:
    step = micro.step()
    for _ in range(20):
        step()
    step.recapture()
    threads = [threading.Thread(target=step.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    step.close()
    assert step.phase is Phase.CLOSED and micro.pool.stats().retained == 0


def test_another_thread_closes_a_graph_that_is_being_launched(micro: Micro) -> None:
    """Either a launch is made or it is refused: never one of a destroyed executable."""
    for _ in range(20):
        step = micro.step()
        step()
        step()
        graph = step.graph
        assert graph is not None
        closer = threading.Thread(target=graph.close)
        closer.start()
        with pytest.raises(PhaseError, match="is closed"):
            while True:
                graph.launch()
        closer.join()
    assert micro.pool.stats().retained == 0


def test_close_waits_for_a_window_of_another_thread(micro: Micro) -> None:
    """A global-mode capture would be broken by the calls of a close beside it."""
    step = micro.step(label="first")
    step()
    step()
    closed = threading.Event()

    def close() -> None:
        step.close()
        closed.set()

    thread = threading.Thread(target=close)

    def in_window(number: int) -> None:
        if open_window.mine() is not None:
            with lock_asked_for() as asked:
                thread.start()
                assert asked.wait(30), "it waits for nobody"
            assert not closed.wait(0.02)

    other = micro.step(label="second", mode="global")
    other()
    micro.extra = in_window
    other()
    thread.join()
    assert other.phase is Phase.READY and other.report().refusals == 0
    assert step.phase is Phase.CLOSED


def test_a_dropped_step_with_an_update_behind_it_is_drained(micro: Micro) -> None:
    step = micro.step()
    for _ in range(20):
        step()
    step.recapture()
    micro.steps.clear()
    del step
    gc.collect()
    assert micro.pool.stats().retained > 0, "the collector calls no driver"
    assert drain_dropped() >= 1
    assert micro.pool.stats().retained == 0


def test_a_step_dropped_after_priming_gives_its_slices_back(micro: Micro) -> None:
    step = micro.step()
    step.prime()
    assert micro.pool.stats().primed > 0
    micro.steps.clear()
    del step
    gc.collect()
    drain_dropped()
    assert micro.pool.stats().primed == 0


@pytest.mark.host
def test_a_failing_destroy_after_an_update_is_raised_and_the_step_goes_on(parts: Parts) -> None:
    from lowgraph.hostdev import control

    step = parts.live(THREE)
    step.recapture()
    control.fail("cuGraphDestroy", 1, 999)
    with pytest.raises(DriverError, match="cuGraphDestroy"):
        step.recapture()
    control.fail("cuGraphDestroy", 0, 0)
    assert step.phase is Phase.READY and step.report().updates == 2
    assert parts.replayed() == parts.eager(THREE)
