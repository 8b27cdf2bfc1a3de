"""The host device answers every recorded scenario as the recorded driver did, call by call."""

from __future__ import annotations

import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.traces.catalogue import UNRECORDED, runs
from tests.traces.not_on_host import NOT_ON_HOST, reason_for
from tests.traces.runner import run
from tests.traces.verbs import VERBS
from tests.traces.world import module_image

TRACES = Path(__file__).resolve().parents[1] / "traces"
FEWEST_NAMES = 60

pytestmark = pytest.mark.host


@cache
def _recorded() -> dict[str, list[Any]]:
    """Each recorded run's calls, by "file: key"."""
    found = {}
    for path in sorted(TRACES.glob("*.json")):
        for scenario in json.loads(path.read_text(encoding="utf-8"))["scenarios"]:
            key = f"{scenario['name']} [{scenario['mode']}]"
            found[f"{path.stem}: {key}"] = scenario["calls"]
    return found


def _key(row: str) -> str:
    return row.partition(": ")[2]


@cache
def _image(device: Any) -> bytes:
    return module_image(device)


def _answers(rig: Any, row: str) -> list[Any]:
    """What the host device answers to the run, as it would stand in a file."""
    calls = run(rig.device, _image(rig.device), _key(row))["calls"]
    return json.loads(json.dumps(calls))


def _first_difference(wanted: list[Any], given: list[Any]) -> str | None:
    """The first call answered otherwise, as text, with the calls before it."""
    for number, (left, right) in enumerate(zip(wanted, given, strict=False)):
        if left != right:
            before = "; ".join(call[0] for call in wanted[:number])
            return f"after [{before}]\n  recorded {left}\n  answered {right}"
    if len(wanted) != len(given):
        return f"{len(wanted)} calls recorded, {len(given)} made: record the traces again"
    return None


def test_every_step_is_a_call() -> None:
    for scenario, _ in runs().values():
        for step in scenario.steps:
            verb, *arguments = step.removeprefix("@").split()
            inspect.signature(VERBS[verb]).bind(None, *arguments)


def test_enough_is_recorded() -> None:
    names = {_key(row).rpartition(" [")[0] for row in _recorded()}
    assert len(names) >= FEWEST_NAMES, "record: python tests/traces/record.py --device cuda --out F"


def _unrecorded() -> list[str]:
    return [key for key in runs() if key.startswith(UNRECORDED)]


def test_every_scenario_is_recorded() -> None:
    """But those that wait for it, none of which may be recorded already."""
    assert set(runs()) - set(_unrecorded()) == {_key(row) for row in _recorded()}


@pytest.mark.parametrize("key", [key for key in _unrecorded() if not runs()[key][0].kills])
def test_the_host_device_runs_what_is_not_recorded_yet(rig: Any, key: str) -> None:
    """No comparison: that each call exists and the world is usable afterwards."""
    calls = run(rig.device, _image(rig.device), key)["calls"]
    assert calls and all(code >= 0 for _, code, _, _ in calls), calls


def test_every_capture_code_but_timeout_is_recorded() -> None:
    codes = {call[1] for calls in _recorded().values() for call in calls}
    # 909 TIMEOUT belongs to waits that no call here can make run out.
    assert set(range(900, 911)) - codes == {909}


@pytest.mark.parametrize("row", [row for row in _recorded() if not reason_for(_key(row))])
def test_answers_as_recorded(row: str, rig: Any) -> None:
    difference = _first_difference(_recorded()[row], _answers(rig, row))
    assert difference is None, difference


@pytest.mark.parametrize("start", sorted(NOT_ON_HOST))
def test_each_excuse_is_needed(start: str, rig: Any) -> None:
    rows = [row for row in _recorded() if _key(row).startswith(start)]
    assert rows, f"no recorded scenario begins with {start!r}"
    assert any(_first_difference(_recorded()[row], _answers(rig, row)) for row in rows)
