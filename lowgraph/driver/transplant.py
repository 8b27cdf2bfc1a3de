"""Nodes of one graph, made again in another: how the body of a conditional comes to hold a capture.

A body cannot be a clone, and a capture straight into it that does not end well ends the process
(driver 580.159, see `conditional.begin_body`). So it is recorded in a graph of its own, judged
there, and its nodes are added to the body one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cuda.bindings import driver

from lowgraph.driver import gate, graph, node
from lowgraph.errors import ConfigError

__all__ = ["StandIn", "copy_nodes"]

StandIn = Callable[[list[int]], int]
"""Adds what an empty node kept the place of, behind the nodes it is given; returns the node."""


def copy_nodes(source: int, target: int, stand_ins: Mapping[int, StandIn]) -> dict[int, int]:
    """Add copies of all nodes of `source` to `target`, with their edges and attributes.

    Returns the copy of each node.

    Kernels, memsets, copies, empty nodes and child graphs; `stand_ins` are asked for those nodes of
    `source` that they name. Raises ConfigError for a node of another type or without a current
    context, DriverError.
    """
    # cuGraphAddKernelNode without one ends the process (driver 580.159).
    if not int(gate.call(driver.cuCtxGetCurrent)):
        raise ConfigError("nodes are copied in a context: call make_current() of the device first")
    twins: dict[int, int] = {}
    waiting = graph.nodes(source)
    while waiting:
        later = []
        for old in waiting:
            before = node.dependencies(old)
            if not all(other in twins for other in before):
                later.append(old)
                continue
            behind = [twins[other] for other in before]
            twins[old] = stand_ins[old](behind) if old in stand_ins else _copy(old, target, behind)
        if len(later) == len(waiting):
            raise ConfigError(f"graph {source:#x} has a cycle: its nodes cannot be copied")
        waiting = later
    return twins


def _copy(old: int, target: int, before: list[int]) -> int:
    kind = graph.node_type(old)
    if kind not in _COPIES:
        raise ConfigError(f"a {kind} node cannot be copied: only {', '.join(_COPIES)} nodes can")
    return int(_COPIES[kind](old, (target, [driver.CUgraphNode(n) for n in before], len(before))))


def _copy_kernel(old: int, place: tuple[Any, ...]) -> Any:
    params = gate.call(driver.cuGraphKernelNodeGetParams, old)
    made = gate.call(driver.cuGraphAddKernelNode, *place, params)
    gate.call(driver.cuGraphKernelNodeCopyAttributes, made, old)  # cooperative, cluster, priority
    return made


def _copy_fill(old: int, place: tuple[Any, ...]) -> Any:
    params = gate.call(driver.cuGraphMemsetNodeGetParams, old)
    return gate.call(driver.cuGraphAddMemsetNode, *place, params, gate.call(driver.cuCtxGetCurrent))


def _copy_copy(old: int, place: tuple[Any, ...]) -> Any:
    params = gate.call(driver.cuGraphMemcpyNodeGetParams, old)
    return gate.call(driver.cuGraphAddMemcpyNode, *place, params, gate.call(driver.cuCtxGetCurrent))


def _copy_empty(_old: int, place: tuple[Any, ...]) -> Any:
    return gate.call(driver.cuGraphAddEmptyNode, *place)


def _copy_child(old: int, place: tuple[Any, ...]) -> Any:
    # The graph inside of a child node is not taken as it is (801 on driver 580.159), a clone is.
    clone = gate.call(driver.cuGraphClone, node.child_graph(old))
    try:
        return gate.call(driver.cuGraphAddChildGraphNode, *place, clone)
    finally:
        graph.destroy(int(clone))


_COPIES: dict[str, Callable[[int, tuple[Any, ...]], Any]] = {
    "kernel": _copy_kernel,
    "memset": _copy_fill,
    "memcpy": _copy_copy,
    "empty": _copy_empty,
    "graph": _copy_child,
}
