"""Field case 17: a graph for every shape, in a cache with a budget."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import GraphStep, Phase, ShapeKeyedSteps
from lowgraph.errors import ConfigError, GraphBudgetExceeded, PhaseError
from lowgraph.hostdev import control
from tests.capture.shaped import HANDLES, LONGEST, LiveHandles, Shaped
from tests.support.rig import Rig

Make = Callable[..., Shaped]


@pytest.fixture
def shaped(rig: Rig) -> Iterator[Make]:
    made: list[Shaped] = []

    def make(**budget: Any) -> Shaped:
        made.append(Shaped(rig, **budget))
        return made[-1]

    yield make
    for one in made:
        one.close()


def keys_in_turn(count: int, seed: int) -> list[int]:
    """Distinct lengths, the longest first."""
    lengths = random.Random(seed).sample(range(1, LONGEST), count - 1)
    return [LONGEST, *lengths]


def test_without_a_budget_every_shape_keeps_its_graph_and_memory(shaped: Make) -> None:
    """The failure: a plain dict of steps grows with every shape that is seen."""
    case = shaped()
    steps: dict[int, GraphStep] = {}
    grown = []
    with LiveHandles() as handles:
        for key in keys_in_turn(30, 1):
            steps[key] = case.make(key)
            for _ in range(2):
                steps[key]()
            grown.append((case.pool.stats().retained, handles.live()["cuGraphInstantiate"]))
        assert grown == sorted(grown) and grown[-1][1] == 30
        assert grown[-1][0] > 8 * grown[0][0]
        for step in steps.values():
            step.close()
        assert handles.live()["cuGraphInstantiate"] == 0


def test_300_shapes_under_a_budget_of_8_keep_memory_and_handles_flat(shaped: Make) -> None:
    case = shaped(max_graphs=8)
    keys = keys_in_turn(300, 2)
    done: list[int] = []
    figures = []
    free = driver.memory.info()[0]
    slack = 64 << 20 if case.rig.device.spec != "host" else 0  # executables of eight graphs
    with LiveHandles() as handles:
        for key in keys:
            for _ in range(3):  # primed, recorded and replayed, replayed
                case.steps(key)
                done.append(key)
            stats = case.pool.stats()
            live = handles.live()
            assert live["cuGraphInstantiate"] <= 8 and live["cuEventCreate"] <= 10
            assert live["cuStreamEndCapture"] <= 8
            figures.append((stats.reserved, driver.memory.info()[0], live["cuMemAlloc"]))
        # Flat: never more than twice what eight of the longest need, and the same at the end.
        kept = 8 * 4 * LONGEST
        outside = case.pool.stats().live
        assert max(row[0] for row in figures) <= outside + 2 * kept, "pool bytes"
        assert min(row[1] for row in figures) >= free - 2 * kept - slack, "driver memory"
        assert max(row[2] for row in figures) <= 32, "allocations"
        assert len(case.steps) == 8
        report = case.steps.report()
        assert (report.misses, report.hits, report.evictions) == (300, 600, 292)
        assert (report.recaptures, sum(report.given_up.values())) == (0, 0)
        case.steps.close()
        assert [handles.live()[name] for name in ("cuGraphInstantiate", "cuStreamEndCapture")] == [
            0,
            0,
        ]
    assert case.pool.stats().retained == case.pool.stats().primed == 0
    state = case.state()
    assert state == case.eager(done), "what ran by graphs equals the same steps without"


@pytest.mark.host
def test_300_shapes_the_handles_counted_below_us(shaped: Make) -> None:
    """The host device's own counters: what reached the driver, whoever sent it."""
    case = shaped(max_graphs=8)

    def live() -> dict[str, int]:
        # Below the bindings an instantiation goes by its full name.
        called = {name: f"{name}WithFlags" if "Inst" in name else name for name in HANDLES}
        return {
            name: control.calls(called[name]) - control.calls(end) for name, end in HANDLES.items()
        }

    before = live()
    rows = []
    for key in keys_in_turn(300, 3):
        case.steps(key)
        case.steps(key)
        rows.append(live())
    for name in ("cuGraphInstantiate", "cuEventCreate", "cuStreamCreateWithPriority"):
        assert max(row[name] for row in rows[50:]) <= max(row[name] for row in rows[:50]), name
    assert max(row["cuMemAlloc"] - before["cuMemAlloc"] for row in rows) <= 32
    assert rows[-1]["cuGraphInstantiate"] - before["cuGraphInstantiate"] == 8
    case.steps.close()
    after = live()
    assert after["cuGraphInstantiate"] == before["cuGraphInstantiate"]
    assert after["cuEventCreate"] == before["cuEventCreate"]


def test_the_least_recently_used_idle_step_goes(shaped: Make) -> None:
    case = shaped(max_graphs=3)
    for key in (10, 20, 30, 10):
        case.steps(key)
    case.rig.sync()
    case.steps(40)
    assert [key in case.steps for key in (10, 20, 30, 40)] == [True, False, True, True]
    for key in (10, 10, 20, 20):
        case.steps(key)
    assert 30 not in case.steps
    report = case.steps.report()
    assert (report.misses, report.hits, report.evictions) == (5, 4, 2)
    assert report.recaptures == 0, "20 had no graph yet when it went"


