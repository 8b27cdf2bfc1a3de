"""Verbs that read or set the parameters of one node, of a graph or an executable, kind by kind.

`node_set` sets in a graph, `exec_set` in an executable: `kind` is kernel, memset, memcpy, host,
record, wait or child, and the settings are `key=value`. Each returns (code, extra).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import graph as driver_graph
from tests.traces.verbs_build import (
    copy_params,
    fill_params,
    host_params,
    kernel_params,
    node_at,
)
from tests.traces.verbs_capture import describe
from tests.traces.verbs_work import shaped
from tests.traces.world import World, attempt

Answer = tuple[int, Any]
Options = dict[str, str]
_TYPES = {"record": "event_record", "wait": "wait_event", "child": "graph"}


def _options(settings: tuple[str, ...]) -> Options:
    return dict(setting.split("=", 1) for setting in settings)


def _context() -> Any:
    return attempt(cu.cuCtxGetCurrent)[1]


def kernel_node(world: World, options: Options) -> Any:
    """CUDA_KERNEL_NODE_PARAMS by kernel=, args= and the settings of `shaped`."""
    params = shaped(kernel_params(world, options.get("kernel", "noop")), options)
    if options.get("args") == "swapped":
        params.kernelParams = world.pack_buffers(swapped=True)
    return params


def _fill(world: World, options: Options) -> Any:
    params = fill_params(
        world, options.get("value", "0"), options.get("width", "64"), options.get("element", "1")
    )
    params.height = int(options.get("height", 1))
    params.pitch = int(options.get("pitch", 0))
    if options.get("to") == "1":
        params.dst = world.buffers[1]
    return params


def _copy(world: World, options: Options) -> Any:
    params = copy_params(world, options.get("kind", "dtod"), options.get("width", "64"))
    params.Height = int(options.get("height", 1))
    params.srcPitch = params.dstPitch = int(options.get("pitch", 0))
    return params


_PARAMS: dict[str, Callable[[World, Options], Any]] = {
    "kernel": kernel_node,
    "memset": _fill,
    "memcpy": _copy,
    "host": lambda world, _: host_params(world),
    "record": lambda world, options: world.events[options["event"]],
    "wait": lambda world, options: world.events[options["event"]],
    "child": lambda world, options: world.graphs[options["graph"]],
}
NODE_CALLS = {
    "kernel": cu.cuGraphKernelNodeSetParams,
    "memset": cu.cuGraphMemsetNodeSetParams,
    "memcpy": cu.cuGraphMemcpyNodeSetParams,
    "host": cu.cuGraphHostNodeSetParams,
    "record": cu.cuGraphEventRecordNodeSetEvent,
    "wait": cu.cuGraphEventWaitNodeSetEvent,
}
EXEC_CALLS = {
    "kernel": cu.cuGraphExecKernelNodeSetParams,
    "memset": cu.cuGraphExecMemsetNodeSetParams,
    "memcpy": cu.cuGraphExecMemcpyNodeSetParams,
    "host": cu.cuGraphExecHostNodeSetParams,
    "record": cu.cuGraphExecEventRecordNodeSetEvent,
    "wait": cu.cuGraphExecEventWaitNodeSetEvent,
    "child": cu.cuGraphExecChildGraphNodeSetParams,
}


def _node(world: World, graph: str, place: str, kind: str) -> Any:
    """The node that a name of `add_*` has, or the one of that kind and number."""
    if place in world.nodes:
        return world.nodes[place].node
    return node_at(world, graph, place, _TYPES.get(kind, kind))


def node_set(world: World, kind: str, graph: str, place: str, *settings: str) -> Answer:
    """cuGraph...NodeSetParams or ...SetEvent of the kind, in the graph."""
    params = _PARAMS[kind](world, _options(settings))
    return attempt(NODE_CALLS[kind], _node(world, graph, place, kind), params)[0], None


def exec_set(world: World, kind: str, name: str, graph: str, place: str, *settings: str) -> Answer:
    """cuGraphExec...NodeSetParams or ...SetEvent of the kind, in the executable `name`."""
    params = _PARAMS[kind](world, _options(settings))
    context = (_context(),) if kind in ("memset", "memcpy") else ()
    node = _node(world, graph, place, kind)
    return attempt(EXEC_CALLS[kind], world.execs[name], node, params, *context)[0], None


def _child_node(world: World, graph: str, place: str, inner: str) -> Any:
    child = attempt(cu.cuGraphChildGraphNodeGetGraph, _node(world, graph, place, "child"))[1]
    return cu.CUgraphNode(driver_graph.nodes(int(child))[int(inner)])


def exec_set_inner(
    world: World, name: str, graph: str, place: str, inner: str, *settings: str
) -> Answer:
    """cuGraphExecKernelNodeSetParams of a kernel of a child graph, its `inner`-th node."""
    node = _child_node(world, graph, place, inner)
    params = kernel_node(world, _options(settings))
    return attempt(cu.cuGraphExecKernelNodeSetParams, world.execs[name], node, params)[0], None


def enable_inner(
    world: World, name: str, graph: str, place: str, inner: str, enabled: str
) -> Answer:
    """cuGraphNodeSetEnabled of a node of a child graph."""
    node = _child_node(world, graph, place, inner)
    return attempt(cu.cuGraphNodeSetEnabled, world.execs[name], node, int(enabled))[0], None


def node_set_inner(world: World, graph: str, place: str, inner: str, *settings: str) -> Answer:
    """cuGraphKernelNodeSetParams of a kernel of a child graph."""
    params = kernel_node(world, _options(settings))
    node = _child_node(world, graph, place, inner)
    return attempt(cu.cuGraphKernelNodeSetParams, node, params)[0], None


def child_shape(world: World, graph: str, place: str) -> Answer:
    """cuGraphChildGraphNodeGetGraph; extra: what the child graph holds."""
    node = _node(world, graph, place, "child")
    code, child = attempt(cu.cuGraphChildGraphNodeGetGraph, node)
    return code, describe(child) if code == 0 else None


def _kernel_read(_world: World, value: Any) -> Any:
    grid = [int(value.gridDimX), int(value.gridDimY), int(value.gridDimZ)]
    return [grid, int(value.blockDimX), int(value.sharedMemBytes)]


def _fill_read(world: World, value: Any) -> Any:
    offset = int(value.dst) - int(world.buffers[0])
    shape = [int(value.elementSize), int(value.width), int(value.height)]
    return [offset == 0, int(value.value), *shape]


def _copy_read(_world: World, value: Any) -> Any:
    shape = [int(value.WidthInBytes), int(value.Height), int(value.Depth)]
    return [int(value.srcMemoryType), int(value.dstMemoryType), *shape]


def _event_read(world: World, value: Any) -> Any:
    return next((name for name, event in world.events.items() if int(event) == int(value)), "none")


READ: dict[str, tuple[Callable[..., Any], Callable[[World, Any], Any]]] = {
    "kernel": (cu.cuGraphKernelNodeGetParams, _kernel_read),
    "memset": (cu.cuGraphMemsetNodeGetParams, _fill_read),
    "memcpy": (cu.cuGraphMemcpyNodeGetParams, _copy_read),
    "host": (cu.cuGraphHostNodeGetParams, lambda _, value: int(value.fn) != 0),
    "record": (cu.cuGraphEventRecordNodeGetEvent, _event_read),
    "wait": (cu.cuGraphEventWaitNodeGetEvent, _event_read),
    "mem_alloc": (cu.cuGraphMemAllocNodeGetParams, lambda _, value: int(value.bytesize)),
    "mem_free": (cu.cuGraphMemFreeNodeGetParams, lambda _, value: int(value) != 0),
}


def node_get(world: World, kind: str, graph: str, place: str) -> Answer:
    """cuGraph...NodeGetParams or ...GetEvent; extra: what does not depend on addresses."""
    call, read = READ[kind]
    code, value = attempt(call, _node(world, graph, place, kind))
    return code, read(world, value) if code == 0 else None


_FUNCTIONS = (
    node_set, exec_set, exec_set_inner, enable_inner, node_set_inner, child_shape, node_get,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
