"""The host's lead: what is waited for, and that the distance of marks follows their time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from lowgraph.train import lead
from lowgraph.train.lead import Lead


class FakeDevice:
    """A stream whose steps take `seconds` each; `ahead` of them are issued and not done."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.issued, self.done = seconds, 0.0, 0, 0
        self.at: dict[int, int] = {}
        self.made = 0
        self.live: set[int] = set()

    def create(self) -> int:
        self.made += 1
        self.live.add(self.made)
        return self.made

    def record(self, event: int, stream: int) -> None:
        self.at[event] = self.issued

    def synchronize(self, event: int) -> None:
        self.now += self.seconds * max(self.at[event] - self.done, 0)
        self.done = max(self.at[event], self.done)

    def destroy(self, event: int) -> None:
        self.live.remove(event)

    def run(self, made: Lead, steps: int) -> list[int]:
        """How many steps were ahead after each."""
        ahead = []
        for _ in range(steps):
            self.issued += 1
            made.issued()
            ahead.append(self.issued - self.done)
        return ahead


@pytest.fixture
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDevice]:
    fake = FakeDevice(request.param)
    monkeypatch.setattr(lead, "event", fake)
    monkeypatch.setattr(lead, "time", SimpleNamespace(perf_counter=lambda: fake.now))
    yield fake
    assert not fake.live, "events were not destroyed"


@pytest.mark.parametrize("device", [0.12, 5.0], indirect=True)
def test_slow_steps_are_one_ahead(device: FakeDevice) -> None:
    made = Lead(stream=1)
    assert max(device.run(made, 50)) == 1
    assert device.made == 2, "events are used again"
    made.close()
    made.close()


@pytest.mark.parametrize("device", [0.0003], indirect=True)
def test_fast_steps_are_a_fraction_of_a_second_ahead(device: FakeDevice) -> None:
    made = Lead(stream=1)
    ahead = device.run(made, 5000)
    assert min(ahead) >= 1, "the device has work while the host waits"
    assert 0.05 < max(ahead) * device.seconds < 0.4
    made.close()


@pytest.mark.parametrize("device", [0.0003], indirect=True)
def test_it_follows_steps_that_become_slow(device: FakeDevice) -> None:
    made = Lead(stream=1)
    device.run(made, 5000)
    device.seconds = 0.1
    device.run(made, 2000)
    assert made.every <= 2
    made.close()


@pytest.mark.parametrize("device", [0.0], indirect=True)
def test_the_distance_is_bounded(device: FakeDevice) -> None:
    made = Lead(stream=1)
    device.run(made, 10_000)
    assert made.every == 1024
    made.close()
