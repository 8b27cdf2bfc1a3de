"""Conditional nodes run: IF, IF with ELSE, WHILE, SWITCH, defaults, nesting, lifetimes, updates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import conditional, graph, stream
from tests.hostdev.graphs.conditional_kit import ConditionalKit
from tests.support.rig import Rig


@pytest.fixture
def kit(rig: Rig) -> Iterator[ConditionalKit]:
    made = ConditionalKit(rig)
    yield made
    made.close()


@pytest.mark.parametrize("limit", [1, 2, 31, 257])
def test_a_while_runs_its_body_until_the_kernel_says_so(kit: ConditionalKit, limit: int) -> None:
    count, bound = kit.number(0), kit.number(limit)
    kit.loop(count, bound)
    executable = kit.ready()
    kit.run(executable)
    assert kit.read(count) == limit
    kit.run(executable, 3)  # the default starts it again: one iteration, the count being past it
    assert kit.read(count) == limit + 3


def test_a_while_with_default_zero_runs_no_iteration(kit: ConditionalKit) -> None:
    count, bound = kit.number(0), kit.number(5)
    kit.loop(count, bound, default=0)
    kit.run(kit.ready(), 2)
    assert kit.read(count) == 0


@pytest.mark.parametrize("value", [0, 1, 7])
@pytest.mark.parametrize("bodies", [1, 2])
def test_an_if_takes_the_side_that_a_kernel_before_it_chose(
    kit: ConditionalKit, value: int, bodies: int
) -> None:
    yes, no, chosen = kit.number(), kit.number(), kit.number(value)
    handle = conditional.create_handle(kit.graph)
    kit.record(kit.graph, lambda s: kit.decide(s, 1, 1, handle, chosen))
    node = conditional.add(kit.graph, graph.nodes(kit.graph), handle, "if", bodies)
    kit.record(node.bodies[0], lambda s: kit.bump(s, 1, 1, yes, 1))
    if bodies == 2:
        kit.record(node.bodies[1], lambda s: kit.bump(s, 1, 1, no, 1))
    executable = kit.ready()
    kit.run(executable, 2)
    taken = (2, 0) if value else (0, 2 if bodies == 2 else 0)
    assert (kit.read(yes), kit.read(no)) == taken
    assert [graph.node_type(one) for one in graph.nodes(kit.graph)] == ["kernel", "conditional"]


@pytest.mark.host
def test_a_picture_shows_both_sides_of_an_if(kit: ConditionalKit, tmp_path: Path) -> None:
    number = kit.number()
    handle = conditional.create_handle(kit.graph, 1)
    node = conditional.add(kit.graph, [], handle, "if", 2)
    kit.record(node.bodies[1], lambda s: kit.bump(s, 1, 1, number, 1))
    path = tmp_path / "graph.dot"
    assert not int(cu.cuGraphDebugDotPrint(kit.graph, str(path).encode(), 0)[0])
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[1:] == [
        'n0 [label="0: conditional if"];',
        "subgraph cluster_n0_0_ {",
        'label="in 0: conditional if, body 0";',
        "}",
        "subgraph cluster_n0_1_ {",
        'label="in 0: conditional if, body 1";',
        'n0_1_0 [label="0: bump"];',
        "}",
        "}",
    ]


@pytest.mark.parametrize("value", [0, 1, 2, 3, 99])
def test_a_switch_runs_the_body_of_that_number_or_none(kit: ConditionalKit, value: int) -> None:
    counts, chosen = [kit.number() for _ in range(3)], kit.number(value)
    handle = conditional.create_handle(kit.graph)
    kit.record(kit.graph, lambda s: kit.decide(s, 1, 1, handle, chosen))
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = cu.CUgraphConditionalHandle(handle)
    params.conditional.type = cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_SWITCH
    params.conditional.size = 3
    params.conditional.ctx = cu.cuCtxGetCurrent()[1]
    add = getattr(cu, "cuGraphAddNode_v2", None) or cu.cuGraphAddNode
    behind = [cu.CUgraphNode(one) for one in graph.nodes(kit.graph)]
    code, _ = add(kit.graph, behind, [cu.CUgraphEdgeData()], 1, params)
    assert not code
    bodies = [int(body) for body in params.conditional.phGraph_out]
    for body, count in zip(bodies, counts, strict=True):
        kit.record(body, lambda s, one=count: kit.bump(s, 1, 1, one, 1))
    kit.run(kit.ready())
    assert [kit.read(count) for count in counts] == [int(value == n) for n in range(3)]


def test_a_while_in_a_while_set_before_each_round(kit: ConditionalKit) -> None:
    outer, outer_bound = kit.number(), kit.number(3)
    inner, inner_bound, go = kit.number(), kit.number(4), kit.number(1)
    handle = conditional.create_handle(kit.graph, 1)
    node = conditional.add(kit.graph, [], handle, "while")
    body = node.bodies[0]
    nested = conditional.create_handle(body)

    def round_of_the_outer(s: int) -> None:
        kit.decide(s, 1, 1, nested, go)
        made = conditional.add_to_capture(s, nested, "while")
        second = stream.create()
        conditional.begin_body(second, made.bodies[0])
        kit.count_to(second, 1, 1, nested, inner, inner_bound)
        stream.end_capture(second)
        stream.destroy(second)
        kit.count_to(s, 1, 1, handle, outer, outer_bound)

    kit.record(body, round_of_the_outer)
    kit.run(kit.ready())
    assert kit.read(outer) == 3
    assert kit.read(inner) == 4 + 1 + 1, "the first round counts to 4, the others pass it once"


def test_a_node_added_to_an_open_capture_stands_between_its_kernels(kit: ConditionalKit) -> None:
    count, bound, after = kit.number(), kit.number(5), kit.number()
    s = kit.rig.stream
    stream.begin_capture(s)
    kit.bump(s, 1, 1, count, 2)
    capturing = stream.capture_graph(s)
    assert capturing is not None
    handle = conditional.create_handle(capturing, 1)
    made = conditional.add_to_capture(s, handle, "while")
    kit.record(made.bodies[0], lambda one: kit.count_to(one, 1, 1, handle, count, bound))
    kit.bump(s, 1, 1, after, 1)
    captured = kit.keep(stream.end_capture(s))
    nodes = graph.nodes(captured)
    assert [graph.node_type(one) for one in nodes] == ["kernel", "conditional", "kernel"]
    assert graph.edges(captured) == [(nodes[0], nodes[1]), (nodes[1], nodes[2])]
    kit.run(kit.ready(captured))
    assert (kit.read(count), kit.read(after)) == (5, 1)


def test_the_executable_outlives_its_graph(kit: ConditionalKit) -> None:
    count, bound = kit.number(), kit.number(9)
    kit.loop(count, bound)
    executable = kit.ready()
    kit.destroy_graph()
    kit.run(executable)
    assert kit.read(count) == 9


def test_launches_in_a_row_each_start_with_the_default(kit: ConditionalKit) -> None:
    """Without a wait between them: the second must not find the first one's last value."""
    count, bound = kit.number(), kit.number(100)
    kit.loop(count, bound)
    kit.run(kit.ready(), 50)
    assert kit.read(count) == 100 + 49


