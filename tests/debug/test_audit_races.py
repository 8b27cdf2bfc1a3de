"""Audits: nodes of a graph that touch the same memory with nothing that orders them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lowgraph import debug, driver
from tests.capture.bodies import THREE, Body, N, Parts, chain
from tests.debug.raw import recorded

pytestmark = pytest.mark.both


def both_write(parts: Parts) -> None:
    parts.fork(lambda p: p.add(on=p.side))


def test_two_branches_that_write_one_slice_are_a_race(parts: Parts) -> None:
    audit = debug.Audit.of(parts.live(both_write))
    report = audit.report()
    (race,) = report.races
    assert (race.first, race.second, race.memory, race.certain) == (1, 2, "x", True)
    assert set(race.writers) == {1, 2} and report.findings == (str(race),)
    assert "node 1 (kernel add, " in str(race) and "no path leads from one to the other" in str(
        race
    )


def fill(count: int) -> Body:
    return lambda p: driver.memory.memset_d32_async(p.x.address, 0, count, p.side)


def copied(start: int, nbytes: int, side: bool) -> Body:
    return lambda p: driver.memory.copy_dtod_async(
        p.x.address + start, p.z.address, nbytes, p.side if side else p.stream
    )


def add_all(source: str) -> Body:
    return lambda p: p.functions["add_all"](p.side, 3, 128, p.z, getattr(p, source), N)


def add_from_four(parts: Parts) -> None:
    parts.functions["add"](parts.stream, 1, 128, parts.x.part(4, (8,)), 1.0, 8)


# On the side stream, on the main stream, whether that is a race.
FORKS: dict[str, tuple[Body, Body, bool]] = {
    "one reads what the other writes": (add_all("x"), Parts.add, True),
    "both read": (add_all("y"), Parts.add_all, False),
    "other slices": (lambda p: p.add_to_y(p.side), Parts.add, False),
    "a fill beside a kernel": (fill(4), Parts.add, True),
    "a fill before the kernel's part": (fill(4), add_from_four, False),
    "a fill that reaches into it": (fill(5), add_from_four, True),
    "copies of halves": (copied(0, 64, True), copied(64, 64, False), False),
    "copies that overlap": (copied(0, 65, True), copied(64, 64, False), True),
}


@pytest.mark.parametrize("name", FORKS)
def test_what_is_a_race_and_what_is_none(parts: Parts, name: str) -> None:
    first, second, racing = FORKS[name]
    form = debug.read(parts.live(lambda p: p.fork(first, second)))
    found, left_out = debug.races(form)
    assert left_out == []
    assert [(one.first, one.second) for one in found] == ([(1, 2)] if racing else [])


@pytest.mark.parametrize("cut", [(0, 1), (1, 2), (2, 3)])
def test_an_edge_that_is_taken_away_leaves_a_race(parts: Parts, cut: tuple[int, int]) -> None:
    form = debug.read(parts.live(chain(Parts.add, Parts.scale, Parts.add_all, Parts.copy)))
    assert debug.races(form) == ([], [])
    start, end = cut
    nodes = tuple(replace(node, waits=()) if node.index == end else node for node in form.nodes)
    found, _ = debug.races(replace(form, nodes=nodes))
    # Everything before the cut is beside everything behind it; add_all only reads y.
    assert {(one.first, one.second) for one in found} == {
        (a, b) for a in range(start + 1) for b in range(end, 4)
    }


def test_nodes_need_not_stand_in_the_order_in_which_they_run(parts: Parts) -> None:
    form = debug.read(parts.live(THREE))
    turned = {0: (1,), 1: (2,), 2: ()}
    nodes = tuple(replace(node, waits=turned[node.index]) for node in form.nodes)
    assert debug.races(replace(form, nodes=nodes)) == ([], [])


def test_an_edge_taken_from_the_drivers_graph_leaves_a_race(parts: Parts) -> None:
    from cuda.bindings import driver as cu

    with recorded(parts, chain(Parts.fill, Parts.copy)) as handle:
        assert debug.races(debug.read_handle(handle, pool=parts.pool))[0] == []
        one, two = (cu.CUgraphNode(node) for node in driver.graph.nodes(handle))
        try:
            answer = cu.cuGraphRemoveDependencies(handle, [one], [two], None, 1)
        except TypeError:  # bindings before 13 have no edge data
            answer = cu.cuGraphRemoveDependencies(handle, [one], [two], 1)
        assert int(answer[0]) == 0, answer
        (race,) = debug.races(debug.read_handle(handle, pool=parts.pool))[0]
    assert (race.first, race.second, race.certain, race.memory) == (0, 1, True, "x")


def test_kernels_whose_writing_is_not_known_are_perhaps_a_race(parts: Parts) -> None:
    with recorded(parts, both_write) as handle:
        report = debug.Audit.of_handle(handle, parts.pool).report()
    (race,) = report.races
    assert not race.certain and report.findings == () and str(race).startswith("perhaps a race")


@pytest.mark.parametrize(("second", "races"), [((4, 4), 0), ((3, 4), 1), ((4, 0), 0)])
def test_parts_that_share_no_byte_are_no_race(
    parts: Parts, second: tuple[int, int], races: int
) -> None:
    """Of a slice that two branches write: what each launch was given of it is all it touches."""
    form = debug.read(parts.live(lambda parts: (parts.add(), parts.add())))
    assert [one.reach for one in form.nodes[0].arguments if one.pointer] == [((0, parts.x.nbytes),)]
    nodes = []
    for node, reach in zip(form.nodes, (((0, 4),), (second,)), strict=True):
        held = [replace(one, reach=reach) if one.pointer else one for one in node.arguments]
        nodes.append(replace(node, waits=(), arguments=tuple(held)))
    parted = replace(form, nodes=tuple(nodes))
    assert len(debug.races(parted)[0]) == races
    again = debug.from_dict(json.loads(json.dumps(debug.as_dict(parted))))
    assert again == parted
