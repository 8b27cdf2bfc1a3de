"""Which row and lane of the page each node of a body has.

A row is a depth: a node stands one row below the lowest of those that it waits for. A lane is a
stream where it is known to which the nodes were sent. A graph itself has forgotten that, so that of
somebody else's a lane is a branch: what a fork issued stands beside what it forked from.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

from lowgraph.debug.form import Form, Node

__all__ = ["Lanes", "in_order", "lanes", "timeline"]


@dataclass(frozen=True)
class Lanes:
    """By place in the body: row and lane, both from 0. above: the place above it on its branch.

    streams: the number of each lane's stream, from the first lane on; () where lanes are branches.
    """

    row: list[int]
    lane: list[int]
    above: list[int | None]
    streams: tuple[int, ...] = ()


def in_order(nodes: Sequence[Node]) -> list[int]:
    """Places in `nodes`, each behind those that it waits for, else as they were issued."""
    place = {node.index: at for at, node in enumerate(nodes)}
    left = [len(node.waits) for node in nodes]
    after = _after(nodes, place)
    ready = [at for at, count in enumerate(left) if not count]
    order = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for following in after[at]:
            left[following] -= 1
            if not left[following]:
                heapq.heappush(ready, following)
    return order


def lanes(nodes: Sequence[Node]) -> Lanes:
    """Rows and lanes of one body; of a fork, the longest way to an end keeps its branch's lane.

    A node whose stream is not known stands on that of what it waits for if there is room, else
    behind all streams.
    """
    place = {node.index: at for at, node in enumerate(nodes)}
    waits = [[place[start] for start in node.waits] for node in nodes]
    order, after = in_order(nodes), _after(nodes, place)
    row, depth = [0] * len(nodes), [0] * len(nodes)
    for at in order:
        row[at] = max((row[start] + 1 for start in waits[at]), default=0)
    if any(node.stream is not None for node in nodes):
        return _by_stream(nodes, row, waits, order)
    heir: list[int | None] = [None] * len(nodes)
    for at in reversed(order):
        if after[at]:
            depth[at] = max(depth[one] + 1 for one in after[at])
            heir[at] = max(after[at], key=lambda one: (depth[one], -one))
    found = Lanes(row, [0] * len(nodes), [None] * len(nodes))
    _choose(found, waits, heir)
    return found


def _choose(found: Lanes, waits: list[list[int]], heir: list[int | None]) -> None:
    """Row by row: an heir takes its branch's lane, the others the first that is free."""
    free: list[int] = []
    used = 0
    by_row: list[list[int]] = [[] for _ in range(max(found.row, default=-1) + 1)]
    for at, row in enumerate(found.row):
        by_row[row].append(at)
    for places in by_row:
        new = []
        for at in places:
            left = sorted((found.lane[one], one) for one in waits[at] if heir[one] == at)
            if not left:
                new.append(at)
                continue
            found.lane[at], found.above[at] = left[0]
            for lane, _ in left[1:]:
                heapq.heappush(free, lane)
        for at in new:
            found.lane[at] = heapq.heappop(free) if free else used
            used = max(used, found.lane[at] + 1)
        for at in places:
            if heir[at] is None:
                heapq.heappush(free, found.lane[at])


def _by_stream(
    nodes: Sequence[Node], row: list[int], waits: list[list[int]], order: Sequence[int]
) -> Lanes:
    streams = sorted({node.stream for node in nodes if node.stream is not None})
    lane_of = {stream: lane for lane, stream in enumerate(streams)}
    taken: dict[tuple[int, int], int] = {}  # by row and lane
    for at in order:
        # A capture puts a stream's nodes behind each other; whoever changed edges may not have.
        stream = nodes[at].stream
        if stream is not None:
            taken.setdefault((row[at], lane_of[stream]), at)
    lane = [0] * len(nodes)
    for (_, where), at in taken.items():
        lane[at] = where
    placed = set(taken.values())
    for at in order:
        if at not in placed:
            wanted = chain((lane[start] for start in waits[at]), count(len(streams)))
            lane[at] = next(one for one in wanted if (row[at], one) not in taken)
            taken[row[at], lane[at]] = at
    above: list[int | None] = [None] * len(nodes)
    last: dict[int, int] = {}
    for (_, where), at in sorted(taken.items()):
        if last.get(where) in waits[at]:
            above[at] = last[where]
        last[where] = at
    return Lanes(row, lane, above, tuple(streams))


def timeline(form: Form) -> list[int]:
    """Indices of all nodes in one line: a body's behind the node that it runs in."""
    inside = form.inside()
    bodies: dict[int | None, list[int]] = {}
    for number, body in enumerate(form.bodies):
        bodies.setdefault(body.parent, []).append(number)
    found: list[int] = []

    def add(number: int) -> None:
        nodes = inside[number]
        for at in in_order(nodes):
            found.append(nodes[at].index)
            for one in bodies.get(nodes[at].index, ()):
                add(one)

    for number in bodies[None]:  # the whole graph, and bodies whose node is not known
        add(number)
    return found


def _after(nodes: Sequence[Node], place: dict[int, int]) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in nodes]
    for at, node in enumerate(nodes):
        for start in node.waits:
            after[place[start]].append(at)
    return after
