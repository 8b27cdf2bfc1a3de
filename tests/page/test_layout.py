"""Where nodes stand, which path is the longest, and what memory lives how long: no browser."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from lowgraph.debug.form import Body, Memory, Node
from lowgraph.debug.page.critical import critical, node_times
from lowgraph.debug.page.lanes import in_order, lanes, timeline
from lowgraph.debug.page.lifetimes import address_map, in_use, lives
from lowgraph.debug.page.places import picture
from lowgraph.errors import ConfigError
from tests.page.graphs import form, kernel, large, nested, pointer


def drawn_by_dice(seed: int, count: int = 60, streams: int = 0) -> list[Node]:
    """streams: that nodes are of at random, as no capture would have it; some are of none."""
    dice = random.Random(seed)
    waits = [min(n, dice.choice((0, 1, 1, 1, 3))) for n in range(count)]
    nodes = [
        kernel(n, sorted(dice.sample(range(max(0, n - 9), n), waits[n]))) for n in range(count)
    ]
    if not streams:
        return nodes
    return [replace(node, stream=dice.choice((None, *3 * tuple(range(streams))))) for node in nodes]


def test_a_chain_is_one_lane_and_a_branch_another() -> None:
    # 0 -> 2 -> 3 -> 4 and beside it 0 -> 1 -> 4: 1 was issued first and is the shorter way
    nodes = [kernel(0, ()), kernel(1, (0,)), kernel(2, (0,)), kernel(3, (2,)), kernel(4, (1, 3))]
    found = lanes(nodes)
    assert found.lane == [0, 1, 0, 0, 0]
    assert found.row == [0, 1, 1, 2, 3]
    assert found.above == [None, None, 0, 2, 3]


def test_a_lane_is_used_again_once_its_branch_has_ended() -> None:
    nodes = [kernel(0, ()), kernel(1, (0,)), kernel(2, (0,)), kernel(3, (1, 2)), kernel(4, (3,)),
             kernel(5, (3,)), kernel(6, (4, 5))]  # fmt: skip
    assert lanes(nodes).lane == [0, 0, 1, 0, 0, 1, 0]


def test_a_lane_is_a_stream_where_it_is_known() -> None:
    # Stream 0: 0, 3; stream 4: 1, 2. By branches 0 -> 1 -> 2 is one lane, being the longer way.
    waits: list[tuple[int, ...]] = [(), (0,), (1,), (0,), (2, 3)]
    streams = (0, 4, 4, 0, 0)
    nodes = [kernel(n, waits[n], stream=streams[n]) for n in range(5)]
    found = lanes(nodes)
    assert found.lane == [0, 1, 1, 0, 0] and found.row == [0, 1, 2, 1, 3]
    assert found.streams == (0, 4)
    assert found.above == [None, None, 1, 0, 3]
    assert lanes([replace(node, stream=None) for node in nodes]).lane == [0, 0, 0, 1, 0]
    assert lanes([replace(node, stream=None) for node in nodes]).streams == ()


def test_a_node_of_an_unknown_stream_goes_on_where_there_is_room() -> None:
    nodes = [kernel(0, (), stream=0), kernel(1, (0,)), kernel(2, (0,), stream=1), kernel(3, (0,)),
             kernel(4, (3,)), kernel(5, (1, 2, 4), stream=0)]  # fmt: skip
    found = lanes(nodes)
    assert found.lane == [0, 0, 1, 2, 2, 0]
    assert found.above == [None, 0, None, None, 3, 1]


def test_two_nodes_of_a_stream_that_nothing_orders_do_not_cover_each_other() -> None:
    nodes = [kernel(0, (), stream=0), kernel(1, (), stream=0), kernel(2, (0, 1), stream=0)]
    assert lanes(nodes).lane == [0, 1, 0]


def test_streams_are_named_above_the_lanes_of_each_body() -> None:
    inner = [replace(kernel(n, ()), body=1, stream=n) for n in (3, 4)]
    nodes = [kernel(0, (), stream=0), Node(1, 0, "graph", "graph", waits=(0,)),
             kernel(2, (0,), stream=2), *inner, replace(kernel(5, ()), body=2)]  # fmt: skip
    given = form(nodes, (), (Body("all"), Body("child", 1), Body("loop")))
    found = picture(given)
    assert [one.stream for one in found.names] == [0, 2, 3, 4]
    for name in found.names:
        of_it = [found.boxes[node.index] for node in nodes if node.stream == name.stream]
        assert {x for x, _, _ in of_it} == {name.x}
        assert all(name.y + 20 <= y for _, y, _ in of_it), "above all of them"
    tops = [section.y for section in found.sections]
    assert all(a < b for a, b in pairwise(tops))
    assert picture(form([replace(node, stream=None) for node in nodes[:3]])).names == []


@pytest.mark.parametrize("streams", [0, 1, 4])
@pytest.mark.parametrize("seed", range(20))
def test_no_two_nodes_stand_in_one_place_and_edges_lead_down(seed: int, streams: int) -> None:
    nodes = drawn_by_dice(seed, streams=streams)
    found = lanes(nodes)
    assert len(set(zip(found.row, found.lane, strict=True))) == len(nodes)
    for at, node in enumerate(nodes):
        assert all(found.row[start] < found.row[at] for start in node.waits)
        above = found.above[at]
        assert above is None or (above in node.waits and found.lane[above] == found.lane[at])
    taken: dict[int, list[int]] = {}
    for at in sorted(range(len(nodes)), key=lambda one: found.row[one]):
        taken.setdefault(found.lane[at], []).append(at)
    for branch in taken.values():  # nothing stands between two nodes of one branch
        for one, other in pairwise(branch):
            assert found.above[other] in (one, None)


def test_the_order_is_that_of_the_issue_where_edges_allow() -> None:
    nodes = [kernel(0, (2,)), kernel(1, ()), kernel(2, ())]
    assert in_order(nodes) == [1, 2, 0]
    assert in_order(drawn_by_dice(1)) == list(range(60))


def test_a_body_runs_behind_its_node_and_stands_below() -> None:
    assert timeline(nested()) == [0, 1, 3, 4, 2, 5]
    found = picture(nested())
    assert [section.body for section in found.sections] == [0, 1, 2]
    ends = [section.y + section.height for section in found.sections]
    assert ends == [found.sections[1].y, found.sections[2].y, found.height]
    assert found.boxes[2][1] < found.sections[1].y < found.boxes[3][1] < found.boxes[4][1]


@pytest.mark.parametrize("seed", range(5))
def test_boxes_and_frames_do_not_overlap(seed: int) -> None:
    nodes = [replace(node, stage=f"s{node.index // 7 % 3}") for node in drawn_by_dice(seed, 120)]
    found = picture(form(nodes))
    frames = [(g.x, g.y, g.width, g.height) for g in found.groups]
    boxes = [(x, y, width, found.row) for x, y, width in found.boxes]
    for some in (frames, boxes):
        for at, one in enumerate(some):
            assert not any(_overlap(one, other) for other in some[:at])
    assert all(x + width <= found.width and y + height <= found.height
               for x, y, width, height in frames)  # fmt: skip
    for node, box in zip(nodes, boxes, strict=True):
        around = [g for g in found.groups if _overlap((g.x, g.y, g.width, g.height), box)]
        assert [g.stage for g in around] == [node.stage]


def _overlap(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(one[axis] < other[axis] + other[axis + 2] and other[axis] < one[axis] + one[axis + 2]
               for axis in (0, 1))  # fmt: skip


def test_few_lanes_have_wide_boxes_unless_two_pictures_share_the_page() -> None:
    chain = form([kernel(0, ()), kernel(1, (0,))])
    assert picture(chain).boxes[0][2] > picture(chain, narrow=True).boxes[0][2]


def test_the_critical_path_counts_nodes_where_no_times_are_known() -> None:
    found = critical(large(100), None)
    assert len(found.nodes) == 90 and 12 not in found.nodes
    assert found.text.startswith("90 of 100 nodes") and "by count" in found.text


def test_the_critical_path_goes_by_time_where_it_is_known() -> None:
    # Two ways of two and of three nodes; the shorter one is the slower.
    nodes = [kernel(0, (), stage="a"), kernel(1, (0,), stage="slow"), kernel(2, (0,), stage="fast"),
             kernel(3, (2,), stage="fast"), kernel(4, (1, 3), stage="a")]  # fmt: skip
    given = form(nodes)
    assert critical(given, None).nodes == [0, 2, 3, 4]
    times = node_times(given, {"a": 2.0, "slow": 10.0, "fast": 6.0})
    assert times == [1.0, 10.0, 3.0, 3.0, 1.0]
    found = critical(given, times)
    assert found.nodes == [0, 1, 4]
    assert "12.0 of 18.0 us: by time" in found.text


def test_what_runs_inside_of_a_node_is_the_nodes() -> None:
    assert critical(nested(), None).nodes == [0, 1, 2, 3, 4]
    # The way over the node with two inside is the longest, which it is not by its own nodes.
    given = nested()
    aside = [replace(given.nodes[2], waits=(1, 7)), kernel(6, (0,)), kernel(7, (6,))]
    nodes = [*given.nodes[:2], aside[0], *given.nodes[3:], *aside[1:]]
    assert critical(replace(given, nodes=tuple(nodes)), None).nodes == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("own_us", "told"),
    [
        ({"other": 1.0}, "none of the 1 stage that were timed is one of the graph's; give"),
        ({"a": float("nan")}, "stage 'a': nan is no time in microseconds"),
        ({"a": -1.0}, "stage 'a': -1.0 is no time"),
        ({"a": float("inf")}, "stage 'a': inf is no time"),
    ],
)
def test_times_of_something_else_are_refused(own_us: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        node_times(form([kernel(0, (), stage="a")]), own_us)


def test_a_node_that_is_off_takes_no_time() -> None:
    nodes = [kernel(0, (), stage="a"), kernel(1, (0,), stage="a", enabled=False)]
    assert node_times(form(nodes), {"a": 8.0}) == [8.0, 0.0]


def test_memory_lives_from_its_first_use_to_its_last() -> None:
    memory = [Memory("x", 0x1000, 256), Memory("y", 0x1200, 512), Memory("z", 0x9000, 8)]
    nodes = [
        kernel(0, (), arguments=(pointer("a", memory, 0, False),)),
        kernel(1, (0,), arguments=(pointer("a", memory, 0, True), pointer("b", memory, 1, False))),
        kernel(2, (1,), arguments=(pointer("b", memory, 1, True),)),
    ]
    given = form(nodes, memory)
    found = lives(given, timeline(given))
    assert [(one.first, one.last) for one in found] == [(0, 1), (1, 2), (None, None)]
    assert in_use(memory, found, 3) == [256, 768, 512]


def test_the_map_keeps_the_order_of_addresses_and_what_they_share() -> None:
    memory = [
        Memory("all", 0x1000, 0x400),
        Memory("head", 0x1000, 0x100),
        Memory("far", 1 << 60, 1 << 40),
        Memory("tail", 0x1100, 0x300),
        Memory("none", 0x2000, 0),
    ]
    (whole, head, far, tail, none) = address_map(memory)
    assert whole[0] == head[0] == 0 and head[0] + head[1] == tail[0]
    assert whole[1] == head[1] + tail[1] and none[1] == 0
    assert whole[1] < none[0] < far[0] and 0 < far[1] < 1000
    assert none[0] - whole[1] == far[0] - none[0] < 10, "what nothing lies in is a small gap"
    assert address_map([]) == []
