"""A sticky code inside a window: it passes through, hooks and locks are back, nothing is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowgraph import driver
from lowgraph.driver import poison
from lowgraph.errors import ContextPoisoned
from lowgraph.hostdev import control
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound

pytestmark = pytest.mark.host

FAULT = 719


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    """The planted code is no fault of the context: it serves the next test."""
    yield
    control.fail("cuLaunchKernelEx", 0, 0)
    poison.forget()


def test_it_passes_through_and_leaves_no_hook_behind(micro: Micro) -> None:
    step = micro.step()
    step()
    control.fail("cuLaunchKernelEx", 2, FAULT)
    with pytest.raises(ContextPoisoned, match=r"719 .* first seen at .*micro\.py:\d+"):
        step()
    ends = control.calls("cuStreamEndCapture")
    with pytest.raises(ContextPoisoned, match="not sent to the driver"):
        driver.stream.end_capture(micro.stream)
    assert control.calls("cuStreamEndCapture") == ends
    assert step.report().refusals == 0, "a lost device is no refusal of the capture"
    poison.forget()
    driver.stream.end_capture(micro.stream)  # the window could not: its end was not sent either
    assert_sound(micro)


def test_a_replay_that_finds_it_is_not_run_without_the_graph(micro: Micro) -> None:
    step = micro.step()
    for _ in range(3):
        step()
    control.fail("cuGraphLaunch", 1, FAULT)
    passes = micro.passes
    try:
        with pytest.raises(ContextPoisoned):
            step()
        with pytest.raises(ContextPoisoned) as raised:
            step()
    finally:
        control.fail("cuGraphLaunch", 0, 0)
    assert raised.value.replays == {"step": 2} and micro.passes == passes
    poison.forget()  # the fixtures close what they made
