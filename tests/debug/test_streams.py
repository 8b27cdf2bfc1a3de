"""Which stream each node was sent to: known of lowgraph's own graphs, of others absent."""

from __future__ import annotations

import pytest

from lowgraph import debug, driver
from lowgraph.debug import Form
from tests.capture.bodies import N, Parts
from tests.capture.looping import Looping
from tests.debug.raw import recorded

pytestmark = pytest.mark.both


def forked(parts: Parts) -> None:
    """On the side stream a kernel, a fill and a copy; beside them a kernel on the step's own."""

    def beside(parts: Parts) -> None:
        parts.add_to_y(parts.side)
        driver.memory.memset_d32_async(parts.z.address, 0, N, parts.side)
        driver.memory.copy_dtod_async(parts.z.address, parts.y.address, 4 * N, parts.side)

    parts.fork(beside)


def streams(form: Form) -> list[tuple[str, int, int | None]]:
    """Name, body and stream of each node, sorted."""
    return sorted((node.name, node.body, node.stream) for node in form.nodes)  # type: ignore[type-var]


def test_each_node_is_told_with_its_stream(parts: Parts) -> None:
    step = parts.live(forked)
    wanted = [*[("add", 0, 0)] * 3, ("add", 0, 1), ("memcpy", 0, 1), ("memset", 0, 1)]
    form = debug.read(step)
    assert streams(form) == wanted
    assert [form.place(n.arguments[0]) for n in form.nodes if n.stream == 1] == ["y", "z", "z"]
    assert step.graph is not None
    assert [step.graph.node(n.index).stream for n in form.nodes] == [n.stream for n in form.nodes]
    told = debug.as_dict(form)["nodes"]
    assert [node["stream"] for node in told] == [node.stream for node in form.nodes]


def test_a_recapture_by_update_is_told_by_its_own_streams(parts: Parts) -> None:
    step = parts.live(forked)
    parts.run = lambda p: p.fork(lambda q: q.add_to_y(q.side))
    step.recapture()
    assert streams(debug.read(step)) == [*[("add", 0, 0)] * 3, ("add", 0, 1)]


def test_a_body_is_recorded_on_a_stream_of_its_own(looping: Looping) -> None:
    step = looping.step()
    step()
    step()
    assert step.graph is not None, looping.said
    found = {(node.name, node.body): node.stream for node in debug.read(step).nodes}
    assert found == {
        ("begin_count", 0): 0,
        ("set_condition", 0): 0,
        ("conditional", 0): None,
        ("add_to", 0): 0,
        ("count_down", 1): 1,
        ("set_condition", 1): 1,
    }


def test_of_a_graph_of_others_no_stream_is_told(parts: Parts) -> None:
    with recorded(parts, forked) as handle:
        form = debug.read_handle(handle, pool=parts.pool)
    assert len(form.nodes) == 6 and {node.stream for node in form.nodes} == {None}
    assert not any("stream" in node for node in debug.as_dict(form)["nodes"])
    assert debug.from_dict(debug.as_dict(form)) == form
