"""The order of a form's nodes, and which of them are bound to run one before the other."""

from __future__ import annotations

from collections.abc import Sequence

from lowgraph.debug.checks import Bad
from lowgraph.debug.form import Node

__all__ = ["after_of", "before", "topological"]


def topological(nodes: Sequence[Node]) -> list[int]:
    """Places in `nodes`, each behind those that it waits for. Raises Bad for a circle.

    nodes: all of a form, or all of one body.
    """
    place = {node.index: at for at, node in enumerate(nodes)}
    left = [len(node.waits) for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    for at, node in enumerate(nodes):
        for start in node.waits:
            after[place[start]].append(at)
    order = [at for at, count in enumerate(left) if not count]
    for at in order:  # it grows meanwhile
        for following in after[at]:
            left[following] -= 1
            if not left[following]:
                order.append(following)
    if len(order) < len(nodes):
        stuck = next(node.index for node, count in zip(nodes, left, strict=True) if count)
        raise Bad(f"edges: node {stuck} waits for itself, in a circle")
    return order


def before(nodes: Sequence[Node]) -> list[int]:
    """By place, the places of all nodes of the body that run before, as the bits of one number."""
    place = {node.index: at for at, node in enumerate(nodes)}
    found = [0] * len(nodes)
    for at in topological(nodes):
        bits = 0
        for start in nodes[at].waits:
            bits |= found[place[start]] | 1 << place[start]
        found[at] = bits
    return found


def after_of(nodes: Sequence[Node]) -> list[int]:
    """The same for all that run after."""
    place = {node.index: at for at, node in enumerate(nodes)}
    found = [0] * len(nodes)
    for at in reversed(topological(nodes)):
        for start in nodes[at].waits:
            found[place[start]] |= found[at] | 1 << at
    return found
