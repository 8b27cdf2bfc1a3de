"""A driver call that fails in a `close` is told, and leaves nothing else behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import CopyIn, ForeignMemory, GraphStep, Phase, ShapeKeyedSteps, Table
from lowgraph.errors import DriverError
from lowgraph.hostdev import control
from tests.capture.moving import Moving, N
from tests.capture.shaped import LiveHandles, Shaped
from tests.support.rig import Rig

pytestmark = pytest.mark.host

UNKNOWN = 999
CALLS = ("cuGraphExecDestroy", "cuGraphDestroy", "cuEventSynchronize", "cuEventDestroy")


@pytest.fixture(autouse=True)
def no_fault_left() -> Iterator[None]:
    yield
    for name in (*CALLS, "cuEventCreate"):
        control.fail(name, 0, 0)


@pytest.mark.parametrize("call", ["cuGraphExecDestroy", "cuGraphDestroy", "cuEventDestroy"])
def test_every_step_of_a_cache_is_closed_behind_one_that_fails(rig: Rig, call: str) -> None:
    """The ones behind it stayed open, and the event of the failed one was lost."""
    with LiveHandles() as handles:
        case = Shaped(rig, max_graphs=3)
        for key in (64, 64, 128, 128, 200, 200):
            case.steps(key)
        steps = [case.steps.step(key) for key in (64, 128, 200)]
        control.fail(call, 1, UNKNOWN)
        with pytest.raises(DriverError, match=call):
            case.steps.close()
        assert len(case.steps) == 0
        assert all(step is not None and step.phase is Phase.CLOSED for step in steps)
        assert case.pool.stats().retained == 0
        case.steps.close()
        case.pool.close()
        live = handles.live()
    assert sum(live.values()) == 1, "what the failed call was to end"


def test_a_step_whose_place_in_the_cache_cannot_be_made_is_closed(rig: Rig) -> None:
    case = Shaped(rig)
    made: list[GraphStep] = []

    def make(key: Any) -> GraphStep:
        made.append(case.make(key))
        return made[-1]

    with ShapeKeyedSteps(make, pool=case.pool) as steps:
        control.fail("cuEventCreate", 1, UNKNOWN)
        with pytest.raises(DriverError, match="cuEventCreate"):
            steps(64)
        assert len(steps) == 0 and made[0].phase is Phase.CLOSED
        steps(64)
        assert len(made) == 2
    case.close()


class _Owned:
    """Memory of another owner, which the step keeps until work that reads it is done."""

    def __init__(self, moving: Moving) -> None:
        self.moving = moving

    def __call__(self) -> ForeignMemory:
        piece = self.moving.places[self.moving.at]
        shape, dtype = (N,), np.dtype(np.float32)
        return ForeignMemory(piece.address, 4 * N, object(), shape, dtype)


@pytest.mark.parametrize("call", ["cuEventSynchronize", "cuEventDestroy", "cuGraphExecDestroy"])
@pytest.mark.parametrize("kind", [CopyIn, Table])
def test_masters_and_tables_go_back_behind_a_call_that_fails(
    rig: Rig, kind: Any, call: str
) -> None:
    """They stayed the closed step's, and its pins could not be declared in another one."""
    moving = Moving(rig)
    slices = moving.pool.stats().slices
    pin = kind("x", _Owned(moving))
    kernel = moving.add_table if kind is Table else moving.add
    step = moving.step(pin, body=lambda stream: kernel(stream, -(-N // 128), 128, moving.y, pin, N))
    with LiveHandles() as handles:
        for at in (0, 0, 1):
            moving.at = at
            step()
        assert step.phase is Phase.READY
        control.fail(call, 1, UNKNOWN)
        with pytest.raises(DriverError, match=call):
            step.close()
        events = handles.calls["cuEventCreate"] - handles.calls["cuEventDestroy"]
    assert step.phase is Phase.CLOSED and events == (call == "cuEventDestroy")
    assert moving.pool.stats().slices == slices and moving.pool.stats().retained == 0
    again = moving.step(
        pin, body=lambda stream: kernel(stream, -(-N // 128), 128, moving.y, pin, N)
    )
    again()
    moving.close()
    assert driver.poison.current is None
