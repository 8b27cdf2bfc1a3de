"""Verbs of graphs built node by node, and of what is set in them. Each returns (code, extra).

A node gets the name that its verb gives it; `place` counts nodes in the driver's order. A name
that is not there raises KeyError, a graph without nodes IndexError: a random sequence notes it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import graph as driver_graph
from tests.traces.verbs_capture import describe
from tests.traces.world import BYTES, NamedNode, World, attempt

Answer = tuple[int, Any]
NO_OPERATION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
# 12.9's plain names are the forms without edge data.
_ADD_EDGES = getattr(cu, "cuGraphAddDependencies_v2", cu.cuGraphAddDependencies)
_REMOVE_EDGES = getattr(cu, "cuGraphRemoveDependencies_v2", cu.cuGraphRemoveDependencies)
_DEVICE = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
_HOST = cu.CUmemorytype.CU_MEMORYTYPE_HOST


def node_at(world: World, graph: str, place: str, kind: str) -> Any:
    """The graph's node of that kind and number, counted round; of any kind for place 3."""
    nodes = driver_graph.nodes(int(world.graphs[graph]))
    alike = [node for node in nodes if driver_graph.node_type(node) == kind]
    among = nodes if place == "3" or not alike else alike
    if not among:
        raise IndexError(f"graph {graph} has no nodes")
    return cu.CUgraphNode(among[int(place) % len(among)])


def _before(world: World, names: tuple[str, ...]) -> tuple[list[Any] | None, int]:
    nodes = [world.nodes[name].node for name in names]
    return nodes or None, len(nodes)


def _add(
    world: World,
    name: str,
    graph: str,
    before: tuple[str, ...],
    call: Callable[..., Any],
    *params: Any,
) -> Answer:
    code, node = attempt(call, world.graphs[graph], *_before(world, before), *params)
    if code == 0:
        world.nodes[name] = NamedNode(node, int(world.graphs[graph]))
    return code, None


def kernel_params(world: World, kernel: str = "noop", grid: int = 1, block: int = 32) -> Any:
    """CUDA_KERNEL_NODE_PARAMS of one of the scenarios' two idle kernels."""
    params = cu.CUDA_KERNEL_NODE_PARAMS()
    params.func = world.functions[kernel]
    params.gridDimX, params.blockDimX = grid, block
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1
    params.kernelParams = world.pack_buffers()
    return params


def fill_params(world: World, value: str = "0", width: str = "64", element: str = "1") -> Any:
    """CUDA_MEMSET_NODE_PARAMS of one row."""
    params = cu.CUDA_MEMSET_NODE_PARAMS()
    params.dst, params.value = world.buffers[0], int(value)
    params.elementSize, params.width, params.height = int(element), int(width), 1
    return params


def copy_params(world: World, kind: str = "dtod", nbytes: str = "64") -> Any:
    """CUDA_MEMCPY3D of one row: dtod, or htod from pinned memory."""
    params = cu.CUDA_MEMCPY3D()
    params.dstMemoryType, params.dstDevice = _DEVICE, world.buffers[1]
    if kind == "dtod":
        params.srcMemoryType, params.srcDevice = _DEVICE, world.buffers[0]
    else:
        params.srcMemoryType, params.srcHost = _HOST, int(world.pinned) + BYTES // 2
    params.WidthInBytes, params.Height, params.Depth = int(nbytes), 1, 1
    return params


def host_params(_world: World) -> Any:
    """CUDA_HOST_NODE_PARAMS of a C function that does nothing."""
    params = cu.CUDA_HOST_NODE_PARAMS()
    params.fn = cu.CUhostFn(ctypes.cast(NO_OPERATION, ctypes.c_void_p).value)
    params.userData = 0
    return params


def graph_create(world: World, name: str) -> Answer:
    """cuGraphCreate."""
    code, graph = attempt(cu.cuGraphCreate, 0)
    if code == 0:
        world.keep_graph(name, graph)
    return code, None


def graph_clone(world: World, graph: str, name: str) -> Answer:
    """cuGraphClone; extra: what the clone holds."""
    code, clone = attempt(cu.cuGraphClone, world.graphs[graph])
    if code == 0:
        world.keep_graph(name, clone)
    return code, describe(clone) if code == 0 else None


def shape(world: World, graph: str) -> Answer:
    """Node types and edges of a graph."""
    return 0, describe(world.graphs[graph])


def add_kernel(world: World, name: str, graph: str, *before: str) -> Answer:
    """cuGraphAddKernelNode."""
    return _add(world, name, graph, before, cu.cuGraphAddKernelNode, kernel_params(world))


def add_fill(world: World, name: str, graph: str, *before: str) -> Answer:
    """cuGraphAddMemsetNode."""
    params = fill_params(world), _context()
    return _add(world, name, graph, before, cu.cuGraphAddMemsetNode, *params)


def add_copy(world: World, name: str, graph: str, *before: str) -> Answer:
    """cuGraphAddMemcpyNode, device to device."""
    params = copy_params(world), _context()
    return _add(world, name, graph, before, cu.cuGraphAddMemcpyNode, *params)


def add_empty(world: World, name: str, graph: str, *before: str) -> Answer:
    """cuGraphAddEmptyNode."""
    return _add(world, name, graph, before, cu.cuGraphAddEmptyNode)


def add_host(world: World, name: str, graph: str, *before: str) -> Answer:
    """cuGraphAddHostNode."""
    return _add(world, name, graph, before, cu.cuGraphAddHostNode, host_params(world))


def add_child(world: World, name: str, graph: str, child: str, *before: str) -> Answer:
    """cuGraphAddChildGraphNode, of a copy of `child`."""
    held = world.graphs[child]
    return _add(world, name, graph, before, cu.cuGraphAddChildGraphNode, held)