def test_a_child_graph_may_stand_in_a_body(kit: ConditionalKit) -> None:
    count, child_count, bound = kit.number(), kit.number(), kit.number(6)
    child = kit.new_graph()
    kit.record(child, lambda s: kit.bump(s, 1, 1, child_count, 1))
    _, node = kit.loop(count, bound)
    code, _ = cu.cuGraphAddChildGraphNode(node.bodies[0], [], 0, child)
    assert not code
    kit.run(kit.ready())
    assert (kit.read(count), kit.read(child_count)) == (6, 6)


def test_memsets_and_device_copies_may_stand_in_a_body(kit: ConditionalKit) -> None:
    count, bound, copy = kit.number(), kit.number(3), kit.number(77)
    _, node = kit.loop(count, bound)

    def more(s: int) -> None:
        assert not cu.cuMemsetD32Async(copy.address, 5, 1, s)[0]
        assert not cu.cuMemcpyDtoDAsync(copy.address, bound.address, 4, s)[0]

    kit.record(node.bodies[0], more)
    kit.run(kit.ready())
    assert (kit.read(count), kit.read(copy)) == (3, 3)


@pytest.mark.host  # what an update does to conditional nodes waits for its recording
def test_an_update_takes_the_new_bodies_and_the_new_default(kit: ConditionalKit) -> None:
    count, bound, other = kit.number(), kit.number(4), kit.number()
    kit.loop(count, bound)
    executable = kit.ready()
    kit.graph = kit.new_graph()
    kit.loop(other, bound)
    assert graph.update(executable, kit.graph).ok
    kit.run(executable)
    assert (kit.read(count), kit.read(other)) == (0, 4)
    kit.graph = kit.new_graph()
    kit.loop(other, bound, default=0)
    assert graph.update(executable, kit.graph).ok
    kit.run(executable)
    assert kit.read(other) == 4, "the condition begins with 0 now"


@pytest.mark.host  # as above
@pytest.mark.parametrize(("kind", "bodies"), [("if", 1), ("if", 2)])
def test_an_update_to_another_type_or_size_is_refused(
    kit: ConditionalKit, kind: str, bodies: int
) -> None:
    count, bound = kit.number(), kit.number(4)
    kit.loop(count, bound)
    executable = kit.ready()
    second = kit.new_graph()
    made = conditional.add(second, [], conditional.create_handle(second, 1), kind, bodies)
    kit.record(made.bodies[0], lambda s: kit.bump(s, 1, 1, count, 1))
    result = graph.update(executable, second)
    assert (result.code, result.reason, result.node) == (910, "NOT_SUPPORTED", made.node)
    kit.run(executable)
    assert kit.read(count) == 4, "the old executable still launches"


@pytest.mark.host  # as above
def test_an_update_with_one_node_more_in_the_body_is_refused(kit: ConditionalKit) -> None:
    count, bound = kit.number(), kit.number(4)
    kit.loop(count, bound)
    executable = kit.ready()
    kit.graph = kit.new_graph()
    _, node = kit.loop(count, bound)
    kit.record(node.bodies[0], lambda s: kit.bump(s, 1, 1, count, 100))
    result = graph.update(executable, kit.graph)
    assert (result.code, result.reason) == (910, "TOPOLOGY_CHANGED")
    kit.run(executable)
    assert kit.read(count) == 4
