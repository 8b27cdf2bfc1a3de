"""A fault at every driver call of a recapture: the old executable still works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowgraph.capture import Phase
from lowgraph.errors import CaptureRefused
from lowgraph.hostdev import control
from tests.capture.bodies import FOUR, THREE, Body, Parts
from tests.capture.test_faults import BELOW, INVALID_VALUE, OUT_OF_MEMORY, UNKNOWN

pytestmark = pytest.mark.host

RECORDING = (
    "cuStreamGetFlags",
    "cuStreamBeginCapture",
    "cuLaunchKernelEx",
    "cuStreamEndCapture",
    "cuGraphGetNodes",
    "cuGraphNodeGetType",
    "cuGraphKernelNodeGetParams",
)
AFRESH = ("cuGraphInstantiate", "cuGraphUpload")
CODES = (INVALID_VALUE, OUT_OF_MEMORY, UNKNOWN)


@pytest.fixture(autouse=True)
def no_fault_left() -> Iterator[None]:
    yield
    for name in (*RECORDING, *AFRESH, *BELOW.values(), "cuGraphExecUpdate"):
        control.fail(name, 0, 0)


def refused_with(parts: Parts, call: str, code: int, body: Body) -> None:
    """A recapture to `body` is refused by a fault of `call`; the graph of THREE lives on."""
    step = parts.live(THREE)
    graph = step.graph
    before = parts.pool.stats()
    parts.run = body

    # The priming pass makes launches too: the fault is for the recording.
    def fault_in_window() -> None:
        control.fail(BELOW.get(call, call), 1, code)

    prime = step._passes.prime

    def prime_and_plan() -> None:
        prime()
        fault_in_window()

    step._passes.prime = prime_and_plan  # type: ignore[method-assign]
    with pytest.raises(CaptureRefused, match=call):
        step.recapture()
    del step._passes.prime
    report = step.report()
    assert step.graph is graph and step.phase is Phase.READY
    assert (report.refusals, report.updates, report.reinstantiations) == (1, 0, 0)
    after = parts.pool.stats()
    assert (after.live, after.retained, after.primed) == (before.live, before.retained, 0)
    assert parts.replayed() == parts.eager(THREE), "the old executable still works"
    assert isinstance(step.recapture(), bool), "and the next attempt is good"
    assert parts.replayed() == parts.eager(body)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", RECORDING)
def test_a_fault_in_the_recording(parts: Parts, call: str, code: int) -> None:
    refused_with(parts, call, code, THREE)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", AFRESH)
def test_a_refused_update_and_a_failing_reinstantiation(parts: Parts, call: str, code: int) -> None:
    refused_with(parts, call, code, FOUR)


@pytest.mark.parametrize("code", CODES)
def test_an_update_call_that_fails_otherwise_is_instantiated_afresh(
    parts: Parts, code: int
) -> None:
    step = parts.live(THREE)
    control.fail("cuGraphExecUpdate", 1, code)
    assert step.recapture() is False
    report = step.report()
    assert report.rejections == {"CALL_FAILED": 1}
    assert "cuGraphExecUpdate" in report.last_rejection and str(code) in report.last_rejection
    assert parts.replayed() == parts.eager(THREE)


def test_an_update_makes_no_allocation_and_one_update_call(parts: Parts) -> None:
    step = parts.live(Parts.through)
    step.recapture()
    control.reset_calls()
    step.recapture()
    calls = control.all_calls()
    assert calls["cuGraphExecUpdate"] == 1
    assert calls.get("cuMemAlloc", 0) == calls.get("cuGraphInstantiate", 0) == 0
    assert calls.get("cuGraphInstantiateWithFlags", 0) == 0