def add_record(world: World, name: str, graph: str, event: str, *before: str) -> Answer:
    """cuGraphAddEventRecordNode."""
    held = world.events[event]
    return _add(world, name, graph, before, cu.cuGraphAddEventRecordNode, held)


def add_wait(world: World, name: str, graph: str, event: str, *before: str) -> Answer:
    """cuGraphAddEventWaitNode."""
    held = world.events[event]
    return _add(world, name, graph, before, cu.cuGraphAddEventWaitNode, held)


def add_alloc(world: World, name: str, graph: str, memory: str, *before: str) -> Answer:
    """cuGraphAddMemAllocNode; the address is the graph's."""
    params = cu.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    params.poolProps.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    params.poolProps.location.id = 0
    params.bytesize = 256
    answer = _add(world, name, graph, before, cu.cuGraphAddMemAllocNode, params)
    if answer[0] == 0:
        world.graph_memory[memory] = int(params.dptr)
    return answer


def add_free(world: World, name: str, graph: str, memory: str, *before: str) -> Answer:
    """cuGraphAddMemFreeNode."""
    address = world.graph_memory[memory]
    return _add(world, name, graph, before, cu.cuGraphAddMemFreeNode, address)


def node_destroy(world: World, name: str) -> Answer:
    """cuGraphDestroyNode."""
    return attempt(cu.cuGraphDestroyNode, world.nodes.pop(name).node)[0], None


def edge(world: World, graph: str, first: str, second: str) -> Answer:
    """cuGraphAddDependencies of one edge."""
    ends = [world.nodes[first].node], [world.nodes[second].node]
    return attempt(_ADD_EDGES, world.graphs[graph], *ends, None, 1)[0], None


def edge_remove(world: World, graph: str, first: str, second: str) -> Answer:
    """cuGraphRemoveDependencies of one edge."""
    ends = [world.nodes[first].node], [world.nodes[second].node]
    return attempt(_REMOVE_EDGES, world.graphs[graph], *ends, None, 1)[0], None


def node_kernel(world: World, graph: str, place: str, kernel: str, grid: str) -> Answer:
    """cuGraphKernelNodeSetParams, of the graph: another kernel, another grid."""
    params = kernel_params(world, kernel, int(grid))
    return attempt(cu.cuGraphKernelNodeSetParams, node_at(world, graph, place, "kernel"), params)[
        0
    ], None


def node_fill(world: World, graph: str, place: str, width: str) -> Answer:
    """cuGraphMemsetNodeSetParams, of the graph."""
    params = fill_params(world, "1", width)
    return attempt(cu.cuGraphMemsetNodeSetParams, node_at(world, graph, place, "memset"), params)[
        0
    ], None


def exec_kernel(world: World, name: str, graph: str, place: str, kernel: str, grid: str) -> Answer:
    """cuGraphExecKernelNodeSetParams."""
    params = kernel_params(world, kernel, int(grid))
    node = node_at(world, graph, place, "kernel")
    return attempt(cu.cuGraphExecKernelNodeSetParams, world.execs[name], node, params)[0], None


def exec_fill(world: World, name: str, graph: str, place: str, width: str) -> Answer:
    """cuGraphExecMemsetNodeSetParams."""
    params = fill_params(world, "1", width)
    answer = world.execs[name], node_at(world, graph, place, "memset"), params, _context()
    return attempt(cu.cuGraphExecMemsetNodeSetParams, *answer)[0], None


def exec_copy(world: World, name: str, graph: str, place: str, kind: str, nbytes: str) -> Answer:
    """cuGraphExecMemcpyNodeSetParams."""
    params = copy_params(world, kind, nbytes)
    answer = world.execs[name], node_at(world, graph, place, "memcpy"), params, _context()
    return attempt(cu.cuGraphExecMemcpyNodeSetParams, *answer)[0], None


def exec_host(world: World, name: str, graph: str, place: str) -> Answer:
    """cuGraphExecHostNodeSetParams."""
    answer = world.execs[name], node_at(world, graph, place, "host"), host_params(world)
    return attempt(cu.cuGraphExecHostNodeSetParams, *answer)[0], None


def exec_child(world: World, name: str, graph: str, place: str, child: str) -> Answer:
    """cuGraphExecChildGraphNodeSetParams."""
    answer = world.execs[name], node_at(world, graph, place, "graph"), world.graphs[child]
    return attempt(cu.cuGraphExecChildGraphNodeSetParams, *answer)[0], None


def exec_record(world: World, name: str, graph: str, place: str, event: str) -> Answer:
    """cuGraphExecEventRecordNodeSetEvent."""
    answer = world.execs[name], node_at(world, graph, place, "event_record"), world.events[event]
    return attempt(cu.cuGraphExecEventRecordNodeSetEvent, *answer)[0], None


def exec_wait(world: World, name: str, graph: str, place: str, event: str) -> Answer:
    """cuGraphExecEventWaitNodeSetEvent."""
    answer = world.execs[name], node_at(world, graph, place, "wait_event"), world.events[event]
    return attempt(cu.cuGraphExecEventWaitNodeSetEvent, *answer)[0], None


def _context() -> Any:
    return attempt(cu.cuCtxGetCurrent)[1]


_FUNCTIONS = (
    graph_create, graph_clone, shape, add_kernel, add_fill, add_copy, add_empty, add_host,
    add_child, add_record, add_wait, add_alloc, add_free, node_destroy, edge, edge_remove,
    node_kernel, node_fill, exec_kernel, exec_fill, exec_copy, exec_host, exec_child, exec_record,
    exec_wait,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
