"""What an executable takes of the device is measured when it is made, and told until it is gone."""

from __future__ import annotations

import gc

import pytest

from lowgraph import driver
from lowgraph.capture.graph import drain_dropped
from lowgraph.memory import memory_report
from tests.capture.bodies import FOUR, THREE, Parts, chain

MIB = 1 << 20


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A driver whose executables take 3 MiB each, as those of a GPU take room; the live ones."""
    live: list[int] = []
    info, make, destroy = driver.memory.info, driver.graph.instantiate, driver.graph.exec_destroy

    def instantiate(graph: int) -> int:
        live.append(make(graph))
        return live[-1]

    def exec_destroy(executable: int) -> None:
        destroy(executable)
        live.remove(executable)

    def less() -> tuple[int, int]:
        free, total = info()
        return free - 3 * MIB * len(live), total

    monkeypatch.setattr(driver.graph, "instantiate", instantiate)
    monkeypatch.setattr(driver.graph, "exec_destroy", exec_destroy)
    monkeypatch.setattr(driver.memory, "info", less)
    return live


def _told(parts: Parts) -> list[tuple[str, str, int]]:
    shares = memory_report(parts.pool).executables
    return [(share.kind, share.name, share.nbytes) for share in shares]


@pytest.mark.host  # a GPU is shared with others, who move the same figure
def test_an_executable_is_an_owner_until_it_is_destroyed(parts: Parts, sized: list[int]) -> None:
    assert _told(parts) == []
    before = memory_report(parts.pool)
    step = parts.live(THREE)
    assert _told(parts) == [("executable", "step", 3 * MIB)]
    report = memory_report(parts.pool)
    assert report.driver == before.driver and report.outside == before.outside + 3 * MIB
    parts.run = chain(Parts.add_to_y, Parts.scale, Parts.add)
    assert step.recapture() is True
    assert _told(parts) == [("executable", "step", 3 * MIB)], "an update makes none"
    parts.run = FOUR
    assert step.recapture() is False
    assert _told(parts) == [("executable", "step", 3 * MIB)] and len(sized) == 1, "the new one"
    step.close()
    assert _told(parts) == [] and sized == []


@pytest.mark.host
def test_a_dropped_graph_counts_until_it_is_given_back(parts: Parts, sized: list[int]) -> None:
    parts.live(THREE)
    del parts.step
    gc.collect()
    assert _told(parts) == [("executable", "step", 3 * MIB)] and len(sized) == 1
    assert drain_dropped() >= 1
    assert _told(parts) == [] and sized == []
    parts.make_step()


@pytest.mark.host
def test_what_others_free_meanwhile_is_not_negative(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(range(10 * MIB, 100 * MIB, MIB))
    info = driver.memory.info
    monkeypatch.setattr(driver.memory, "info", lambda: (next(answers), info()[1]))
    parts.live(THREE)
    assert parts.pool.executables() == [("step", 0)]


@pytest.mark.both
def test_the_devices_memory_is_split_without_a_rest(parts: Parts) -> None:
    parts.live(THREE)
    report = memory_report(parts.pool)
    (executable,) = report.executables
    assert executable.name == "step" and executable.nbytes >= 0
    taken = report.pool.reserved + executable.nbytes + report.driver
    assert report.free + taken == report.total
