"""The host device answers the recorded call sequences as the real driver did.

All 3 000 run by default; LOWGRAPH_SEQUENCES=N takes the first N of each kind.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lowgraph.driver import Device
from tests.conformance.plan import calls_of
from tests.conformance.runner import RECORDED, differences, load, prepare, summary
from tests.conformance.session import Session

# Sequences of 1 500 that may differ: a floor just below what is reached.
ALLOWED = 0

pytestmark = pytest.mark.host


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.split(".")[0])
def test_recorded_sequences_are_answered_alike(device: Device, path: Path) -> None:
    recorded = load(path)
    assert len(recorded) == 1500
    limit = int(os.environ.get("LOWGRAPH_SEQUENCES", len(recorded)))
    wanted = dict(list(recorded.items())[:limit])
    fixtures = prepare(device)
    answered = {seed: Session(fixtures).run(int(seed)) for seed in wanted}
    found = differences(wanted, answered)
    print(summary(found, len(wanted)))
    assert len(found) <= ALLOWED, summary(found, len(wanted))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.split(".")[0])
def test_the_data_belongs_to_the_plan(path: Path) -> None:
    """A changed draw would compare calls with answers to other calls."""
    for seed, entries in load(path).items():
        made = [entry[0].split("(")[0] for entry in entries if not entry[0].startswith("finalend")]
        drawn = iter("sync" if call.op == "sync0" else call.op for call in calls_of(int(seed)))
        # Calls that had nothing to be made on left no entry.
        assert all(name in drawn for name in made), seed
