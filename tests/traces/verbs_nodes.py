"""Verbs of the nodes of an executable. Each returns (code, extra)."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import graph as driver_graph
from lowgraph.driver import node as driver_node
from lowgraph.errors import DriverError
from tests.traces.world import World, attempt

Answer = tuple[int, Any]


def _node(world: World, graph: str, place: str) -> int:
    return driver_graph.nodes(int(world.graphs[graph]))[int(place)]


def node_set_params(world: World, name: str, graph: str, place: str) -> Answer:
    """cuGraphExecKernelNodeSetParams with what the node has already."""
    node = _node(world, graph, place)
    params = driver_graph.kernel_params(node)
    try:
        driver_node.set_kernel_params(int(world.execs[name]), node, params)
    except DriverError as error:
        return error.code, None
    return 0, None


def node_set_enabled(world: World, name: str, graph: str, place: str, enabled: str) -> Answer:
    """cuGraphNodeSetEnabled."""
    node = _node(world, graph, place)
    try:
        driver_node.set_enabled(int(world.execs[name]), node, enabled == "1")
    except DriverError as error:
        return error.code, None
    return 0, None


def node_enabled(world: World, name: str, graph: str, place: str) -> Answer:
    """cuGraphNodeGetEnabled; extra: 0 or 1."""
    node = _node(world, graph, place)
    try:
        return 0, int(driver_node.is_enabled(int(world.execs[name]), node))
    except DriverError as error:
        return error.code, None


def nodes_of(world: World, graph: str) -> Answer:
    """cuGraphGetNodes; extra: how many."""
    code, answer = attempt(cu.cuGraphGetNodes, world.graphs[graph], 8)
    return code, int(answer[-1]) if code == 0 else None


def type_of(world: World, name: str) -> Answer:
    """cuGraphNodeGetType; extra: the type's number."""
    code, kind = attempt(cu.cuGraphNodeGetType, world.nodes[name].node)
    return code, int(kind) if code == 0 else None


def node_waits(world: World, graph: str, place: str) -> Answer:
    """cuGraphNodeGetDependencies; extra: the places of those waited for, in the driver's order."""
    nodes = driver_graph.nodes(int(world.graphs[graph]))
    return 0, [nodes.index(before) for before in driver_node.dependencies(nodes[int(place)])]


_FUNCTIONS = (node_set_params, node_set_enabled, node_enabled, nodes_of, type_of, node_waits)
VERBS = {function.__name__: function for function in _FUNCTIONS}
