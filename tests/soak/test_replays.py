"""Thousands of replays: every loss is the eager one, and nothing grows.

`--replays N` sets their number, 10 000 by default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import counters
from lowgraph.capture import Phase
from lowgraph.memory import Slice, download
from tests.capture.micro import Micro
from tests.soak.flat import Footprint, handles_left, resident_bytes
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "loss.cu"
SUMMED = 32
NOISE = 4 << 20  # bytes by which allocators of the process may drift


@pytest.fixture
def replays(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--replays"))


class Recorded(Micro):
    """The micro-model with its history of losses on the device."""

    def __init__(self, rig: Rig, steps: int) -> None:
        super().__init__(rig)
        self.losses: Slice = self.pool.take("losses", steps)
        record = rig.library.kernel(SOURCE, "record_loss")
        self.extra = lambda number: record(
            self.stream, 1, 1, self.losses, self.counter, self.y, SUMMED
        )

    def history(self) -> np.ndarray[Any, Any]:
        return download(self.losses, self.stream)


def test_losses_equal_eagers_and_memory_is_flat(rig: Rig, replays: int) -> None:
    steps = replays + 1
    model = Recorded(rig, steps)
    step = model.step()
    warm = steps // 10 + 2
    for _ in range(warm):
        step()
    rig.sync()
    before, resident = Footprint.of(model.pool), resident_bytes()
    with counters.scope() as counts:
        for _ in range(steps - warm):
            step()
    rig.sync()
    before.assert_same(Footprint.of(model.pool))
    assert resident_bytes() - resident < NOISE
    assert counts.by_name == {"cuGraphLaunch": steps - warm} and handles_left(counts.by_name) == {}
    graphed = model.history()
    report = step.report()
    assert step.phase is Phase.READY and report.replays == replays and report.captures == 1
    model.close()

    eager = Recorded(rig, steps)
    for _ in range(steps):
        with eager.pool.eager_pass():
            eager.body(eager.stream)
    expected = eager.history()
    eager.close()
    differ = np.flatnonzero(graphed.view(np.uint32) != expected.view(np.uint32))
    assert differ.size == 0, f"first different loss at step {differ[0] + 1} of {steps}"
    assert len(np.unique(graphed)) > steps // 2, "the losses do move"
