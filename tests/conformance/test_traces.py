"""The host device answers every recorded scenario as the recorded driver did, call by call."""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from itertools import product
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import Device
from tests.support.process import ROOT
from tests.traces.calls_made import made_by, made_in_windows, named_by, without_version
from tests.traces.catalogue import runs
from tests.traces.not_on_host import NOT_ON_HOST, reason_for
from tests.traces.record import key_of, recordings
from tests.traces.runner import MISSING, run
from tests.traces.scenario import EVERY_MODE
from tests.traces.verbs import VERBS
from tests.traces.world import module_image

FEWEST_NAMES = 250

pytestmark = pytest.mark.host


@cache
def _recorded() -> dict[str, list[Any]]:
    """Each recorded run's calls, by "file: key"."""
    return {
        f"{name}: {key_of(scenario)}": scenario["calls"]
        for name, trace in recordings().items()
        for scenario in trace["scenarios"]
    }


def _left_out() -> set[str]:
    """Runs that a recorded driver did not survive."""
    return {key for trace in recordings().values() for key, _ in trace.get("left_out", [])}


def _key(row: str) -> str:
    return row.partition(": ")[2]


@cache
def _image(device: Device) -> bytes:
    return module_image(device)


def _answers(device: Device, row: str) -> list[Any]:
    """What the host device answers to the run, as it would stand in a file."""
    calls = run(device, _image(device), _key(row))["calls"]
    answers: list[Any] = json.loads(json.dumps(calls))
    return answers


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


def _library_calls() -> set[str]:
    sources = (file.read_text(encoding="utf-8") for file in (ROOT / "lowgraph").rglob("*.py"))
    found = {name for text in sources for name in re.findall(r"\bdriver\.(cu[A-Z]\w+)", text)}
    return {without_version(name) for name in found}


@cache
def _windows() -> dict[str, set[tuple[str, str]]]:
    """Where each call is made while a capture goes on, with the modes, over all scenarios."""
    found: dict[str, set[tuple[str, str]]] = {}
    for scenario, mode in runs().values():
        for made in made_in_windows(scenario):
            places = found.setdefault(made.name, set())
            places.add(("another thread" if made.by_another else f"while {made.window}", mode))
            if made.stream is not None and not made.by_another:
                places.add((f"on {made.stream} while {made.window}", mode))
    return found


def test_every_driver_call_of_the_library_is_made_in_captures() -> None:
    """In every mode: by the thread of a non-blocking and of a blocking one, and by another."""
    called, places = _library_calls(), ("while s", "while b", "another thread")
    assert len(called) > 70
    lacking = {
        name: lacked
        for name in sorted(called)
        if (lacked := set(product(places, EVERY_MODE)) - _windows().get(name, set()))
    }
    assert not lacking


def test_every_call_on_a_stream_is_made_on_each_kind() -> None:
    """In every mode: on the legacy stream beside both captures, and in one of the per-thread."""
    places = ("on legacy while s", "on legacy while b", "on per_thread while per_thread")
    on_streams = {
        name
        for name in _library_calls() - {"cuStreamDestroy"}  # which takes neither of the two
        if any(place.startswith("on ") for place, _ in _windows()[name])
    }
    assert len(on_streams) > 15
    lacking = {
        name: lacked
        for name in sorted(on_streams)
        if (lacked := set(product(places, EVERY_MODE)) - _windows()[name])
    }
    assert not lacking, lacking


def test_each_verb_makes_the_calls_that_its_text_names() -> None:
    for verb in VERBS:
        made = made_by(verb)
        begun = [part for part in made if not hasattr(cu, part)]  # one of several, by its end
        for name in named_by(verb) - made:
            assert any(name.startswith(part) for part in begun), f"{verb}: {name}"


def test_enough_is_recorded() -> None:
    names = {_key(row).rpartition(" [")[0] for row in _recorded()}
    assert len(names) >= FEWEST_NAMES, "record: python tests/traces/record.py --device cuda --out F"


def test_every_scenario_is_recorded() -> None:
    unrecorded = set(runs()) - {_key(row) for row in _recorded()} - _left_out()
    how = "python tests/traces/record.py --device cuda --missing --out tests/traces/NAME.json.gz"
    assert not unrecorded, f"{len(unrecorded)} runs are in no recording: {how}"


def test_every_recorded_scenario_is_there() -> None:
    assert {_key(row) for row in _recorded()} | _left_out() <= set(runs())


def test_what_is_missing_was_refused() -> None:
    """A step that speaks of nothing is a slip in the scenario, unless a call failed before it."""
    for row, calls in _recorded().items():
        codes = [call[1] for call in calls]
        if MISSING in codes:
            assert any(codes[: codes.index(MISSING)]), row


def test_every_capture_code_but_timeout_is_recorded() -> None:
    codes = {call[1] for calls in _recorded().values() for call in calls}
    # 909 TIMEOUT belongs to waits that no call here can make run out.
    assert set(range(900, 911)) - codes == {909}


@pytest.mark.parametrize("row", [row for row in _recorded() if not reason_for(_key(row))])
def test_answers_as_recorded(row: str, device: Device) -> None:
    difference = _first_difference(_recorded()[row], _answers(device, row))
    assert difference is None, difference


@pytest.mark.parametrize("start", sorted(NOT_ON_HOST))
def test_each_excuse_is_needed(start: str, device: Device) -> None:
    rows = [row for row in _recorded() if _key(row).startswith(start)]
    assert rows, f"no recorded scenario begins with {start!r}"
    assert any(_first_difference(_recorded()[row], _answers(device, row)) for row in rows)
