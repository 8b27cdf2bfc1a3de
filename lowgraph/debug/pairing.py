"""Which node of an executable gets the parameters of which node of another graph, as the driver
pairs them for cuGraphExecUpdate: exit nodes in their order, then, from each pair, what both wait
for, in the order of their edges (CUDA driver API, cuGraphExecUpdate).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from lowgraph.debug.form import Node

__all__ = ["Pairing", "pair"]


@dataclass
class Pairing:
    """twins: index of the new node -> of the old one, all of them or those found before a failure.

    failed: whether the topologies differ; at: the new node at which that shows, None if it is none.
    """

    twins: dict[int, int] = field(default_factory=dict)
    failed: bool = False
    at: int | None = None


def pair(old: Sequence[Node], new: Sequence[Node]) -> Pairing:
    """Pair the nodes of one body with those of another one's."""
    found = Pairing()
    if len(old) != len(new):
        return Pairing(failed=True)
    exits, new_exits = _exits(old), _exits(new)
    if len(exits) != len(new_exits):
        extra = len(new_exits) - len(exits)
        return Pairing(failed=True, at=new_exits[extra - 1].index if extra > 0 else None)
    then, now = ({node.index: node for node in nodes} for nodes in (old, new))
    waiting: deque[tuple[Node, Node]] = deque()
    for before, after in zip(reversed(exits), reversed(new_exits), strict=True):
        found.twins[after.index] = before.index
        waiting.append((before, after))
    taken = set(found.twins.values())
    while waiting:
        before, after = waiting.popleft()
        if len(before.waits) != len(after.waits):
            return Pairing(found.twins, True, after.index)
        for old_start, new_start in zip(before.waits, after.waits, strict=True):
            known = found.twins.get(new_start)
            if known is None and old_start not in taken:
                found.twins[new_start] = old_start
                taken.add(old_start)
                waiting.append((then[old_start], now[new_start]))
            elif known != old_start:
                return Pairing(found.twins, True, after.index)
    return found  # of all nodes: each leads to an exit


def _exits(nodes: Sequence[Node]) -> list[Node]:
    """Nodes that none waits for, in their order: that in which they became exits, for a graph that
    was built node by node and from which no edge was taken.
    """
    waited_for = {start for node in nodes for start in node.waits}
    return [node for node in nodes if node.index not in waited_for]
