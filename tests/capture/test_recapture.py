"""recapture(): never a moment without a working executable; memory goes when it is idle."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import Phase, drain_dropped
from lowgraph.errors import CaptureRefused, PhaseError, PoolError
from lowgraph.memory import PersistentPool, download, open_window, upload
from tests.capture.bodies import FOUR, THREE, Body, Parts, chain
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound


def test_the_priming_pass_counts_and_recording_runs_nothing(micro: Micro) -> None:
    step = micro.step()
    for _ in range(4):
        step()
    step.recapture()
    assert micro.state()[0] == 5 and step.phase is Phase.READY
    for _ in range(3):
        step()
    report = step.report()
    assert (report.eager_steps, report.replays, report.captures) == (2, 6, 2)
    assert micro.state() == micro.expected(8)
    assert report.launches_replay_step == 1


def test_the_second_recording_has_its_own_slices_and_the_old_ones_go(parts: Parts) -> None:
    step = parts.live(Parts.through)
    graph = step.graph
    assert graph is not None
    (copy,) = graph.find("memcpy")
    old = graph.node(copy).params.to  # type: ignore[union-attr]
    retained = step.report().retained_bytes
    assert step.recapture() is True
    new = graph.node(copy).params.to  # type: ignore[union-attr]
    assert new != old and step.report().retained_bytes == retained
    owner = parts.pool.who_owns(old)
    assert owner is None or owner.owner is None, "nobody holds the old slice"


def test_the_old_slices_stay_until_the_launch_in_flight_is_done(parts: Parts) -> None:
    step = parts.live(Parts.through)
    graph = step.graph
    assert graph is not None
    old = graph.node(graph.find("memcpy")[0]).params.to  # type: ignore[union-attr]
    seen: list[object] = []
    parts.reset()

    def look_and_let_go() -> None:
        while step.report().updates == 0:  # the executable has been updated, and recapture() waits
            time.sleep(0.001)
        holder = parts.pool.who_owns(old)
        seen.append(None if holder is None else holder.owner)
        flag.close()

    flag = contextlib.ExitStack()
    flag.enter_context(parts.held())
    step.replay()  # behind the held kernel
    thread = threading.Thread(target=look_and_let_go)
    thread.start()
    step.recapture()
    thread.join()
    assert seen == ["step"], "the launch in flight reads the old slice"
    holder = parts.pool.who_owns(old)
    assert holder is None or holder.owner is None
    assert download(parts.x, parts.stream)[0] == 7.0, "1, and y = 3 by the replay and the priming"


def test_a_graph_dropped_in_flight_is_given_back_when_it_is_done(parts: Parts) -> None:
    step = parts.live(Parts.through)
    parts.reset()
    with parts.held():
        step.replay()
        parts.step = step = None  # type: ignore[assignment]
        gc.collect()
        assert parts.pool.stats().retained > 0
    drain_dropped()
    assert parts.pool.stats().retained == 0
    assert download(parts.x, parts.stream)[0] == 4.0
    parts.make_step()


def drop_a_graph(micro: Micro) -> None:
    gc.collect()  # what tests before left would be counted, too
    drain_dropped()
    step = micro.step()
    step()
    step()
    micro.steps.clear()
    del step
    gc.collect()


def test_what_others_dropped_is_counted(micro: Micro) -> None:
    drop_a_graph(micro)
    step = micro.step()
    step()
    assert step.report().deferred == 1 and "deferred destroys 1" in step.report().text()


@pytest.mark.host
def test_a_dropped_graph_that_cannot_be_destroyed_is_a_note_of_the_next_step(micro: Micro) -> None:
    from lowgraph.hostdev import control

    drop_a_graph(micro)
    control.fail("cuGraphExecDestroy", 1, 999)
    step = micro.step()
    step()
    assert "dropped without close(): cuGraphExecDestroy" in step.report().notes[0]
    assert micro.pool.stats().retained == 0 and micro.state()[0] == 3


def test_free_first_holds_one_working_set_only(parts: Parts) -> None:
    step = parts.live(Parts.through)
    old = step.graph
    reserved = parts.pool.stats().reserved
    parts.run = chain(Parts.through, Parts.add)
    assert step.recapture(free_first=True) is False
    assert parts.pool.stats().reserved == reserved
    assert old is not None and old.closed and step.phase is Phase.READY
    assert parts.replayed() == parts.eager(parts.run)
    assert step.report().reinstantiations == 0, "no update was refused"


def test_no_room_for_two_working_sets_is_told_with_the_way_out(micro: Micro) -> None:
    micro.close()
    limit = 64 * 1024
    other = Micro(micro.rig, limit=limit)
    other.pool.take("ballast", (limit - other.pool.stats().reserved - 13000) // 4)
    step = other.step()
    for _ in range(3):
        step()
    with pytest.raises(PoolError, match=r"recapture\(free_first=True\)"):
        step.recapture()
    assert step.phase is Phase.READY
    done = other.state()[0]
    step()
    assert other.state()[0] == done + 1, "the old graph is live"
    step.recapture(free_first=True)
    step()
    assert step.phase is Phase.READY
    other.close()


@pytest.mark.parametrize("in_pass", [1, 2])
def test_a_body_that_raises_leaves_the_old_graph_live(parts: Parts, in_pass: int) -> None:
    step = parts.live(THREE)
    before = parts.pool.stats()
    passes = []

    def broken(parts: Parts) -> None:
        parts.add()
        passes.append(1)
        if len(passes) == in_pass:
            raise ValueError("mine")

    parts.run = broken
    with pytest.raises(ValueError, match="mine"):
        step.recapture()
    assert step.phase is Phase.READY and step.report().refusals == 0
    after = parts.pool.stats()
    assert (after.live, after.retained, after.primed) == (before.live, before.retained, 0)
    assert parts.replayed() == parts.eager(THREE)


@pytest.mark.parametrize("call", ["__call__", "replay", "recapture", "close"])
@pytest.mark.parametrize("in_pass", [1, 2])
def test_a_body_may_not_drive_its_step_while_it_is_recaptured(
    parts: Parts, call: str, in_pass: int
) -> None:
    step = parts.live(THREE)
    passes = []

    def nested(parts: Parts) -> None:
        parts.add()
        passes.append(1)
        if len(passes) == in_pass:
            getattr(step, call)()

    parts.run = nested
    with pytest.raises(PhaseError, match="from its own body"):
        step.recapture()
    assert step.phase is Phase.READY and parts.replayed() == parts.eager(THREE)


def test_recapture_needs_a_live_graph(micro: Micro) -> None:
    step = micro.step()
    assert "deferred destroys 0, re-instantiations 0\n" in step.report().text()
    with pytest.raises(PhaseError, match="no graph to replace"):
        step.recapture()
    step.prime()
    with pytest.raises(PhaseError, match="primed for its first graph"):
        step.recapture()
    step.close()
    with pytest.raises(PhaseError, match="is closed"):
        step.recapture()
    with pytest.raises(PhaseError, match="runs without a graph"):
        micro.step(graph=False).recapture()


def test_a_refused_recapture_is_counted_and_the_old_graph_runs(micro: Micro) -> None:
    step = micro.step(max_refusals=1)
    for _ in range(3):
        step()

    def sync(number: int) -> None:
        if open_window.mine() is not None:
            driver.stream.synchronize(micro.stream)

    micro.extra = sync
    for _ in range(2):
        with pytest.raises(CaptureRefused, match="cuStreamSynchronize"):
            step.recapture()
    report = step.report()
    assert step.phase is Phase.READY and report.refusals == 2, "a live graph is never disabled"
    assert len(micro.said) == 1 and "the old one is live" in micro.said[0]
    assert_sound(micro)
    for _ in range(2):
        step()
    assert micro.state() == micro.expected(7)


@pytest.mark.parametrize("second", [THREE, FOUR])
def test_ctrl_c_while_the_new_recording_takes_over_is_held_until_it_has(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, second: Body
) -> None:
    step = parts.live(THREE)
    update = driver.graph.update

    def interrupted(executable: int, graph: int) -> driver.graph.UpdateResult:
        answer = update(executable, graph)
        os.kill(os.getpid(), signal.SIGINT)
        return answer

    monkeypatch.setattr(driver.graph, "update", interrupted)
    parts.run = second
    with pytest.raises(KeyboardInterrupt):
        step.recapture()
    monkeypatch.undo()
    assert step.phase is Phase.READY and parts.replayed() == parts.eager(second)
    assert isinstance(step.recapture(), bool) and parts.replayed() == parts.eager(second)


def test_ctrl_c_while_the_first_executable_is_made_is_held_until_it_is_live(
    micro: Micro, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_it = driver.graph.upload

    def interrupted(executable: int, stream: int) -> None:
        upload_it(executable, stream)
        os.kill(os.getpid(), signal.SIGINT)

    step = micro.step()
    step()
    monkeypatch.setattr(driver.graph, "upload", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step()
    monkeypatch.undo()
    assert step.phase is Phase.READY and step.report().why_no_graph == ""
    step()
    assert micro.state() == micro.expected(2)


def test_two_pools_do_not_mix(micro: Micro) -> None:
    """A recapture of one step leaves a step of another pool alone."""
    other = Micro(micro.rig)
    first, second = micro.step(), other.step()
    for _ in range(3):
        first()
        second()
    upload(micro.x, np.ones(1000, np.float32), micro.stream)
    first.recapture()
    second()
    assert other.state() == micro.expected(4)
    assert isinstance(other.pool, PersistentPool)
    other.close()


def test_more_and_fewer_nodes_again_and_again(parts: Parts) -> None:
    step = parts.live(THREE)
    for body in (FOUR, THREE, FOUR, FOUR, THREE):
        parts.run = body
        step.recapture()
        assert parts.replayed() == parts.eager(body)
    report = step.report()
    assert (report.updates, report.reinstantiations) == (1, 4)
    assert report.rejections == {"TOPOLOGY_CHANGED": 4} and report.captures == 6
