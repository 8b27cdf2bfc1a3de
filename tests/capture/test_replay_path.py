"""The path of a replay: what it calls, that it keeps nothing, and what is seen of it."""

from __future__ import annotations

import sys
import threading

import pytest

from lowgraph import counters, driver
from lowgraph.errors import ContextPoisoned, PhaseError
from lowgraph.memory import open_window
from tests.capture.micro import Micro


def test_replays_leave_no_object_behind(micro: Micro) -> None:
    step = micro.step()
    for _ in range(300):
        step()
    micro.rig.sync()

    def kept() -> int:
        before = sys.getallocatedblocks()
        for _ in range(1000):
            step()
        return sys.getallocatedblocks() - before

    # Of all threads of the process, in which a test runner's may get a message: that is once.
    least = min(kept() for _ in range(4))
    assert least < 20, f"{least} blocks more after 1000 replays"


def test_a_replay_takes_no_lock_of_ours(micro: Micro) -> None:
    """Another thread that holds the process's capture lock does not hold up a replay."""
    step = micro.step()
    for _ in range(3):
        step()
    done = threading.Event()

    def replay() -> None:
        micro.rig.device.make_current()
        step()
        done.set()

    with open_window.LOCK:
        thread = threading.Thread(target=replay)
        thread.start()
        assert done.wait(10)
    thread.join()
    assert micro.state()[0] == 4


def test_a_replay_in_another_thread_is_none_of_the_steps_first(micro: Micro) -> None:
    """What the report says a replay launches is counted at the first one."""
    other, step = micro.step(label="other"), micro.step()
    for _ in range(3):
        other()
    step.prime()
    step.capture()
    graph = step.graph
    assert graph is not None
    launch = graph._run

    def beside() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        launch()

    graph._run = beside
    step()
    assert other.report().replays == 3 and step.report().launches_replay_step == 1


def test_hooks_and_scopes_see_replays_that_begin_before_and_after_them(micro: Micro) -> None:
    step = micro.step()
    for _ in range(3):
        step()
    seen: list[str] = []
    driver.gate.observer = lambda name, args, code: seen.append(name)
    try:
        step()
    finally:
        driver.gate.observer = None
    step()
    assert seen == ["cuGraphLaunch"]
    with counters.scope() as outer:
        step()
        with counters.scope() as inner:
            step()
    assert (outer.graph_launches, inner.graph_launches) == (2, 1)
    refused: list[str] = []

    def refuse(name: str, args: tuple[object, ...]) -> None:
        refused.append(name)
        raise PhaseError("no")

    driver.gate.guard = refuse
    try:
        with pytest.raises(PhaseError, match="no"):
            step()
    finally:
        driver.gate.guard = None
    assert refused == ["cuGraphLaunch"] and step.report().replays == 6


@pytest.mark.host
def test_a_sticky_code_of_a_replay_is_raised_and_no_later_replay_is_sent(micro: Micro) -> None:
    from lowgraph.hostdev import control

    step = micro.step()
    for _ in range(3):
        step()
    control.fail("cuGraphLaunch", 1, 700)
    try:
        with pytest.raises(ContextPoisoned, match="700"):
            step()
        control.reset_calls()
        with pytest.raises(ContextPoisoned, match="not sent to the driver"):
            step()
        assert control.calls("cuGraphLaunch") == 0
        assert step.report().refusals == 0 and step.report().replays == 2
    finally:
        driver.poison.forget()
    step()
    assert step.report().replays == 3
