"""The host device fails the n-th call of a name: pool, stream and report stay sound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowgraph.capture import Phase
from lowgraph.errors import DriverError, PoolError
from lowgraph.hostdev import control
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound

pytestmark = pytest.mark.host

# The bindings reach some calls by another name than they give them.
BELOW = {"cuGraphInstantiate": "cuGraphInstantiateWithFlags"}
CALLS = (
    "cuStreamGetFlags",
    "cuStreamBeginCapture",
    "cuLaunchKernelEx",
    "cuStreamEndCapture",
    "cuGraphGetNodes",
    "cuGraphNodeGetType",
    "cuGraphKernelNodeGetParams",
    "cuGraphInstantiate",
    "cuGraphUpload",
    "cuGraphLaunch",
)
OUT_OF_MEMORY, INVALID_VALUE, UNKNOWN = 2, 1, 999


@pytest.fixture(autouse=True)
def no_fault_left() -> Iterator[None]:
    """A planned fault that a test did not reach would hit the next one."""
    yield
    for name in (*CALLS, *BELOW.values(), "cuMemAlloc", "cuGraphExecDestroy", "cuGraphDestroy"):
        control.fail(name, 0, 0)


@pytest.mark.parametrize("code", [INVALID_VALUE, OUT_OF_MEMORY, UNKNOWN])
@pytest.mark.parametrize("call", CALLS)
def test_a_fault_in_record_instantiate_or_launch_is_a_refusal(
    micro: Micro, call: str, code: int
) -> None:
    step = micro.step()
    step()
    control.fail(BELOW.get(call, call), 1, code)
    step()
    report = step.report()
    assert report.refusals == 1 and report.eager_steps == 2 and call in report.first_refusal
    assert str(code) in report.first_refusal and step.phase is Phase.PRIMING
    assert_sound(micro)
    assert micro.pool.stats().retained == 0
    for _ in range(3):
        step()
    assert step.phase is Phase.READY and micro.state() == micro.expected(5)


def test_a_later_replay_that_fails_gives_the_graph_back_and_goes_on(micro: Micro) -> None:
    step = micro.step()
    for _ in range(4):
        step()
    control.fail("cuGraphLaunch", 1, UNKNOWN)
    step()
    report = step.report()
    assert step.phase is Phase.PRIMING and report.refusals == 1 and report.replays == 3
    assert "a replay of 'step' was refused: cuGraphLaunch" in report.first_refusal
    assert micro.pool.stats().retained == 0
    for _ in range(3):
        step()
    assert step.report().captures == 2 and micro.state() == micro.expected(8)


@pytest.mark.parametrize("call", ["cuGraphExecDestroy", "cuGraphDestroy"])
def test_a_destroy_that_fails_is_raised_and_everything_else_is_done(
    micro: Micro, call: str
) -> None:
    step = micro.step()
    for _ in range(3):
        step()
    control.fail(call, 1, UNKNOWN)
    with pytest.raises(DriverError, match=call):
        step.close()
    step.close()
    assert step.phase is Phase.CLOSED and micro.pool.stats().retained == 0


def test_no_memory_in_the_priming_pass_passes_through(micro: Micro) -> None:
    step = micro.step()
    control.fail("cuMemAlloc", 1, OUT_OF_MEMORY)
    with pytest.raises(PoolError, match="the device has no memory left"):
        step()
    assert step.phase is Phase.COLD
    assert_sound(micro)
