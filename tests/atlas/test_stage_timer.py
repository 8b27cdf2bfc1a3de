"""StageTimer: which nodes and times are whose, by eager steps and by replays, and its price."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from lowgraph import driver, stages
from lowgraph.capture import Conditional, StageTimer
from lowgraph.driver import event
from lowgraph.errors import DriverError, PhaseError
from lowgraph.memory import upload
from lowgraph.stages import stage
from tests.atlas.clocks import not_shuffled
from tests.atlas.parts import LONG, SHORT, Parts, graph_nodes

pytestmark = pytest.mark.both


def _fastest(step: Callable[[], None], timer: StageTimer) -> dict[str, float]:
    """Of five steps the least time of each stage: a busy machine adds milliseconds to any."""
    found: dict[str, float] = {}
    for _ in range(5):
        step()
        for name, us in timer.read().us().items():
            found[name] = min(us, found.get(name, us))
    return found


def _layers(parts: Parts, stream: int) -> None:
    """Seven kernels: before, in an outer stage with work of its own and inner ones, and behind."""
    parts.touch(stream)
    with stage("model"):
        for _ in range(3):
            with stage("short"):
                parts.spin(stream, 0)
        with stage("long"):
            parts.spin(stream, 1)
        parts.touch(stream)
    with stage("end"):
        parts.touch(stream)


def test_nodes_of_a_capture_are_the_drivers(parts: Parts) -> None:
    timer = StageTimer(lambda stream: _layers(parts, stream))
    plain = parts.step(lambda stream: _layers(parts, stream))
    step = parts.step(timer)
    for one in (plain, step, plain, step):
        one()
    times = timer.read()
    assert times.own_nodes == {"": 1, "model/short": 3, "model/long": 1, "model": 1, "end": 1}
    assert times.nodes() == {"": 1, "model": 5, "model/short": 3, "model/long": 1, "end": 1}
    timed, bare = Counter(graph_nodes(step)), Counter(graph_nodes(plain))
    assert timed - bare == {"EVENT_RECORD": timer.events} and not bare - timed
    assert sum(times.own_nodes.values()) == bare.total() == 7
    assert timer.events == 8, "at the begin, and behind each part that has work"
    step.close()
    timer.close()


def test_of_stages_in_a_loop_those_without_work_between_share_an_event(parts: Parts) -> None:
    def body(stream: int) -> None:
        for _ in range(2):
            with stage("a"), stage("empty"):
                pass
            with stage("b"):
                parts.touch(stream)
                with stage("a"):
                    parts.touch(stream)

    with StageTimer(body) as timer:
        step = parts.step(timer)
        step()
        step()
        times = timer.read()
        assert times.own_nodes == {"b": 2, "b/a": 2}
        assert timer.events == 5 == graph_nodes(step).count("EVENT_RECORD")
        step.close()


@pytest.mark.parametrize("graph", [True, False])
def test_the_stage_of_the_long_kernel_dominates(parts: Parts, graph: bool) -> None:
    with StageTimer(lambda stream: _layers(parts, stream)) as timer:
        step = parts.step(timer, graph=graph)
        step()
        us = _fastest(step, timer)
        others = us["model/short"] + us[""] + us["end"]
        assert us["model/long"] > 2 * others, "some ms against five short kernels"
        times = timer.read()
        us = times.us()
        count = {"": 1, "model": 5, "model/short": 3, "model/long": 1, "end": 1}
        assert (times.nodes() if graph else times.launches()) == count
        assert not any((times.own_launches if graph else times.own_nodes).values())
        inner = us["model/short"] + us["model/long"]
        assert us["model"] == pytest.approx(inner + times.own_us["model"])
        outer = sum(value for name, value in us.items() if "/" not in name)
        assert times.total_us == pytest.approx(outer)
        assert timer.recorded is graph
        assert (step.report().replays > 0) is graph
        step.close()


def test_each_replay_takes_its_times_anew(parts: Parts) -> None:
    def body(stream: int) -> None:
        with stage("first"):
            parts.spin(stream, 0)
        with stage("second"):
            parts.spin(stream, 1)

    with StageTimer(body) as timer:
        step = parts.step(timer)
        step()
        for rounds in ((SHORT, LONG), (LONG, SHORT), (SHORT, LONG)):
            parts.set_rounds(*rounds)
            us = _fastest(step, timer)
            slow, fast = ("second", "first") if rounds[0] == SHORT else ("first", "second")
            assert us[slow] > 10 * us[fast]
        step.close()


def test_occurrences_of_a_stage_are_summed(parts: Parts) -> None:
    def body(stream: int) -> None:
        for _ in range(4):
            with stage("four"):
                parts.spin(stream, 1)
            with stage("between"):
                parts.touch(stream)
        with stage("one"):
            parts.spin(stream, 1)

    with StageTimer(body) as timer:
        step = parts.step(timer)
        step()
        us = _fastest(step, timer)
        assert us["four"] > 2 * us["one"], "four times as much, on a machine of even speed"
        step.close()


def test_the_times_are_those_of_the_step_around_them(parts: Parts) -> None:
    start, end = event.create(timing=True), event.create(timing=True)
    shares = []
    with StageTimer(lambda stream: _layers(parts, stream)) as timer:
        step = parts.step(timer)
        step()
        for _ in range(5):
            event.record(start, parts.stream)
            step()
            event.record(end, parts.stream)
            times = timer.read()
            outside = 1e3 * event.elapsed_ms(start, end)
            assert 0 < times.total_us <= outside + 1, "events are read to half a microsecond"
            shares.append(times.total_us / outside)
        step.close()
    assert max(shares) > 0.5, "the launch of a graph of 15 nodes takes less than the long kernel"
    event.destroy(start)
    event.destroy(end)


def test_off_a_step_makes_no_call_more(parts: Parts) -> None:
    """Counted below us; a body with stages, which nothing listens to, is as one without."""

    def calls(body: object) -> tuple[dict[str, int], dict[str, int]]:
        step = parts.step(body)  # type: ignore[arg-type]
        with parts.rig.device.count_calls() as eager:
            step()
        step()
        step()
        parts.rig.sync()
        with parts.rig.device.count_calls() as replayed:
            for _ in range(5):
                step()
        if not eager.counted_by:
            pytest.skip("nothing counts calls below us here")
        return dict(eager.calls), dict(replayed.calls)

    def bare(stream: int) -> None:
        for work in (parts.touch, lambda s: parts.spin(s, 0), parts.touch):
            work(stream)

    def staged(stream: int) -> None:
        for work in (parts.touch, lambda s: parts.spin(s, 0)):
            with stage("a"):
                work(stream)
        with stage("b"):
            parts.touch(stream)

    calls(bare)  # the first makes the kernels resident
    eager, replayed = calls(staged)
    assert (eager, replayed) == calls(bare)
    assert replayed == {"cuGraphLaunch": 5} and "cuEventRecord" not in eager


def test_on_a_replay_is_still_one_launch_and_nothing_waits(parts: Parts) -> None:
    with StageTimer(lambda stream: _layers(parts, stream)) as timer:
        step = parts.step(timer)
        for _ in range(3):
            step()
        parts.rig.sync()
        with parts.rig.device.count_calls() as below:
            for _ in range(5):
                step()
        if below.counted_by:
            assert below.calls == {"cuGraphLaunch": 5}
        assert step.report().launches_replay_step == 1
        timer.read()
        step.close()


def test_a_timed_step_does_what_the_plain_one_does(parts: Parts) -> None:
    with StageTimer(lambda stream: _layers(parts, stream)) as timer:
        step = parts.step(timer)
        for _ in range(6):
            step()
        assert parts.touched() == 18.0
        step.close()


def test_a_recapture_is_timed_by_its_own_events(parts: Parts) -> None:
    names = iter(("a", "a", "b", "b"))

    def body(stream: int) -> None:
        name = next(names)
        with stage(name):
            parts.spin(stream, 1)

    with StageTimer(body) as timer:
        step = parts.step(timer)
        step()
        step()
        assert list(timer.read().us()) == ["a"]
        step.recapture()
        with pytest.raises(DriverError):
            timer.read()  # recorded, and not replayed yet
        step()
        assert list(timer.read().us()) == ["b"]
        step.close()


def test_a_stage_in_a_conditionals_body_is_the_conditionals(parts: Parts) -> None:
    """An event record in such a body fails at instantiate: there is none, and there is a graph."""
    flag = parts.pool.take("flag", 1, np.int32)
    upload(flag, np.ones(1, np.int32), parts.stream)
    parts.rig.sync()
    steer = Conditional(parts.rig.library)

    def inner(stream: int) -> None:
        with stage("inner"):
            parts.spin(stream, 1)

    def body(stream: int) -> None:
        with stage("outer"):
            parts.touch(stream)
            steer.run_if(stream, flag, inner)
        with stage("end"):
            parts.touch(stream)

    with StageTimer(body) as timer:
        step = parts.step(timer)
        step()
        assert list(timer.read().us()) == ["", "outer", "outer/inner", "end"]
        us = _fastest(step, timer)
        assert step.report().replays == 5, step.report().why_no_graph
        assert list(us) == ["outer", "end"] and us["outer"] > 10 * us["end"]
        assert graph_nodes(step).count("EVENT_RECORD") == 3
        step.close()


@not_shuffled
def test_work_of_a_fork_counts_where_it_is_recorded_and_where_it_is_joined(parts: Parts) -> None:
    side, made = driver.stream.create(), event.create()

    def body(stream: int) -> None:
        with stage("fork"):
            event.record(made, stream)
            driver.stream.wait_event(side, made)
            parts.spin(side, 1)
        with stage("join"):
            event.record(made, side)
            driver.stream.wait_event(stream, made)
            parts.touch(stream)

    with StageTimer(body) as timer:
        step = parts.step(timer)
        step()
        long = _fastest(step, timer)
        assert timer.read().own_nodes == {"fork": 1, "join": 1}
        parts.set_rounds(SHORT, SHORT)
        # Which of the two has it is the device's: the record at the fork's end need not wait.
        assert sum(long.values()) > 10 * sum(_fastest(step, timer).values())
        step.close()
    event.destroy(made)
    driver.stream.destroy(side)


def test_stages_of_other_threads_cut_nothing(parts: Parts) -> None:
    def other() -> None:
        with stage("theirs"):
            pass

    def body(stream: int) -> None:
        with stage("ours"):
            parts.touch(stream)
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            parts.touch(stream)

    with StageTimer(body) as timer:
        step = parts.step(timer)
        step()
        assert list(timer.read().own_launches) == ["", "ours"]
        step()
        assert timer.read().own_nodes == {"ours": 2} and timer.events == 2
        step.close()


def test_before_any_step_there_is_nothing_to_read(parts: Parts) -> None:
    timer = StageTimer(parts.touch)
    with pytest.raises(PhaseError, match="run the step, then read"):
        timer.read()
    assert (timer.events, timer.recorded) == (0, False)
    timer.close()
    timer.close()


def test_a_pass_that_fails_leaves_the_times_of_the_one_before(parts: Parts) -> None:
    broken = False

    def body(stream: int) -> None:
        with stage("broken" if broken else "whole"):
            parts.touch(stream)
            if broken:
                raise KeyError

    with StageTimer(body) as timer:
        timer(parts.stream)
        broken = True
        with pytest.raises(KeyError):
            timer(parts.stream)
        assert list(timer.read().us()) == ["", "whole"]
        assert stages._listeners == ()


@pytest.mark.host
def test_every_event_is_destroyed(parts: Parts) -> None:
    from lowgraph.hostdev import control

    control.reset_calls()
    with StageTimer(lambda stream: _layers(parts, stream)) as timer:
        step = parts.step(timer)
        for _ in range(3):
            step()
        step.recapture()
        step()
        timer.read()
        step.close()
    made = control.calls("cuEventCreate")
    assert made == control.calls("cuEventDestroy") > 10
