"""Every measured fact of the driver is shown by scenarios that are recorded and run here."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.support.process import ROOT
from tests.traces.catalogue import runs
from tests.traces.facts_rows import COSTS, ELSEWHERE, ROWS, Shown
from tests.traces.not_on_host import reason_for
from tests.traces.record import key_of, recordings

FEWEST_ROWS = 45


@cache
def _recorded() -> dict[str, list[Any]]:
    return {
        key_of(scenario): scenario["calls"]
        for trace in recordings().values()
        for scenario in trace["scenarios"]
    }


@cache
def _keys() -> dict[str, list[str]]:
    """The runs of each scenario, in the order of its modes."""
    found: dict[str, list[str]] = {}
    for key, (scenario, _) in runs().items():
        found.setdefault(scenario.name, []).append(key)
    return found


def _fault(shown: Shown, key: str, code: int) -> str | None:
    """Why the recorded run does not show it."""
    if key not in _recorded():
        return f"{key} is in no recording"
    if why := reason_for(key):
        return f"{key} is not compared on the host device: {why}"
    steps = [call for call in _recorded()[key] if call[0].startswith(shown.step)]
    if len(steps) <= shown.place:
        return f"{key} has no step {shown.step!r} of number {shown.place}"
    step, answered, _, extra = steps[shown.place]
    if answered != code:
        return f"{key}: {step!r} is {answered}, not {code}"
    if shown.types is not None and code == 0 and " ".join(extra["types"]) != shown.types:
        return f"{key}: {step!r} holds {extra['types']}"
    if shown.value is not None and extra != shown.value:
        return f"{key}: {step!r} reads {extra}, not {shown.value}"
    return None


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_the_recorded_driver_shows_each_fact(number: int) -> None:
    row = ROWS[number]
    assert row.shown, row.fact
    for shown in row.shown:
        keys = _keys().get(shown.scenario, [])
        assert keys, f"no scenario is called {shown.scenario!r}"
        codes = shown.codes if len(shown.codes) > 1 else shown.codes * len(keys)
        assert len(codes) == len(keys), f"{shown.scenario!r} has {len(keys)} modes"
        faults = [_fault(shown, key, code) for key, code in zip(keys, codes, strict=True)]
        assert not any(faults), f"{row.fact}: {[fault for fault in faults if fault]}"


def test_every_section_of_the_facts_is_there() -> None:
    facts = [row.fact for row in ROWS]
    assert len(facts) >= FEWEST_ROWS and len(set(facts)) == len(facts)


@pytest.mark.parametrize(("fact", "test"), ELSEWHERE)
def test_what_is_no_answer_of_the_driver_is_held_elsewhere(fact: str, test: str) -> None:
    file, _, name = test.partition("::")
    assert file.startswith("tests/") and name, f"{fact}: no test is named"
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{fact}: {file} has no {name}"


@pytest.mark.parametrize(("fact", "benchmark", "results"), COSTS)
def test_each_cost_is_measured(fact: str, benchmark: str, results: str) -> None:
    assert (ROOT / benchmark).is_file(), fact
    measured = ROOT / "benchmarks" / "results" / "h200" / results
    assert json.loads(measured.read_text(encoding="utf-8")), fact
