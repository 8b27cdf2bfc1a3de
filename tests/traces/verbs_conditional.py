"""Verbs of conditional nodes. Each returns (code, extra).

A graph is a name that a step gave it, `capture:s` for the one that stream s records, or a body:
`n0`, `n1` of the conditional node n. Counters are the first numbers of the second buffer.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import Device, compat, gate
from lowgraph.driver import graph as driver_graph
from tests.traces.verbs_capture import capture_mode, describe
from tests.traces.world import HERE, World, attempt

Answer = tuple[int, Any]
COUNTERS = 4
_KERNELS = ("steer", "count_to", "round_to", "bump")
_KINDS = {
    "if": cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF,
    "while": cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE,
    "switch": cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_SWITCH,
}


@cache
def _image(device: Device) -> bytes:
    return bytes(device.compile(HERE / "conditional.cu", [], {}))


def cond_load(world: World) -> Answer:
    """cuModuleLoadData of the kernels; the counters are zeroed."""
    code, module = attempt(cu.cuModuleLoadData, _image(world.device))
    if code:
        return code, None
    world.modules["conditional"] = module
    for name in _KERNELS:
        function = gate.call(cu.cuModuleGetFunction, module, name.encode())
        gate.call(cu.cuFuncLoad, function)
        world.functions[name] = function
    gate.call(cu.cuMemsetD8, world.buffers[1], 0, 4 * COUNTERS)
    gate.call(cu.cuCtxSynchronize)
    return 0, None


def graph_named(world: World, name: str) -> Any:
    """The handle of a graph by a name as the module has them."""
    if name.startswith("capture:"):
        info = attempt(compat.stream_get_capture_info, world.stream(name.removeprefix("capture:")))
        return cu.CUgraph(int(info[1][2]))
    return world.bodies.get(name) or world.graphs[name]


def cond_handle(world: World, name: str, graph: str, default: str = "", flags: str = "") -> Answer:
    """cuGraphConditionalHandleCreate; without a default there is none."""
    context = attempt(cu.cuCtxGetCurrent)[1]
    flag = int(flags) if flags else int(bool(default))
    arguments = (graph_named(world, graph), context, int(default or 0), flag)
    code, handle = attempt(cu.cuGraphConditionalHandleCreate, *arguments)
    if code == 0:
        world.handles[name] = int(handle)
    return code, None


def same_handle(world: World, first: str, second: str) -> Answer:
    """No call; extra: whether two handles are one number."""
    return 0, world.handles[first] == world.handles[second]


def node_params(world: World, handle: str, kind: str, size: str) -> Any:
    """CUgraphNodeParams of a conditional node."""
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = cu.CUgraphConditionalHandle(world.handles[handle])
    params.conditional.type = _KINDS[kind]
    params.conditional.size = int(size)
    params.conditional.ctx = attempt(cu.cuCtxGetCurrent)[1]
    return params


def _add(world: World, name: str, graph: Any, behind: list[int], params: Any) -> Answer:
    before = [cu.CUgraphNode(node) for node in behind]
    edges = [cu.CUgraphEdgeData() for _ in before]
    code, node = attempt(compat.graph_add_node, graph, before, edges, len(before), params)
    if code:
        return code, None
    bodies = [int(body) for body in params.conditional.phGraph_out]
    world.conditional_nodes[name] = int(node)
    named = {f"{name}{number}": cu.CUgraph(body) for number, body in enumerate(bodies)}
    world.bodies.update(named)
    world.bodies_of[name] = list(named)
    return code, len(bodies)


def cond_node(
    world: World, name: str, graph: str, handle: str, kind: str, size: str = "1"
) -> Answer:
    """cuGraphAddNode behind all nodes that are there; extra: number of bodies."""
    owner = graph_named(world, graph)
    behind = driver_graph.nodes(int(owner))
    return _add(world, name, owner, behind, node_params(world, handle, kind, size))


def cond_capture(
    world: World, name: str, stream: str, handle: str, kind: str, size: str = "1", join: str = "1"
) -> Answer:
    """cuGraphAddNode into the stream's capture, then cuStreamUpdateCaptureDependencies if join."""
    code, info = attempt(compat.stream_get_capture_info, world.stream(stream))
    if code:
        return code, None
    behind = [int(node) for node in (info[3] or ())[: int(info[-1])]]
    params = node_params(world, handle, kind, size)
    code, extra = _add(world, name, cu.CUgraph(int(info[2])), behind, params)
    if code or join == "0":
        return code, extra
    last = [cu.CUgraphNode(world.conditional_nodes[name])], [cu.CUgraphEdgeData()]
    arguments = (world.stream(stream), *last, 1, 1)
    return attempt(compat.stream_update_dependencies, *arguments)[0], extra


