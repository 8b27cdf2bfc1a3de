"""Verbs of edges that say more than "behind": ports and types. Each returns (code, extra).

An edge's data is `from_port,to_port,type`; type 1 is programmatic, port 1 a kernel's trigger, port
2 its start. The calls are made in the forms of two CUDA versions, of which the older has no data.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from tests.traces import proc
from tests.traces.verbs_build import kernel_params
from tests.traces.world import NamedNode, World

Answer = tuple[int, Any]
ROOM = 64  # edges or nodes that are asked for at most
NEW, OLD = 12030, 10000
_KERNEL = 0  # CU_GRAPH_NODE_TYPE_KERNEL
_SET = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES
_MODES = {"GLOBAL": 0, "THREAD_LOCAL": 1, "RELAXED": 2}


class Edge(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("kind", ctypes.c_ubyte),
        ("rest", ctypes.c_ubyte * 5),
    )


def _edge(data: str) -> Edge:
    return Edge(*(int(number) for number in data.split(",")))


def _told(edge: Edge) -> list[int]:
    return [edge.from_port, edge.to_port, edge.kind]


def _handle(world: World, name: str) -> ctypes.c_void_p:
    return proc.pointer(world.nodes[name].node)


def _places(world: World, graph: str) -> dict[int, int]:
    held, count = (ctypes.c_void_p * ROOM)(), ctypes.c_size_t(ROOM)
    proc.call("cuGraphGetNodes", OLD, proc.pointer(world.graphs[graph]), held, ctypes.byref(count))
    return {int(held[place] or 0): place for place in range(count.value)}


def edges_told(world: World, graph: str) -> Answer:
    """cuGraphGetEdges with data; extra: [from, to, the data] of each, sorted."""
    ends = [(ctypes.c_void_p * ROOM)() for _ in range(2)]
    data, count = (Edge * ROOM)(), ctypes.c_size_t(ROOM)
    handle = proc.pointer(world.graphs[graph])
    code = proc.call("cuGraphGetEdges", NEW, handle, *ends, data, ctypes.byref(count))
    if code:
        return code, None
    places = _places(world, graph)
    pairs = [[places[int(end[n] or 0)] for end in ends] for n in range(count.value)]
    return code, sorted([*pair, _told(edge)] for pair, edge in zip(pairs, data, strict=False))


def edges_old(world: World, graph: str) -> Answer:
    """cuGraphGetEdges without data."""
    ends = [(ctypes.c_void_p * ROOM)() for _ in range(2)]
    held = proc.pointer(world.graphs[graph]), *ends, ctypes.byref(ctypes.c_size_t(ROOM))
    return proc.call("cuGraphGetEdges", OLD, *held), None


def _neighbours(world: World, name: str, graph: str, place: str) -> Answer:
    node = next(handle for handle, n in _places(world, graph).items() if n == int(place))
    found, data, count = (ctypes.c_void_p * ROOM)(), (Edge * ROOM)(), ctypes.c_size_t(ROOM)
    code = proc.call(name, NEW, proc.pointer(node), found, data, ctypes.byref(count))
    held = proc.pointer(node), found, ctypes.byref(ctypes.c_size_t(ROOM))
    old = proc.call(name, OLD, *held)
    told = sorted(_told(data[n]) for n in range(count.value)) if code == 0 else None
    return code, {"data": told, "without": old}


def waits_told(world: World, graph: str, place: str) -> Answer:
    """cuGraphNodeGetDependencies; extra: the data of each, and the code of the form without."""
    return _neighbours(world, "cuGraphNodeGetDependencies", graph, place)


def followers_told(world: World, graph: str, place: str) -> Answer:
    """cuGraphNodeGetDependentNodes; extra: the data of each, and the code of the form without."""
    return _neighbours(world, "cuGraphNodeGetDependentNodes", graph, place)


def info_told(world: World, stream: str) -> Answer:
    """cuStreamGetCaptureInfo; extra: the data of what the next node waits for, and the code of the
    form without."""
    status, count, held = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_uint64()
    graph, nodes, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.POINTER(Edge)()
    handle, by = proc.pointer(world.stream(stream)), ctypes.byref
    first = handle, by(status), by(held), by(graph), by(nodes)
    code = proc.call("cuStreamGetCaptureInfo", NEW, *first, by(data), by(count))
    told = [_told(data[n]) for n in range(count.value)] if code == 0 and data else None
    old = proc.call("cuStreamGetCaptureInfo", 11030, *first, by(count))
    return code, {"data": told, "without": old}


class _KernelParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v3, at the head of CUgraphNodeParams' union."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("sizes", ctypes.c_uint * 7),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class _AnyParams(ctypes.Structure):
    """CUgraphNodeParams: 256 bytes."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("head", ctypes.c_int * 3),
        ("kernel", _KernelParams),
        ("rest", ctypes.c_ubyte * (256 - 16 - ctypes.sizeof(_KernelParams))),
    )