def test_a_key_that_comes_back_is_counted_as_a_recapture(shaped: Make) -> None:
    case = shaped(max_graphs=1)
    for key in (10, 10, 20, 20, 10, 10):
        case.steps(key)
    assert case.steps.report().recaptures == 1 and case.made == {10: 2, 20: 1}
    step = case.steps.step(10)
    assert step is not None and step.phase is Phase.READY and case.steps.step(20) is None


def test_a_step_in_flight_is_passed_over_for_an_idle_one(
    shaped: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = shaped(max_graphs=2)
    for key in (10, 20):
        case.steps(key)
    busy = case.steps._entries[10].event
    case.rig.sync()
    really = driver.event.is_done
    monkeypatch.setattr(driver.event, "is_done", lambda event: event != busy and really(event))
    case.steps(30)
    assert 10 in case.steps and 20 not in case.steps, "the least recently used one is in flight"
    assert case.steps.report().waits == 0


def test_if_all_are_in_flight_the_least_recently_used_is_waited_for(
    shaped: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = shaped(max_graphs=2)
    for key in (10, 20):
        case.steps(key)
    monkeypatch.setattr(driver.event, "is_done", lambda event: False)
    case.steps(30)
    assert 10 not in case.steps and case.steps.report().waits == 1


def test_bytes_are_a_budget_too(shaped: Make) -> None:
    case = shaped(max_graphs=100, max_bytes=3 * 4096)
    for key in (1000, 1001, 1002):
        case.steps(key)
        case.steps(key)
    assert case.steps.report().nbytes == 3 * 4096 and len(case.steps) == 3
    case.steps(900)
    assert 1000 not in case.steps and case.steps.report().nbytes == 2 * 4096 + 3840
    case.steps(3072)
    assert len(case.steps) == 1 and case.steps.report().nbytes == 3 * 4096


def test_a_key_that_alone_exceeds_the_budget_says_who_holds_what(shaped: Make) -> None:
    case = shaped(max_bytes=4096)
    case.steps(100)
    with pytest.raises(GraphBudgetExceeded, match="budget is 4096: raise it") as exceeded:
        case.steps(2000)
    error = exceeded.value
    assert (error.key, error.nbytes, error.budget) == (2000, 8192, 4096)
    assert "are free on the device" in error.owners and "slice 'y' 16.00 KiB" in error.owners
    assert 2000 not in case.steps and 100 in case.steps, "the others are not thrown out for it"
    assert case.state() == case.eager([100, 2000]), "the step itself has run"


def test_giving_up_is_counted_and_never_for_good(shaped: Make) -> None:
    case = shaped(max_bytes=4096, strict=False)
    for _ in range(3):
        case.steps(2000)
    report = case.steps.report()
    assert report.given_up == {2000: 3} and "of key 2000 would keep 8192" in report.first_reason
    assert case.pool.stats().primed == case.pool.stats().retained == 0
    state = case.state()
    case.steps.max_bytes = 8192
    case.steps(2000)
    case.steps(2000)
    step = case.steps.step(2000)
    assert step is not None and step.phase is Phase.READY
    assert case.steps.report().given_up == {2000: 3}
    assert state == case.eager([2000] * 3)


def test_a_disabled_step_is_tried_again(shaped: Make) -> None:
    case = shaped(retry_after=3)
    case.options = {"max_refusals": 1}
    broken = [True]
    plain = case.body

    def body(stream: int, length: int) -> None:
        plain(stream, length)
        if broken[0] and driver.stream.capture_status(stream) == "active":
            driver.stream.synchronize(stream)

    case.body = body  # type: ignore[method-assign]
    case.steps(10)
    case.steps(10)
    step = case.steps.step(10)
    assert step is not None and step.phase is Phase.DISABLED
    assert case.steps.report().given_up == {10: 1}
    assert "cuStreamSynchronize" in case.steps.report().first_reason
    broken[0] = False
    for _ in range(3):
        case.steps(10)
    assert 10 not in case.steps
    case.steps(10)
    case.steps(10)
    again = case.steps.step(10)
    assert again is not None and again.phase is Phase.READY and case.made[10] == 2
    assert case.state() == case.eager([10] * 7)


def test_a_body_that_raises_keeps_no_place(shaped: Make) -> None:
    case = shaped(max_graphs=2)

    def body(stream: int, length: int) -> None:
        raise ValueError("mine")

    case.body = body  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(ValueError, match="mine"):
            case.steps(10)
    assert len(case.steps) == 0 and case.made[10] == 2


def test_forget_close_and_after(shaped: Make) -> None:
    case = shaped()
    with case.steps as steps:
        steps(10)
        steps(10)
        steps.forget(10)
        steps.forget(10)
        assert len(steps) == 0
        steps(20)
    steps.close()
    with pytest.raises(PhaseError, match="cache of steps is closed"):
        steps(20)
    assert case.pool.stats().primed == 0


@pytest.mark.parametrize("budget", [{"max_graphs": 0}, {"max_bytes": 0}, {"retry_after": 0}])
def test_a_budget_without_room_is_refused(shaped: Make, budget: dict[str, int]) -> None:
    case = shaped()
    with pytest.raises(ConfigError, match="at least 1"):
        ShapeKeyedSteps(case.make, pool=case.pool, **budget)  # type: ignore[arg-type]


def test_the_report_prints_its_zeros(shaped: Make) -> None:
    text = shaped(max_graphs=4).steps.report().text()
    for part in ("0 of at most 4 kept, 0 bytes of no limit", "hits 0, misses 0, recaptures 0",
                 "evictions 0 (0 waited for)", "given up 0 times on 0 keys"):  # fmt: skip
        assert part in text