def begin_into(world: World, stream: str, graph: str, mode: str = "") -> Answer:
    """cuStreamBeginCaptureToGraph without dependencies."""
    arguments = (world.stream(stream), graph_named(world, graph), None, None, 0)
    code, _ = attempt(cu.cuStreamBeginCaptureToGraph, *arguments, capture_mode(mode or world.mode))
    return code, None


def end_into(world: World, stream: str, graph: str) -> Answer:
    """cuStreamEndCapture; extra: what the graph holds, and whether it is the one given back."""
    wanted = int(graph_named(world, graph))
    code, given = attempt(cu.cuStreamEndCapture, world.stream(stream))
    if code or not int(given):
        return code, None
    return code, {"same": int(given) == wanted, **describe(given)}


def graph_nodes(world: World, graph: str) -> Answer:
    """cuGraphGetNodes and the like, capturing or not; extra: types and edges."""
    return 0, describe(graph_named(world, graph))


def _launch(world: World, stream: str, kernel: str, *values: Any) -> Answer:
    address = world.pack(*values)
    arguments = (world.functions[kernel], 1, 1, 1, 1, 1, 1, 0, world.stream(stream), address, 0)
    return attempt(cu.cuLaunchKernel, *arguments)[0], None


def _counter(world: World, place: str) -> Any:
    return ctypes.c_void_p(int(world.buffers[1]) + 4 * int(place))


def steer(world: World, stream: str, handle: str, value: str) -> Answer:
    """cuLaunchKernel: the condition becomes the value."""
    number = ctypes.c_uint64(world.handles[handle])
    return _launch(world, stream, "steer", number, ctypes.c_uint(int(value)))


def count_to(world: World, stream: str, handle: str, limit: str, place: str = "0") -> Answer:
    """cuLaunchKernel: the condition is whether a counter, one more now, is below the limit."""
    number = ctypes.c_uint64(world.handles[handle])
    values = (number, _counter(world, place), ctypes.c_int(int(limit)))
    return _launch(world, stream, "count_to", *values)


def round_to(world: World, stream: str, handle: str, limit: str, place: str = "0") -> Answer:
    """cuLaunchKernel: the condition is whether a counter, one more now, is no multiple."""
    number = ctypes.c_uint64(world.handles[handle])
    values = (number, _counter(world, place), ctypes.c_int(int(limit)))
    return _launch(world, stream, "round_to", *values)


def bump(world: World, stream: str, place: str = "0", by: str = "1") -> Answer:
    """cuLaunchKernel: a counter grows."""
    return _launch(world, stream, "bump", _counter(world, place), ctypes.c_int(int(by)))


def counts(world: World) -> Answer:
    """Read the counters back (no capture may be active)."""
    seen = (ctypes.c_int * COUNTERS)(*[-1] * COUNTERS)
    code, _ = attempt(cu.cuMemcpyDtoH, ctypes.addressof(seen), world.buffers[1], 4 * COUNTERS)
    return code, list(seen) if code == 0 else None


def launch_good(world: World, name: str, stream: str) -> Answer:
    """cuGraphLaunch, unless a step before it failed: a loop might have no end then."""
    if not world.all_good:
        return -2, "not launched: a step before it failed"
    return attempt(cu.cuGraphLaunch, world.execs[name], world.stream(stream))[0], None


def instantiate_params(world: World, graph: str, name: str) -> Answer:
    """cuGraphInstantiateWithParams; extra: the result, and where the error node is."""
    owner = graph_named(world, graph)
    params = cu.CUDA_GRAPH_INSTANTIATE_PARAMS()
    code, handle = attempt(cu.cuGraphInstantiateWithParams, owner, params)
    if code == 0:
        world.execs[name] = handle
    return code, {"result": int(params.result_out), "node": _place(world, owner, params)}


def _place(world: World, graph: Any, params: Any) -> str | None:
    culprit = int(params.hErrNode_out)
    places = {"graph": graph, **world.bodies}
    for name, owner in places.items():
        nodes = driver_graph.nodes(int(owner)) if culprit else []
        if culprit in nodes:
            return f"{name} {nodes.index(culprit)}"
    return "elsewhere" if culprit else None


_FUNCTIONS = (
    cond_load, cond_handle, same_handle, cond_node, cond_capture, begin_into,
    end_into, graph_nodes, steer, count_to, round_to, bump, counts, launch_good,
    instantiate_params,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
