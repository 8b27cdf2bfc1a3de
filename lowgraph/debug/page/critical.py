"""The longest way through a graph: what a replay takes at least, however many streams it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from lowgraph.debug.form import Form, Node
from lowgraph.debug.page.lanes import in_order
from lowgraph.errors import ConfigError
from lowgraph.memory import counted

__all__ = ["Critical", "critical", "node_times"]


@dataclass(frozen=True)
class Critical:
    """nodes: indices on the path. text: how long it is, and what was counted."""

    nodes: list[int]
    text: str


def node_times(form: Form, own_us: Mapping[str, float]) -> list[float]:
    """Microseconds of each node: its stage's, shared evenly among the stage's nodes that run.

    own_us: by a stage's full name ("" is outside of any), without the stages inside of it. A node
    of a stage that is not named has 0. Raises ConfigError for what is no time, and if no node's
    stage is named.
    """
    bad = [stage for stage, us in own_us.items() if not 0 <= us < inf]
    if bad:
        raise ConfigError(f"stage {bad[0]!r}: {own_us[bad[0]]!r} is no time in microseconds")
    running: dict[str, int] = {}
    for node in form.nodes:
        running[node.stage] = running.get(node.stage, 0) + node.enabled
    if not any(count and stage in own_us for stage, count in running.items()):
        raise ConfigError(
            f"none of the {counted(len(own_us), 'stage')} that were timed is one of the graph's; "
            "give the times of the same step"
        )
    return [own_us.get(node.stage, 0.0) / running[node.stage] if node.enabled else 0.0
            for node in form.nodes]  # fmt: skip


def critical(form: Form, times: Sequence[float] | None) -> Critical:
    """The path of the most time, or of the most nodes where no times are known.

    What runs inside of a node, once a replay as far as is known, counts as the node's.
    """
    weights = [float(node.enabled) for node in form.nodes] if times is None else list(times)
    inside = form.inside()
    paths: list[list[int]] = [[] for _ in form.bodies]
    bodies: dict[int, list[int]] = {}
    for number in reversed(range(len(form.bodies))):  # a parent stands in a body before
        paths[number], longest = _longest(inside[number], weights)
        parent = form.bodies[number].parent
        if parent is not None:
            weights[parent] += longest
            bodies.setdefault(parent, []).append(number)
    found: list[int] = []
    waiting = [0]
    while waiting:
        path = paths[waiting.pop()]
        found += path
        waiting += [number for index in path for number in bodies.get(index, ())]
    return Critical(sorted(found), _told(form, times, found))


def _longest(nodes: Sequence[Node], weights: Sequence[float]) -> tuple[list[int], float]:
    """Indices of a body's longest path, in order, and its length."""
    length: dict[int, float] = {}
    before: dict[int, int | None] = {}
    for at in in_order(nodes):
        node = nodes[at]
        before[node.index] = max(node.waits, key=length.__getitem__, default=None)
        start = before[node.index]
        length[node.index] = weights[node.index] + (0.0 if start is None else length[start])
    if not length:
        return [], 0.0
    last: int | None = max(length, key=length.__getitem__)
    longest = length[last] if last is not None else 0.0
    path = []
    while last is not None:
        path.append(last)
        last = before[last]
    return path[::-1], longest


def _told(form: Form, times: Sequence[float] | None, path: Sequence[int]) -> str:
    nodes = f"{len(path)} of {counted(len(form.nodes), 'node')}"
    if times is None:
        return f"{nodes}, the most on one path: by count, for no times are known"
    us = sum(times[index] for index in path)
    shared = "each stage's time shared evenly among its nodes"
    return f"{nodes}, {us:.1f} of {sum(times):.1f} us: by time, {shared}"
