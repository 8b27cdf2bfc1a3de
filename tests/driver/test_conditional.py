"""Thin calls of conditional nodes: what they return, and bad input."""

from __future__ import annotations

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import conditional, gate, graph, node, stream
from lowgraph.errors import ConfigError, DriverError
from lowgraph.kernels.cuda_types import element
from tests.support.rig import Rig


def _new_graph() -> int:
    return int(gate.call(cu.cuGraphCreate, 0))


@pytest.mark.parametrize(("kind", "bodies"), [("if", 1), ("if", 2), ("while", 1)])
def test_a_node_and_its_bodies(rig: Rig, kind: str, bodies: int) -> None:
    owner = _new_graph()
    first = conditional.add(owner, [], conditional.create_handle(owner), kind, bodies)
    second = conditional.add(owner, [first.node], conditional.create_handle(owner, 3), kind, bodies)
    assert graph.nodes(owner) == [first.node, second.node]
    assert graph.edges(owner) == [(first.node, second.node)]
    assert graph.node_type(first.node) == "conditional"
    assert len(first.bodies) == bodies and len({*first.bodies, *second.bodies}) == 2 * bodies
    assert [graph.count_nodes(body) for body in first.bodies] == [0] * bodies
    graph.destroy(owner)


def test_another_kind_is_bad_input(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="'until': must be one of if, while"):
        conditional.add(0, [], 0, "until")
    with pytest.raises(ConfigError, match="capture mode 'shy'"):
        conditional.begin_body(rig.stream, 0, "shy")


def test_a_stream_that_is_not_capturing_has_no_graph(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="is not capturing"):
        conditional.add_to_capture(rig.stream, 0, "if")


def test_the_error_of_a_refused_node_says_what_it_was(rig: Rig) -> None:
    owner = _new_graph()
    with pytest.raises(DriverError, match="<CONDITIONAL node>") as raised:
        conditional.add(owner, [], 1 << 40, "if")
    assert raised.value.code == 1 and raised.value.call.startswith("cuGraphAddNode")
    graph.destroy(owner)


def test_the_graph_of_a_child_node(rig: Rig) -> None:
    owner, child = _new_graph(), _new_graph()
    assert not cu.cuGraphAddEmptyNode(child, [], 0)[0]
    made = int(gate.call(cu.cuGraphAddChildGraphNode, owner, [], 0, child))
    inner = node.child_graph(made)
    assert inner != child and graph.count_nodes(inner) == 1
    for handle in (owner, child):
        graph.destroy(handle)


def test_a_body_is_begun_and_ended_as_a_capture(rig: Rig) -> None:
    owner = _new_graph()
    body = conditional.add(owner, [], conditional.create_handle(owner, 0), "if").bodies[0]
    conditional.begin_body(rig.stream, body)
    assert stream.capture_graph(rig.stream) == body
    assert stream.end_capture(rig.stream) == body
    graph.destroy(owner)


def test_kernels_may_take_the_handle_by_its_own_type() -> None:
    assert element("cudaGraphConditionalHandle", 0) == element("unsigned long long", 0)
