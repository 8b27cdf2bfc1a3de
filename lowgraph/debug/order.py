"""The order of a form's nodes, and which of them are bound to run one before the other."""

from __future__ import annotations

from collections.abc import Sequence

from lowgraph.debug.checks import Bad
from lowgraph.debug.form import Node

__all__ = ["before", "topological"]


def topological(nodes: Sequence[Node]) -> list[int]:
    """Indices, each behind those that it waits for. Raises Bad for a circle."""
    left = [len(node.waits) for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    for node in nodes:
        for start in node.waits:
            after[start].append(node.index)
    order = [node.index for node in nodes if not left[node.index]]
    for index in order:  # it grows meanwhile
        for following in after[index]:
            left[following] -= 1
            if not left[following]:
                order.append(following)
    if len(order) < len(nodes):
        stuck = next(index for index, count in enumerate(left) if count)
        raise Bad(f"edges: node {stuck} waits for itself, in a circle")
    return order


def before(nodes: Sequence[Node]) -> list[int]:
    """Of each node the set of all that run before it, as the bits of one number."""
    found = [0] * len(nodes)
    for index in topological(nodes):
        bits = 0
        for start in nodes[index].waits:
            bits |= found[start] | 1 << start
        found[index] = bits
    return found
