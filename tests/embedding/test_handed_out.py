"""Our recorded graph in other hands, by handle and as a child; theirs audited and compared."""

from __future__ import annotations

from typing import Any

import pytest

from lowgraph import debug, driver
from lowgraph.capture import CopyIn, Input, Rebind, Table
from lowgraph.errors import ConfigError, PhaseError
from lowgraph.interop import add_child, raw_graph
from tests.embedding.small import BLOCKS, Graph, N, Small

pytestmark = pytest.mark.both


def test_the_executable_is_launched_by_its_handle(small: Small) -> None:
    step = small.ready()
    raw = raw_graph(step)
    assert raw == raw_graph(step.graph)
    before = small.value()
    for _ in range(3):
        driver.graph.launch(raw.executable, small.stream)
    assert small.value() - before == 6 and step.report().replays == 1
    assert driver.graph.count_nodes(raw.graph) == step.graph.nodes


def test_the_handle_is_that_of_what_an_update_recorded(small: Small) -> None:
    step = small.ready()
    before = raw_graph(step)
    assert step.recapture()
    after = raw_graph(step)
    assert after.executable == before.executable and after.graph != before.graph


def test_the_recording_becomes_a_child_of_their_graph(small: Small) -> None:
    step = small.ready()
    with small.their_capture() as graphs:
        small.add(small.stream, BLOCKS, 128, small.y, small.x, N)
    (parent,) = graphs
    last = driver.graph.nodes(parent)[-1]
    node = add_child(parent, step, after=[last])
    second = add_child(parent, step.graph, after=[node])
    assert driver.node.dependencies(second) == [node]
    before = small.value()
    small.launch(parent, times=2)
    assert small.value() - before == 2 * (2 + 2 + 2)


def test_cuda_core_runs_our_recording_in_its_own_graph(small: Small) -> None:
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    graph = pytest.importorskip("cuda.core.graph", reason="this cuda.core has no graph package")
    step = small.ready()
    device = core.Device(small.rig.device.ordinal)
    device.set_current()
    stream = device.create_stream()
    definition = graph.GraphDefinition()
    add_child(int(definition.handle), step)
    assert len(definition.nodes()) == 1
    before = small.value()
    executable = definition.instantiate()
    for _ in range(3):
        executable.launch(stream)
    stream.sync()
    assert small.value() - before == 6
    executable.close()


@pytest.mark.parametrize("kind", [CopyIn, Rebind, Table])
@pytest.mark.parametrize("give", [raw_graph, lambda step: add_child(1, step)])
def test_a_graph_with_pins_stays_here(small: Small, kind: Any, give: Any) -> None:
    other = small.put("other", 1)
    pin = kind("moving", lambda: other)
    kernel = small.add.signature.file
    name = "add_twice_of_table" if kind is Table else "add_twice"
    launched = small.rig.library.kernel(kernel, name)
    step = small.step(lambda s: launched(s, BLOCKS, 128, small.y, pin, N), pins=[pin])
    step()
    step()
    with pytest.raises(ConfigError, match=f"{pin.kind} 'moving' would not be followed by somebody"):
        give(step)


def test_a_checked_input_goes_along(small: Small) -> None:
    step = small.over(pin := Input("x", small.x), inputs=[pin])
    step()
    step()
    assert raw_graph(step).executable


def test_no_graph_and_a_closed_one(small: Small) -> None:
    step = small.step()
    with pytest.raises(ConfigError, match="'step' has no graph to hand out: not recorded yet"):
        raw_graph(step)
    step()
    step()
    graph = step.graph
    step.close()
    with pytest.raises(PhaseError, match="is closed: it cannot be asked for its handles"):
        raw_graph(graph)


# ---- theirs ----


def recorded(small: Small, memory: Any, blocks: int = BLOCKS) -> Graph:
    with small.their_capture() as graphs:
        small.add(small.stream, blocks, 128, small.y, memory, N)
    return Graph(graphs[0])


def test_their_graph_is_audited_as_far_as_its_memory_is_known(small: Small) -> None:
    other = small.pool.take("other", N)
    theirs = recorded(small, other)
    form = debug.read_handle(theirs.handle, pool=small.pool)
    assert [form.place(one) for one in form.nodes[0].arguments[:2]] == ["y", "other"]
    audit = debug.Audit.of_handle(theirs.handle, small.pool)
    assert audit.report().stale == ()
    small.pool.give_back(other)
    (stale,) = audit.check()
    assert "other" in str(stale)


def test_their_graphs_are_compared(small: Small) -> None:
    old = debug.read_handle(recorded(small, small.x).handle, pool=small.pool)
    new = debug.read_handle(recorded(small, small.x, BLOCKS + 1).handle, pool=small.pool)
    found = debug.diff(old, new)
    assert found.verdict is debug.Verdict.UPDATABLE
    assert any("grid" in str(node) for node in found.nodes), found
