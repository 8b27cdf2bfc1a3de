"""Random lives of a step: steps, recaptures, refusals, faults, moves and closes in any order.

After each act the pool's books balance, stream and hooks are sound and there is a graph or a reason
for none; at the end a clean run from the beginning computes what an eager one computes.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator

import numpy as np
import pytest

from lowgraph.capture import GraphStep, Phase
from lowgraph.errors import LowgraphError
from lowgraph.hostdev import control
from lowgraph.kernels import Library
from lowgraph.memory import open_window, upload
from tests.capture.micro import N
from tests.capture.test_refusals import assert_sound
from tests.soak.rich import Rich
from tests.support.rig import Rig

pytestmark = pytest.mark.host

ACTS = 120
CODES = (1, 2, 999)
FAULTS = (
    "cuMemAlloc", "cuLaunchKernelEx", "cuStreamBeginCapture", "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags", "cuGraphUpload", "cuGraphLaunch", "cuGraphExecUpdate",
    "cuGraphGetNodes", "cuGraphDestroy", "cuGraphExecDestroy", "cuEventRecord",
    "cuStreamWaitEvent", "cuMemsetD8Async", "cuFuncLoad",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_fault_left() -> Iterator[None]:
    yield
    for name in FAULTS:
        control.fail(name, 0, 0)


class Life:
    """A Rich model, its present step, and a die."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.die = random.Random(seed)
        rig.library = Library(rig.device)  # with the model's few kernels and no other test's
        self.model = Rich(rig)
        self.clean = self.model.extra
        self.step: GraphStep = self.model.step()
        self.done: list[str] = []

    def act(self) -> None:
        """One act; what it raises is an error of ours, or the test fails."""
        acts = (self.run, self.run, self.run, self.recapture, self.free_first, self.refused,
                self.fault, self.move, self.reopen, self.collect)  # fmt: skip
        chosen = self.die.choice(acts)
        self.done.append(chosen.__name__)
        try:
            chosen()
        except LowgraphError as error:
            self.done[-1] += f" ({type(error).__name__})"
        finally:
            self.model.extra = self.clean

    def run(self) -> None:
        for _ in range(self.die.randint(1, 4)):
            self.step()

    def recapture(self) -> None:
        self.step.recapture()

    def free_first(self) -> None:
        self.step.recapture(free_first=True)

    def refused(self) -> None:
        def miss(number: int) -> None:
            self.clean(number)
            if open_window.mine() is not None:
                self.model.pool.take("late", 1 << 22)

        self.model.extra = miss
        self.die.choice((self.step, self.step.recapture))()

    def fault(self) -> None:
        name = self.die.choice(FAULTS)
        self.done[-1] += f" {name}"
        self.model.rig.library._resident.clear()  # they are loaded once, and could fail no more
        control.fail(name, self.die.randint(1, 4), self.die.choice(CODES))
        try:
            self.die.choice((self.run, self.recapture, self.free_first))()
        finally:
            control.fail(name, 0, 0)

    def move(self) -> None:
        batch = self.model.pool.take("batch", N)
        upload(batch, np.linspace(0, 1, N, dtype=np.float32), self.model.stream)
        old, self.model.batch = self.model.batch, batch
        self.step()
        self.model.rig.sync()
        self.model.pool.give_back(old)

    def reopen(self) -> None:
        self.step.close()
        self.step = self.model.step()

    def collect(self) -> None:
        gc.collect()

    def wrong(self) -> str:
        """What does not hold now."""
        assert_sound(self.model)
        stats = self.model.pool.stats()
        if stats.reserved != stats.live + stats.retained + stats.primed + stats.free:
            return f"the books do not balance: {stats}"
        report = self.step.report()
        if (self.step.phase is Phase.READY) != (self.step.graph is not None):
            return f"{self.step.phase.name} with graph {self.step.graph}"
        if self.step.phase is not Phase.READY and not report.why_no_graph:
            return "no graph and no reason"
        return ""


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_acts_leaves_it_sound(rig: Rig, seed: int) -> None:
    life = Life(rig, seed)
    for _ in range(ACTS):
        life.act()
        wrong = life.wrong()
        assert not wrong, f"{wrong} after {life.done[-6:]}"
    life.step.close()
    life.model.reset()
    step = life.model.step()
    for _ in range(6):
        step()
    assert step.phase is Phase.READY, step.report().text()
    graphed = life.model.state()
    step.close()
    life.model.reset()
    eager = life.model.step(graph=False)
    for _ in range(6):
        eager()
    assert life.model.state() == graphed
    eager.close()
    stats = life.model.pool.stats()
    assert stats.retained == stats.primed == 0
    life.model.close()


def test_a_recapture_that_freed_first_and_failed_says_why_there_is_no_graph(rig: Rig) -> None:
    life = Life(rig, 0)
    for _ in range(3):
        life.step()
    control.fail("cuLaunchKernelEx", 1, CODES[-1])
    with pytest.raises(LowgraphError, match="cuLaunchKernelEx"):
        life.step.recapture(free_first=True)
    report = life.step.report()
    assert life.step.phase is Phase.COLD and report.why_no_graph.startswith("freed first")
    for _ in range(2):
        life.step()
    assert life.step.phase is Phase.READY and not life.step.report().why_no_graph
    life.step.close()
    life.model.close()
