"""Case 15: an update of the executable is rejected, and the message does not say why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as bindings

from lowgraph import driver
from lowgraph.capture import GraphStep, Phase
from lowgraph.driver.launch import LaunchConfig
from lowgraph.errors import SyncDuringCapture
from lowgraph.memory import open_window
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N

FILE = Path(__file__).name
UPDATE_FAILURE = 910


class Changes:
    """Two launches, and what a second recording has in place of the second one."""

    def __init__(self, bare: Bare) -> None:
        self.bare = bare
        self.x, self.y = bare.rig.put(np.ones(N, np.float32)), bare.rig.empty(N)
        self.scale, self.fill = bare.kernel("scale"), bare.kernel("fill")

    def first(self) -> None:
        self.scale(self.bare.stream, GRID, BLOCK, self.y, self.x, 2.0, N)

    def as_before(self) -> None:
        self.first()
        self.fill(self.bare.stream, GRID, BLOCK, self.x, 3.0, N)

    def other_grid(self) -> None:
        self.first()
        self.fill(self.bare.stream, GRID + 1, BLOCK, self.x, 5.0, N)

    def memset(self) -> None:
        self.first()
        driver.memory.memset_d8_async(self.x.address, 0, 4 * N, self.bare.stream)

    def one_more(self) -> None:
        self.as_before()
        self.first()

    def one_fewer(self) -> None:
        self.first()

    def cluster(self) -> None:
        self.first()
        pack = self.fill.pack
        pack.store(pack.values((self.x, 3.0, N)))
        config = LaunchConfig(self.bare.stream, GRID, BLOCK, cluster=(2, 1, 1))
        driver.launch.launch(config, self.fill.handle, pack.address)


@pytest.mark.parametrize(
    ("change", "reason"),
    [("memset", "NODE_TYPE_CHANGED"), ("one_more", "TOPOLOGY_CHANGED"),
     ("one_fewer", "TOPOLOGY_CHANGED")],
)  # fmt: skip
def test_bare_the_bindings_lose_the_reason_and_the_old_one_still_runs(
    bare: Bare, change: str, reason: str
) -> None:
    changes = Changes(bare)
    executable = bare.ready(changes.as_before)
    graph = bare.record(getattr(changes, change))
    code, info = bindings.cuGraphExecUpdate(executable, graph)
    assert int(code) == UPDATE_FAILURE and info is None, "910, and nothing else"
    told = driver.graph.update(executable, graph)
    assert (told.ok, told.code, told.reason) == (False, UPDATE_FAILURE, reason)
    bare.replay(executable)
    assert np.all(bare.rig.get(changes.y) == 2.0) and np.all(bare.rig.get(changes.x) == 3.0)


def test_bare_another_grid_or_argument_passes(bare: Bare) -> None:
    changes = Changes(bare)
    executable = bare.ready(changes.as_before)
    assert driver.graph.update(executable, bare.record(changes.other_grid)).ok
    bare.replay(executable)
    assert np.all(bare.rig.get(changes.x) == 5.0)


def test_bare_a_cluster_size_is_accepted_and_not_taken(bare: Bare) -> None:
    """Measured: success, and the old size stays. Nothing in the answer tells."""
    changes = Changes(bare)
    executable = bare.ready(changes.as_before)
    graph = bare.record(changes.cluster)
    sizes = [driver.graph.cluster_of(node) for node in driver.graph.nodes(graph)]
    assert (2, 1, 1) in sizes
    assert driver.graph.update(executable, graph).ok


class Stepping:
    """A step of two launches, whose second one `change` replaces."""

    def __init__(self, micro: Micro) -> None:
        self.micro = micro
        self.change: Callable[[int], None] = self.as_before
        self.y = micro.pool.take("result", N)
        self.step: GraphStep = micro.step(body=self.body)
        for _ in range(3):
            self.step()

    def body(self, stream: int) -> None:
        self.micro.forward(stream, BLOCKS, 128, self.y, self.micro.x, N)
        self.change(stream)

    def as_before(self, stream: int) -> None:
        self.micro.advance(stream, 1, 1, self.micro.counter, self.micro.rate)

    def memset(self, stream: int) -> None:
        driver.memory.memset_d8_async(self.y.address, 0, 4 * N, stream)

    def one_more(self, stream: int) -> None:
        self.as_before(stream)
        self.micro.forward(stream, BLOCKS, 128, self.y, self.micro.y, N)

    def other_grid(self, stream: int) -> None:
        self.micro.advance(stream, 2, 1, self.micro.counter, self.micro.rate)


@pytest.mark.parametrize(
    ("change", "reason", "named"),
    [("memset", "NODE_TYPE_CHANGED", "type: kernel -> memset"),
     ("one_more", "TOPOLOGY_CHANGED", "nodes: 2 -> 3")],
)  # fmt: skip
def test_a_rejection_is_explained_and_a_fresh_executable_takes_over(
    micro: Micro, change: str, reason: str, named: str
) -> None:
    stepping = Stepping(micro)
    step = stepping.step
    stepping.change = getattr(stepping, change)
    assert step.recapture() is False
    report = step.report()
    assert (report.updates, report.refusals, step.phase) == (0, 0, Phase.READY)
    text = report.text()
    for part in (reason, named, f"{FILE}:"):
        assert part in text, text
    before = report.replays
    step()
    assert step.report().replays == before + 1


def test_another_grid_is_an_update(micro: Micro) -> None:
    stepping = Stepping(micro)
    stepping.change = stepping.other_grid
    assert stepping.step.recapture() is True
    report = stepping.step.report()
    assert (report.updates, report.captures) == (1, 2) and report.refusals == 0


def test_a_refused_recapture_leaves_the_graph_from_before(micro: Micro) -> None:
    stepping = Stepping(micro)
    step = stepping.step
    stepping.change = lambda stream: (
        driver.stream.synchronize(stream) if open_window.mine() is not None else None
    )
    with pytest.raises(SyncDuringCapture):
        step.recapture()
    counter = micro.state()[0]
    step()
    assert step.phase is Phase.READY and micro.state()[0] == counter + 1, "there was never none"


def test_the_object_names_node_kernel_line_and_what_changed(micro: Micro) -> None:
    stepping = Stepping(micro)
    graph = stepping.step.graph
    assert graph is not None
    stepping.change = stepping.memset
    stepping.step.recapture()
    rejected = [note for note in _told(stepping.step) if "NODE_TYPE_CHANGED" in note]
    assert rejected and "node 1" in rejected[0]


def _told(step: GraphStep) -> list[str]:
    return step.report().text().splitlines()
