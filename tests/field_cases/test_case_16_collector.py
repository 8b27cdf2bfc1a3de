"""Case 16: the garbage collector destroys an old graph, or frees memory, inside the window."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import Phase, drain_dropped
from lowgraph.memory import open_window
from lowgraph.memory.ledger import Ledger
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound
from tests.field_cases.bare import INVALIDATED, NOT_PERMITTED, Bare, foreign


class Slab:
    """Frees its memory when it is collected, as most array libraries do; in a cycle."""

    codes: list[int]

    def __init__(self, address: int, codes: list[int]) -> None:
        self.address = address
        self.codes = codes
        self.me = self

    def __del__(self) -> None:
        self.codes.append(foreign("cuMemFree", self.address))


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """No collection but where a test says so; on again afterwards."""
    gc.collect()
    drain_dropped()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("mode", ["thread_local", "global"])
def test_bare_a_collection_in_the_window_breaks_the_capture(bare: Bare, mode: str) -> None:
    address, codes = driver.memory.alloc(4096), list[int]()
    Slab(address, codes)  # garbage at once, but only the collector finds it
    assert bare.end_code(gc.collect, mode) == INVALIDATED
    assert codes == [NOT_PERMITTED]
    driver.memory.free(address)


def _drop_in_a_cycle(micro: Micro) -> None:
    """A ready step that only the collector can reach."""
    step: Any = micro.step(label="old")
    step()
    step()
    step.me = step
    micro.steps.clear()


def test_a_dropped_graph_of_ours_calls_no_driver(micro: Micro) -> None:
    retained = micro.pool.stats().retained
    _drop_in_a_cycle(micro)
    owned = micro.pool.stats().retained - retained
    calls: list[str] = []

    def collect(number: int) -> None:
        if open_window.mine() is None:
            return
        driver.gate.observer, before = (lambda name, args, code: calls.append(name)), _observer()
        gc.collect()
        driver.gate.observer = before

    micro.extra = collect
    step = micro.step()
    step()
    step()
    assert owned > 0 and calls == [] and step.phase is Phase.READY
    assert micro.pool.stats().retained > owned, "queued, not given back"
    later = micro.step()
    later()
    assert later.report().deferred == 1 and "deferred destroys 1" in later.report().text()
    step.close()
    later.close()
    assert micro.pool.stats().retained == retained
    assert_no_window()


def test_the_collector_is_paused_in_the_window_and_put_back(micro: Micro) -> None:
    seen: list[bool] = []
    micro.extra = lambda number: seen.append(gc.isenabled())
    for before in (True, False):
        (gc.enable if before else gc.disable)()
        step = micro.step()
        step()
        step()
        assert gc.isenabled() is before
    assert seen == [True, False, False, False], "eager, recorded; eager, recorded"


def test_somebody_elses_garbage_is_not_collected_in_the_window(micro: Micro) -> None:
    """What would have broken the capture waits: the collector is paused, whatever the threshold."""
    address, codes = driver.memory.alloc(4096), list[int]()
    thresholds = gc.get_threshold()

    def churn(number: int) -> None:
        if open_window.mine() is not None:
            Slab(address, codes)
            gc.set_threshold(1)
            kept = [[n] for n in range(5000)]
            assert kept and codes == []

    micro.extra = churn
    gc.enable()
    try:
        step = micro.step()
        step()
        step()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert step.phase is Phase.READY and codes == [0], "freed, once the window was over"


def assert_no_window() -> None:
    assert open_window.current() is None and driver.gate.guard is None


def _observer() -> Any:
    return driver.gate.observer


def test_the_checks_of_a_window_see_the_collector_on_again(micro: Micro) -> None:
    gc.enable()
    step = micro.step()
    step()
    step()
    assert_sound(micro)


def _drop_primed(micro: Micro, count: int) -> None:
    """Steps that were primed, never recorded, and not closed."""
    for number in range(count):
        micro.step(label=f"primed {number}").prime()
    micro.steps.clear()
    gc.collect()


def test_dropped_priming_passes_are_given_back_together(
    micro: Micro, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look at all that the pool holds: one for each, of as much, grew with their square."""
    drain_dropped()
    other = micro.step(label="graph")
    other()
    other()
    looks: list[int] = []
    release = Ledger.release

    def counted(ledger: Ledger, *holders: object) -> None:
        looks.append(len(holders))
        release(ledger, *holders)

    before = micro.pool.stats()
    _drop_primed(micro, 7)
    assert micro.pool.stats().primed > before.primed
    monkeypatch.setattr(Ledger, "release", counted)
    assert drain_dropped() == 7 and looks == [7]
    after = micro.pool.stats()
    assert (after.primed, after.retained, after.slices) == (0, before.retained, before.slices)
    assert drain_dropped() == 0
    other.close()


def test_a_graph_between_dropped_passes_is_given_back_in_its_turn(micro: Micro) -> None:
    drain_dropped()
    before = micro.pool.stats()
    made = [micro.step(label=f"step {number}") for number in range(6)]
    for number, step in enumerate(made):
        step.prime()
        if number == 3:
            step.capture()
    del step
    micro.steps.clear()
    while made:  # in this order
        del made[0]
        gc.collect()
    assert drain_dropped() == 6
    after = micro.pool.stats()
    assert (after.primed, after.retained, after.slices) == (0, before.retained, before.slices)
