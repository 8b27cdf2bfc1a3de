"""The host device answers the recorded random sequences as the real driver did, call by call.

A sequence that ended the driver's process was not recorded; record_wild.py records and compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lowgraph.driver import Device
from tests.traces.not_on_host import SEQUENCES_NOT_ON_HOST
from tests.traces.record_wild import answers, first_difference, load
from tests.traces.wild import scenario_of
from tests.traces.world import module_image

RECORDED = sorted((Path(__file__).resolve().parent / "data").glob("wild*.json.gz"))
FEWEST = 5_800
SHOWN = 5

pytestmark = pytest.mark.host


def _report(seed: str, wanted: list[Any], given: list[Any]) -> str | None:
    """The first call answered otherwise, with all that went before it; None: there is none."""
    place = first_difference(wanted, given)
    if place is None:
        return None
    before = "; ".join(f"{call[0]} -> {call[1]}" for call in wanted[:place])
    call, recorded, answered = wanted[place][0], wanted[place][1:], given[place][1:]
    return f"seed {seed}: {call}\n  recorded {recorded}\n  answered {answered}\n  after [{before}]"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.split(".")[0])
def test_random_sequences_are_answered_alike(device: Device, path: Path) -> None:
    recorded = load(path)["sequences"]
    image = module_image(device)
    held = {s: calls for s, calls in recorded.items() if int(s) not in SEQUENCES_NOT_ON_HOST}
    reports = (_report(s, calls, answers(device, image, int(s))) for s, calls in held.items())
    found = [report for report in reports if report is not None]
    told = "\n".join(found[:SHOWN])
    assert not found, f"{len(found)} of {len(held)} sequences differ, the first:\n{told}"


@pytest.mark.parametrize("excused", SEQUENCES_NOT_ON_HOST)
def test_each_excuse_is_needed(device: Device, excused: int) -> None:
    (recorded,) = [
        found for path in RECORDED if (found := load(path)["sequences"].get(str(excused)))
    ]
    given = answers(device, module_image(device), excused)
    assert _report(str(excused), recorded, given) is not None


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.split(".")[0])
def test_the_recording_belongs_to_the_plan(path: Path) -> None:
    """A changed draw would compare calls with answers to other calls."""
    for seed, calls in load(path)["sequences"].items():
        assert list(scenario_of(int(seed)).steps) == [call[0] for call in calls], seed


def test_enough_is_recorded() -> None:
    assert sum(len(load(path)["sequences"]) for path in RECORDED) >= FEWEST
