"""Verbs that ask for what conditional nodes and bodies may not do. Each returns (code, extra)."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import graph as driver_graph
from tests.traces.verbs_build import kernel_params
from tests.traces.verbs_conditional import cond_handle, cond_node, graph_named, node_params
from tests.traces.world import World, attempt

Answer = tuple[int, Any]


def clone(world: World, graph: str, name: str) -> Answer:
    """cuGraphClone."""
    code, made = attempt(cu.cuGraphClone, graph_named(world, graph))
    if code == 0:
        world.keep_graph(name, made)
    return code, None


def body_add_child(world: World, graph: str, child: str) -> Answer:
    """cuGraphAddChildGraphNode."""
    owner, inner = graph_named(world, graph), graph_named(world, child)
    return attempt(cu.cuGraphAddChildGraphNode, owner, [], 0, inner)[0], None


def body_add_kernel(world: World, body: str, kernel: str = "noop") -> Answer:
    """cuGraphAddKernelNode, behind nothing."""
    params = kernel_params(world, kernel)
    return attempt(cu.cuGraphAddKernelNode, graph_named(world, body), None, 0, params)[0], None


def cond_add(
    world: World, name: str, graph: str, kind: str, default: str, size: str = "1"
) -> Answer:
    """cuGraphConditionalHandleCreate, then cuGraphAddNode; extra: number of bodies."""
    code, _ = cond_handle(world, name, graph, default)
    return cond_node(world, name, graph, name, kind, size) if code == 0 else (code, None)


def body_destroy(world: World, body: str) -> Answer:
    """cuGraphDestroy of a body."""
    return attempt(cu.cuGraphDestroy, world.bodies[body])[0], None


def cond_destroy(world: World, name: str) -> Answer:
    """cuGraphDestroyNode of a conditional node; its bodies are gone if it succeeds."""
    code, _ = attempt(cu.cuGraphDestroyNode, cu.CUgraphNode(world.conditional_nodes[name]))
    if code == 0:
        for body in world.bodies_of.pop(name, []):
            world.bodies.pop(body, None)
    return code, None


def cond_set_params(world: World, name: str, node: str, handle: str, kind: str) -> Answer:
    """cuGraphExecNodeSetParams of a conditional node, with what it has."""
    params = node_params(world, handle, kind, "1")
    target = cu.CUgraphNode(world.conditional_nodes[node])
    return attempt(cu.cuGraphExecNodeSetParams, world.execs[name], target, params)[0], None


def body_set_params(world: World, name: str, body: str, place: str) -> Answer:
    """cuGraphExecKernelNodeSetParams of a body's kernel, with what it has."""
    node = cu.CUgraphNode(driver_graph.nodes(int(world.bodies[body]))[int(place)])
    code, params = attempt(cu.cuGraphKernelNodeGetParams, node)
    if code:
        return code, "get"
    return attempt(cu.cuGraphExecKernelNodeSetParams, world.execs[name], node, params)[0], None


def body_set_enabled(world: World, name: str, body: str, place: str, enabled: str) -> Answer:
    """cuGraphNodeSetEnabled of a body's node."""
    node = cu.CUgraphNode(driver_graph.nodes(int(world.bodies[body]))[int(place)])
    return attempt(cu.cuGraphNodeSetEnabled, world.execs[name], node, int(enabled))[0], None


def cond_set_enabled(world: World, name: str, node: str, enabled: str) -> Answer:
    """cuGraphNodeSetEnabled of the conditional node."""
    target = cu.CUgraphNode(world.conditional_nodes[node])
    return attempt(cu.cuGraphNodeSetEnabled, world.execs[name], target, int(enabled))[0], None


_FUNCTIONS = (
    clone, body_add_child, body_add_kernel, cond_add, body_destroy, cond_destroy, cond_set_params,
    body_set_params, body_set_enabled, cond_set_enabled,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
