"""Laps: which steps they hold, when they are read, and that the ring can hold what is unread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowgraph.ops.loss_ring import LossRecord
from lowgraph.train import step_log
from lowgraph.train.step_log import Lap, MeanTime, StepLog


class FakeEvents:
    """Events on a stream whose clock counts records; `waits` lists what was waited for."""

    def __init__(self) -> None:
        self.live: set[int] = set()
        self.at: dict[int, int] = {}
        self.waits: list[int] = []
        self.made = self.clock = 0

    def create(self, timing: bool) -> int:
        assert timing
        self.made += 1
        self.live.add(self.made)
        return self.made

    def record(self, event: int, stream: int) -> None:
        self.clock += 1
        self.at[event] = self.clock

    def synchronize(self, event: int) -> None:
        self.waits.append(event)

    def elapsed_ms(self, start: int, end: int) -> float:
        return 12.0 * (self.at[end] - self.at[start])

    def destroy(self, event: int) -> None:
        self.live.remove(event)


class FakeRing:
    """Of step n: loss n, norm 10 n, n masked."""

    def read(self, first: int, count: int) -> list[LossRecord]:
        steps = range(first + 1, first + count + 1)
        return [LossRecord(n, float(n), 0.5, 10.0 * n, n) for n in steps]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEvents]:
    fake = FakeEvents()
    monkeypatch.setattr(step_log, "event", fake)
    yield fake
    assert not fake.live, "events were not destroyed"


def test_a_lap_is_read_when_the_next_one_is_issued(events: FakeEvents) -> None:
    log = StepLog(FakeRing(), stream=1)
    log.begin(0)
    assert log.lap(2) is None
    assert not events.waits
    assert log.lap(6) == Lap(first=0, losses=[1.0, 2.0], norms=[10.0, 20.0], masked=[1, 2], ms=6.0)
    assert [(lap.losses, lap.norms, lap.masked, lap.ms) for lap in log.finish()] == [
        ([3.0, 4.0, 5.0, 6.0], [30.0, 40.0, 50.0, 60.0], [3, 4, 5, 6], 3.0)
    ]
    assert log.finish() == []
    log.close()
    log.close()


def test_events_are_used_again(events: FakeEvents) -> None:
    log = StepLog(FakeRing(), stream=1)
    log.begin(0)
    for step in range(1, 50):
        log.lap(step)
    assert events.made == 3
    log.close()


def test_no_step_is_no_lap(events: FakeEvents) -> None:
    log = StepLog(FakeRing(), stream=1)
    log.begin(4)
    assert log.lap(4) is None
    assert log.finish() == []
    log.close()


def test_a_pause_is_not_part_of_a_lap(events: FakeEvents) -> None:
    log = StepLog(FakeRing(), stream=1)
    log.begin(0)
    log.lap(1)
    assert [lap.first for lap in log.finish()] == [0]
    events.clock += 100
    log.begin(1)
    log.lap(2)
    assert log.finish() == [Lap(first=1, losses=[2.0], norms=[20.0], masked=[2], ms=12.0)]
    log.close()


def test_a_mean_time_counts_the_laps_that_begin_late_enough() -> None:
    mean = MeanTime(5)
    for lap in (_lap(0, 4, 9.0), _lap(4, 2, 8.0)):
        mean.add(lap)
        assert mean.ms is None
    mean.add(_lap(5, 1, 1.0))
    mean.add(_lap(6, 3, 3.0))
    assert mean.ms == (1.0 + 3 * 3.0) / 4


def _lap(first: int, steps: int, ms: float) -> Lap:
    return Lap(first, [0.0] * steps, [0.0] * steps, [0] * steps, ms)
