"""Graphs inside of graphs: bodies of conditionals and child graphs, read, audited and compared."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cuda.bindings import driver as cu

from lowgraph import debug
from lowgraph.debug import Body, Form, Node, Verdict, race_search
from lowgraph.debug.form import Argument
from lowgraph.driver import gate
from tests.capture.bodies import Parts
from tests.capture.looping import Looping
from tests.debug.raw import recorded
from tests.debug.test_files import sample

pytestmark = pytest.mark.both


def test_a_loops_body_is_read_with_the_lines_that_launched_it(looping: Looping) -> None:
    step = looping.step()
    step()
    step()
    assert step.graph is not None, looping.said
    form = debug.read(step)
    assert [body.label for body in form.bodies] == ["step", "body 1 of a conditional"]
    assert form.notes == ()
    (down,) = (node for node in form.nodes if node.name == "count_down")
    assert down.body == 1 and "looping.py:" in down.where
    assert [form.place(one) for one in down.arguments] == ["left", "again", "sum"]
    assert debug.from_dict(json.loads(json.dumps(debug.as_dict(form)))) == form
    audit = debug.Audit.of(step)
    report = audit.report()
    assert report.findings == () and report.left_out == (
        "body 1 of a conditional: not compared with the nodes outside of it",
    )
    kept = looping.left
    looping.pool.give_back(kept)
    named = {(one.kernel, one.argument) for one in audit.check()}
    assert {("begin_count", "left"), ("count_down", "left")} <= named
    looping.left = looping.pool.take("left", 1, kept.dtype)
    found = debug.diff(form, form)
    assert (found.verdict, found.reason) == (Verdict.UNKNOWN, "a node of type conditional")


def test_a_conditional_of_somebody_elses_is_noted(looping: Looping) -> None:
    step = looping.step()
    step()
    step()
    assert step.graph is not None, looping.said
    form = debug.read_handle(step.graph.contents.graph)
    assert [note.partition(": ")[2] for note in form.notes] == [
        "the conditional's bodies were not read"
    ]


def test_a_child_graph_is_a_body_of_its_node(parts: Parts) -> None:
    with recorded(parts, Parts.add) as child, recorded(parts, Parts.add_to_y) as whole:
        gate.call(cu.cuGraphAddChildGraphNode, whole, None, 0, child)
        form = debug.read_handle(whole, pool=parts.pool)
    assert [(node.kind, node.body) for node in form.nodes] == [
        ("kernel", 0), ("graph", 0), ("kernel", 1),
    ]  # fmt: skip
    assert form.bodies[1] == Body("child graph of node 1", 1)
    assert form.place(form.nodes[2].arguments[0]) == "x"


def _fork(child_writes: bool) -> Form:
    """A child graph beside a kernel that writes x; the child has a kernel that uses x."""
    form = sample()
    write = form.nodes[0].arguments[0]
    use = write if child_writes else replace(write, const=True)
    held = form.nodes[0].attributes

    def kernel(index: int, body: int, argument: Argument) -> Node:
        return Node(index, body, "kernel", "k", attributes=held, arguments=(argument,))

    nodes = kernel(0, 0, write), Node(1, 0, "graph", "graph"), kernel(2, 1, use)
    return replace(form, nodes=nodes, bodies=(Body("all"), Body("child", 1)))


@pytest.mark.parametrize("child_writes", [True, False])
def test_what_a_child_touches_its_node_touches(child_writes: bool) -> None:
    form = _fork(child_writes)
    ((race,), left_out) = debug.races(form)
    assert (race.first, race.second, race.memory, left_out) == (0, 1, "x", [])
    assert race.writers == ((0, 1) if child_writes else (0,))
    ordered = replace(form.nodes[1], waits=(0,))
    assert debug.races(replace(form, nodes=(form.nodes[0], ordered, form.nodes[2]))) == ([], [])


def test_a_body_without_a_node_is_not_judged() -> None:
    form = replace(_fork(True), bodies=(Body("all"), Body("somewhere")))
    found = debug.diff(form, form)
    assert found.verdict is Verdict.UNKNOWN
    assert found.reason == "somewhere: which node it runs in is not known"


def test_bounds_of_the_search_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    form = _fork(True)
    flat = replace(
        form,
        nodes=tuple(replace(form.nodes[0], index=n) for n in range(5)),
        bodies=(Body("all"),),
    )
    found, left_out = debug.races(flat)
    assert len(found) == 10 and left_out == []
    monkeypatch.setattr(race_search, "_MOST_RACES", 3)
    found, left_out = debug.races(flat)
    assert len(found) == 3 and left_out == ["races beyond the first 3"]
    monkeypatch.setattr(race_search, "MOST_NODES", 4)
    assert debug.races(flat) == ([], ["all: 5 nodes, more than 4"])
