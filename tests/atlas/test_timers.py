"""StageLog: the stages of a running training step, looked at now and then."""

from __future__ import annotations

import pytest

from lowgraph.errors import PhaseError
from lowgraph.stages import stage
from lowgraph.train.atlas.rows import summarise
from lowgraph.train.timers import StageLog
from tests.atlas.parts import Parts

pytestmark = pytest.mark.both


def _log(parts: Parts) -> StageLog:
    def body(stream: int) -> None:
        with stage("forward"):
            parts.touch(stream)
            with stage("inner"):
                parts.spin(stream, 0)
        with stage("backward"):
            parts.spin(stream, 1)

    return StageLog(body)


def test_rows_are_of_the_steps_looked_at(parts: Parts) -> None:
    log = _log(parts)
    step = parts.step(log)
    for number in range(1, 10):
        step()
        if number % 2:
            log.sample(number)
    log.sample(9)  # as at the end of a run: once is enough
    names = ["forward", "forward/inner", "backward"]
    assert [(r.step, r.stage) for r in log.rows if r.stage] == [
        (number, name) for number in (1, 3, 5, 7, 9) for name in names
    ]
    eager = {r.stage: (r.launches, r.nodes) for r in log.rows if r.step == 1}
    replayed = {r.stage: (r.launches, r.nodes) for r in log.rows if r.step == 9}
    assert eager == {"": (0, 0), "forward": (2, 0), "forward/inner": (1, 0), "backward": (1, 0)}
    assert replayed == {"forward": (0, 2), "forward/inner": (0, 1), "backward": (0, 1)}
    warm = [r.us for r in log.rows if r.stage == "backward"][-2:]
    found = {one["stage"]: one for one in log.figures()}
    assert found["backward"]["us"] == pytest.approx(sum(warm) / 2)
    assert found["backward"]["us"] > found["forward"]["us"]
    assert list(found) == [one.stage for one in summarise(log.rows)]
    table = {line.split()[0]: line.split()[1:] for line in log.text()[2:]}
    assert table["inner"][:2] == ["1", "1"] and table["step"][:2] == ["3", "3"]
    step.close()
    log.close()


def test_between_two_looks_a_step_is_one_launch(parts: Parts) -> None:
    log = _log(parts)
    step = parts.step(log)
    for _ in range(3):
        step()
    with parts.rig.device.count_calls() as below:
        for _ in range(4):
            step()
    if below.counted_by:
        assert below.calls == {"cuGraphLaunch": 4}
    log.sample(7)
    # No eager step was looked at; the launches are the priming pass's.
    assert {r.launches for r in log.rows} == {0}
    counts = [(one.stage, one.launches, one.own_launches, one.nodes) for one in log.summary()]
    assert counts == [("forward", 2, 1, 2), ("forward/inner", 1, 1, 1), ("backward", 1, 1, 1)]
    step.close()
    log.close()


def test_before_a_step_there_is_nothing(parts: Parts) -> None:
    log = _log(parts)
    assert log.text() == log.figures() == []
    with pytest.raises(PhaseError):
        log.sample(1)
    log.close()
