"""Case 8: a fork joined with an external event is not joined: 904 at the end, naming nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import UnjoinedFork
from lowgraph.memory import open_window
from tests.capture.micro import BLOCKS, Micro
from tests.capture.test_refusals import assert_sound
from tests.field_cases.bare import BLOCK, GRID, Bare, N
from tests.field_cases.remedy import names_the_line

FILE = Path(__file__).name
UNJOINED = 904


@pytest.mark.parametrize(("external", "code"), [(True, UNJOINED), (False, 0)])
def test_bare_only_a_regular_event_joins(bare: Bare, external: bool, code: int) -> None:
    fill, out = bare.kernel("fill"), bare.rig.empty(N)
    side, forked, joined = bare.new_stream(), bare.new_event(), bare.new_event()

    def fork_and_join() -> None:
        driver.event.record(forked, bare.stream)
        driver.stream.wait_event(side, forked)
        fill(side, GRID, BLOCK, out, 1.0, N)
        driver.event.record(joined, side, external)
        driver.stream.wait_event(bare.stream, joined)

    assert bare.end_code(fork_and_join) == code


def _forking(micro: Micro, bare: Bare, join: str) -> None:
    """Give the body a fork with a kernel on its stream; join: regular, external, none."""
    side, forked, joined = bare.new_stream(), bare.new_event(), bare.new_event()

    def fork(number: int) -> None:
        if open_window.mine() is None:
            return
        driver.event.record(forked, micro.stream)
        driver.stream.wait_event(side, forked)
        micro.forward(side, BLOCKS, 128, micro.pool.take("side", N), micro.x, N)
        if join != "none":
            driver.event.record(joined, side, external=join == "external")
            driver.stream.wait_event(micro.stream, joined)

    micro.pool.give_back(micro.pool.take("side", N))  # a free block for the window
    micro.extra = fork


@pytest.mark.parametrize(
    ("join", "last", "why"),
    [("external", "cuEventRecordWithFlags(external)", "an external event joins nothing"),
     ("none", "kernel forward", "record a plain event")],
)  # fmt: skip
def test_an_open_fork_is_refused_with_its_places(
    micro: Micro, bare: Bare, join: str, last: str, why: str
) -> None:
    _forking(micro, bare, join)
    step = micro.step()
    step.prime()
    with pytest.raises(UnjoinedFork) as raised:
        step.capture()
    refusal = raised.value
    for part in (f"forked at {__file__}:", f"last did {last} at {__file__}:", why):
        assert part in str(refusal), str(refusal)
    assert names_the_line(refusal, FILE) and len(refusal.forks) == 1
    assert_sound(micro)


def test_a_regular_join_is_recorded(micro: Micro, bare: Bare) -> None:
    _forking(micro, bare, "regular")
    step = micro.step()
    step()
    step()
    assert step.phase is Phase.READY, step.report().text()
