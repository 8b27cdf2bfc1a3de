"""Verbs of whole graphs beyond building: captured into, cloned, attributes, user objects, flags.

Each returns (code, extra).
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import compat
from lowgraph.driver import graph as driver_graph
from tests.traces.verbs_capture import capture_mode
from tests.traces.world import NamedNode, World, attempt

Answer = tuple[int, Any]
# 12.9's plain name is the form without edge data.
_UPDATE = getattr(cu, "cuStreamUpdateCaptureDependencies_v2", cu.cuStreamUpdateCaptureDependencies)
_C = ctypes.CDLL(None)
_C.malloc.restype = ctypes.c_void_p
_C.malloc.argtypes = (ctypes.c_size_t,)


def _named(world: World, names: tuple[str, ...]) -> list[Any]:
    return [world.nodes[name].node for name in names]


def begin_to(world: World, stream: str, graph: str, *names: str) -> Answer:
    """cuStreamBeginCaptureToGraph in the scenario's mode, after the nodes named."""
    nodes = _named(world, names)
    arguments = (world.graphs[graph], nodes or None, None, len(nodes), capture_mode(world.mode))
    return attempt(cu.cuStreamBeginCaptureToGraph, world.stream(stream), *arguments)[0], None


def end_to(world: World, stream: str, graph: str) -> Answer:
    """cuStreamEndCapture of a capture into `graph`; extra: whether it gave that graph back."""
    code, handle = attempt(cu.cuStreamEndCapture, world.stream(stream))
    return code, int(handle) == int(world.graphs[graph]) if code == 0 else None


def tail(world: World, name: str, stream: str) -> Answer:
    """cuStreamGetCaptureInfo; names the first node that the next one will depend on."""
    code, answer = attempt(compat.stream_get_capture_info, world.stream(stream))
    if code or int(answer[0]) != 1 or not int(answer[-1]):
        return code, None
    world.nodes[name] = NamedNode(cu.CUgraphNode(int(answer[3][0])), int(answer[2]))
    return code, int(answer[-1])


def dependencies(world: World, stream: str, how: str, *names: str) -> Answer:
    """cuStreamUpdateCaptureDependencies; how: add or set."""
    nodes = _named(world, names)
    data = (
        () if _UPDATE.__name__.endswith("Dependencies") and compat.BINDINGS_MAJOR < 13 else (None,)
    )
    flags = 1 if how == "set" else 0
    arguments = (nodes or None, *data, len(nodes), flags)
    return attempt(_UPDATE, world.stream(stream), *arguments)[0], None


def find_in_clone(world: World, name: str, clone: str) -> Answer:
    """cuGraphNodeFindInClone; extra: the place of the twin in the clone."""
    graph = world.graphs[clone]
    code, node = attempt(cu.cuGraphNodeFindInClone, world.nodes[name].node, graph)
    return code, driver_graph.nodes(int(graph)).index(int(node)) if code == 0 else None


def roots(world: World, graph: str) -> Answer:
    """cuGraphGetRootNodes; extra: their places."""
    nodes = driver_graph.nodes(int(world.graphs[graph]))
    code, (_, count) = attempt(cu.cuGraphGetRootNodes, world.graphs[graph], 0)
    found = attempt(cu.cuGraphGetRootNodes, world.graphs[graph], count)[1][0] if count else []
    return code, sorted(nodes.index(int(node)) for node in found[:count])


def dependents(world: World, graph: str, name: str) -> Answer:
    """cuGraphNodeGetDependentNodes; extra: how many."""
    code, answer = attempt(cu.cuGraphNodeGetDependentNodes, world.nodes[name].node, 0)
    return code, int(answer[-1]) if code == 0 else None


def exec_flags(world: World, name: str) -> Answer:
    """cuGraphExecGetFlags; extra: the flags."""
    code, flags = attempt(cu.cuGraphExecGetFlags, world.execs[name])
    return code, int(flags) if code == 0 else None


def instantiate_with(world: World, graph: str, name: str, flags: str, stream: str = "s") -> Answer:
    """cuGraphInstantiateWithParams; extra: its result, and whether it names a node."""
    params = cu.CUDA_GRAPH_INSTANTIATE_PARAMS()
    params.flags = int(flags)
    params.hUploadStream = world.stream(stream)
    code, handle = attempt(cu.cuGraphInstantiateWithParams, world.graphs[graph], params)
    if code == 0:
        world.execs[name] = handle
    return code, {"result": int(params.result_out), "node": bool(int(params.hErrNode_out))}


def instantiate_flags(world: World, graph: str, name: str, flags: str) -> Answer:
    """cuGraphInstantiate with these flags, as a number."""
    code, handle = attempt(cu.cuGraphInstantiate, world.graphs[graph], int(flags))
    if code == 0:
        world.execs[name] = handle
    return code, None


def dot(world: World, graph: str, flags: str = "0", path: str = "/dev/null") -> Answer:
    """cuGraphDebugDotPrint, to where nobody reads it."""
    held = world.graphs[graph], path.encode(), int(flags)
    return attempt(cu.cuGraphDebugDotPrint, *held)[0], None


def dot_kernels(world: World, graph: str, flags: str = "0") -> Answer:
    """cuGraphDebugDotPrint; extra: which of the idle kernels its text names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.dot"
        code = dot(world, graph, flags, str(path))[0]
        text = path.read_text() if path.exists() else ""
    return code, [name for name in ("noop", "noop2") if re.search(rf"{name}\b", text)]


def object_create(world: World, name: str, count: str = "1", flags: str = "1") -> Answer:
    """cuUserObjectCreate of a block of C memory, which C's free gives back; 1: NO_DESTRUCTOR_SYNC.

    No Python function: the driver calls the destructor whenever it likes, on a thread of its own.
    """
    destroy = cu.CUhostFn(ctypes.cast(_C.free, ctypes.c_void_p).value)
    code, held = attempt(cu.cuUserObjectCreate, _C.malloc(16), destroy, int(count), int(flags))
    if code == 0:
        world.user_objects[name] = held
    return code, None


def object_retain(world: World, name: str, count: str = "1") -> Answer:
    """cuUserObjectRetain."""
    return attempt(cu.cuUserObjectRetain, world.user_objects[name], int(count))[0], None


def object_release(world: World, name: str, count: str = "1") -> Answer:
    """cuUserObjectRelease."""
    return attempt(cu.cuUserObjectRelease, world.user_objects[name], int(count))[0], None


def graph_retain(world: World, graph: str, name: str, count: str = "1", flag: str = "0") -> Answer:
    """cuGraphRetainUserObject; flag 1: the caller's references move."""
    held = world.graphs[graph], world.user_objects[name], int(count), int(flag)
    return attempt(cu.cuGraphRetainUserObject, *held)[0], None


def graph_release(world: World, graph: str, name: str, count: str = "1") -> Answer:
    """cuGraphReleaseUserObject."""
    held = world.graphs[graph], world.user_objects[name], int(count)
    return attempt(cu.cuGraphReleaseUserObject, *held)[0], None


_FUNCTIONS = (
    begin_to, end_to, tail, dependencies, find_in_clone, roots, dependents, exec_flags,
    instantiate_with, instantiate_flags, dot, dot_kernels, object_create, object_retain,
    object_release, graph_retain, graph_release,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