def add_after(world: World, name: str, graph: str, data: str, *before: str) -> Answer:
    """cuGraphAddNode of a kernel, behind the nodes named by edges of that data."""
    sizes = (ctypes.c_uint * 7)(1, 1, 1, 32, 1, 1, 0)
    address = int(kernel_params(world).kernelParams)
    kernel = _KernelParams(int(world.functions["noop"]), sizes, address)
    params, made = _AnyParams(_KERNEL, kernel=kernel), ctypes.c_void_p()
    nodes = (ctypes.c_void_p * len(before))(*(int(world.nodes[one].node) for one in before))
    edges = (Edge * len(before))(*(_edge(data) for _ in before))
    held = ctypes.byref(made), proc.pointer(world.graphs[graph]), nodes, edges
    size = proc.size(len(before))
    code = proc.call("cuGraphAddNode", NEW, *held, size, ctypes.byref(params))
    if code == 0:
        node = cu.CUgraphNode(made.value or 0)
        world.nodes[name] = NamedNode(node, int(world.graphs[graph]))
    return code, None


def _between(world: World, call: str, graph: str, first: str, second: str, data: str) -> Answer:
    ends = [(ctypes.c_void_p * 1)(_handle(world, name).value) for name in (first, second)]
    edges = ctypes.byref(_edge(data)) if data != "none" else None
    held = proc.pointer(world.graphs[graph]), *ends, edges, proc.size(1)
    return proc.call(call, NEW, *held), None


def edge_with(world: World, graph: str, first: str, second: str, data: str) -> Answer:
    """cuGraphAddDependencies of one edge with data."""
    return _between(world, "cuGraphAddDependencies", graph, first, second, data)


def edge_remove_with(world: World, graph: str, first: str, second: str, data: str) -> Answer:
    """cuGraphRemoveDependencies of one edge with data; none: without."""
    return _between(world, "cuGraphRemoveDependencies", graph, first, second, data)


def dependencies_with(world: World, stream: str, name: str, data: str) -> Answer:
    """cuStreamUpdateCaptureDependencies: set to one node, with data."""
    node = (ctypes.c_void_p * 1)(_handle(world, name).value)
    held = proc.pointer(world.stream(stream)), node, ctypes.byref(_edge(data)), proc.size(1), _SET
    return proc.call("cuStreamUpdateCaptureDependencies", NEW, *held), None


def begin_to_with(world: World, stream: str, graph: str, name: str, data: str) -> Answer:
    """cuStreamBeginCaptureToGraph behind one node, with data."""
    node = (ctypes.c_void_p * 1)(_handle(world, name).value)
    held = proc.pointer(world.stream(stream)), proc.pointer(world.graphs[graph]), node
    rest = ctypes.byref(_edge(data)), proc.size(1), _MODES[world.mode]
    return proc.call("cuStreamBeginCaptureToGraph", NEW, *held, *rest), None


_FUNCTIONS = (
    edges_told, edges_old, waits_told, followers_told, info_told, add_after, edge_with,
    edge_remove_with, dependencies_with, begin_to_with,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
