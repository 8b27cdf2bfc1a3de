"""A hundred captures that fail, of each kind: pool, driver memory and handles are flat."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowgraph import counters, driver
from lowgraph.capture import Phase
from lowgraph.memory import open_window
from tests.capture.micro import BLOCKS, Micro, N
from tests.capture.test_refusals import assert_sound
from tests.field_cases.bare import foreign
from tests.soak.flat import Footprint, handles_left

ABORTS = 100
Break = Callable[[Micro], object]


def pool_miss(micro: Micro) -> None:
    micro.pool.take("late", 1 << 22)


def launch_elsewhere(micro: Micro) -> None:
    micro.forward(0, BLOCKS, 128, micro.y, micro.x, N)


def invalidated(micro: Micro) -> None:
    foreign("cuStreamSynchronize", micro.stream)


def memory_nodes(micro: Micro) -> None:
    """The end of the capture is good; the census refuses the graph."""
    code, address = foreign("cuMemAllocAsync", 4096, micro.stream)
    assert code == 0 and foreign("cuMemFreeAsync", address, micro.stream) == 0


def unfinished(micro: Micro) -> None:
    raise ArithmeticError("the body's own")


def instantiate_fails(micro: Micro) -> None:
    from lowgraph.hostdev import control

    control.fail("cuGraphInstantiateWithFlags", 1, 2)


KINDS: tuple[Break, ...] = (
    pool_miss, launch_elsewhere, invalidated, memory_nodes, unfinished,
)  # fmt: skip
ON_HOST = pytest.param(instantiate_fails, marks=pytest.mark.host)


@pytest.mark.parametrize("breaks", [*KINDS, ON_HOST], ids=lambda kind: kind.__name__)
def test_hundred_aborted_captures_leave_nothing(rig: object, breaks: Break) -> None:
    micro = Micro(rig)  # type: ignore[arg-type]
    micro.extra = lambda number: breaks(micro) if open_window.mine() is not None else None
    step = micro.step(max_refusals=10 * ABORTS)
    for _ in range(2):
        _abort(step.prime, step.capture)
    before = Footprint.of(micro.pool)
    with counters.scope() as counts:
        for _ in range(ABORTS):
            _abort(step.prime, step.capture)
    before.assert_same(Footprint.of(micro.pool))
    assert handles_left(dict(counts.by_name)) == {}
    assert driver.stream.capture_status(micro.stream) == "none"
    assert_sound(micro)
    micro.extra = lambda number: None
    step()
    step()
    assert step.phase is Phase.READY
    micro.close()


def _abort(prime: Callable[[], None], capture: Callable[[], None]) -> None:
    """Prime, and fail to capture: each kind raises something, none is let pass."""
    prime()
    try:
        capture()
    except Exception:
        return
    raise AssertionError("the capture was not aborted")
