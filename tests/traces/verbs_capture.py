"""Verbs of streams, events, capture and graphs. Each returns (code, extra)."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import compat
from lowgraph.driver import graph as driver_graph
from lowgraph.errors import DriverError
from tests.traces.world import World, attempt

Answer = tuple[int, Any]
AUTO_FREE = cu.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL


def capture_mode(name: str) -> Any:
    """The bindings' capture mode of that name."""
    return getattr(cu.CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{name}")


def begin(world: World, stream: str, mode: str = "") -> Answer:
    """cuStreamBeginCapture in the scenario's mode, or the one given."""
    handle = world.stream(stream)
    return attempt(cu.cuStreamBeginCapture, handle, capture_mode(mode or world.mode))[0], None


def end(world: World, stream: str, name: str = "g") -> Answer:
    """cuStreamEndCapture; extra: node types and edges, in the driver's order."""
    code, graph = attempt(cu.cuStreamEndCapture, world.stream(stream))
    if code or not int(graph):
        return code, None
    world.keep_graph(name, graph)
    return code, describe(graph)


def describe(graph: Any) -> dict[str, Any]:
    """Node types, edges as index pairs, and what kernel nodes carry beyond their function."""
    _, (_, count) = attempt(cu.cuGraphGetNodes, graph, 0)
    if not count:
        return {"types": [], "edges": []}
    nodes = attempt(cu.cuGraphGetNodes, graph, count)[1][0][:count]
    index = {int(node): place for place, node in enumerate(nodes)}
    types = [_type_name(node) for node in nodes]
    edge_count = attempt(compat.graph_get_edges, graph, 0)[1][-1]
    if not edge_count:
        return {"types": types, "edges": []}
    answer = attempt(compat.graph_get_edges, graph, edge_count)[1]
    pairs = zip(answer[0][:edge_count], answer[1][:edge_count], strict=True)
    return {"types": types, "edges": sorted([index[int(a)], index[int(b)]] for a, b in pairs)}


def _type_name(node: Any) -> str:
    code, kind = attempt(cu.cuGraphNodeGetType, node)
    return str(kind.name).replace("CU_GRAPH_NODE_TYPE_", "") if code == 0 else f"code {code}"


def is_capturing(world: World, stream: str) -> Answer:
    """cuStreamIsCapturing; extra: the status."""
    code, status = attempt(cu.cuStreamIsCapturing, world.stream(stream))
    return code, int(status) if code == 0 else None


def capture_info(world: World, stream: str) -> Answer:
    """cuStreamGetCaptureInfo; extra: status, and how many nodes the next one will depend on."""
    code, answer = attempt(compat.stream_get_capture_info, world.stream(stream))
    if code:
        return code, None
    active = int(answer[0]) == 1  # the other fields are meaningless unless active
    return code, {"status": int(answer[0]), "dependencies": int(answer[-1]) if active else None}


def exchange_mode(world: World, mode: str) -> Answer:
    """cuThreadExchangeStreamCaptureMode; extra: the thread's mode before."""
    code, before = attempt(cu.cuThreadExchangeStreamCaptureMode, capture_mode(mode))
    return code, int(before) if code == 0 else None


def sync(world: World, stream: str) -> Answer:
    """cuStreamSynchronize."""
    return attempt(cu.cuStreamSynchronize, world.stream(stream))[0], None


def query(world: World, stream: str) -> Answer:
    """cuStreamQuery."""
    return attempt(cu.cuStreamQuery, world.stream(stream))[0], None


def ctx_sync(world: World) -> Answer:
    """cuCtxSynchronize."""
    return attempt(cu.cuCtxSynchronize)[0], None


def stream_create(world: World, name: str) -> Answer:
    """cuStreamCreate, non-blocking."""
    code, handle = attempt(cu.cuStreamCreate, 1)
    if code == 0:
        world.streams[name] = handle
    return code, None


def stream_ranked(world: World, name: str, priority: str) -> Answer:
    """cuStreamCreateWithPriority, non-blocking."""
    code, handle = attempt(cu.cuStreamCreateWithPriority, 1, int(priority))
    if code == 0:
        world.streams[name] = handle
    return code, None


def stream_destroy(world: World, name: str) -> Answer:
    """cuStreamDestroy."""
    return attempt(cu.cuStreamDestroy, world.streams.pop(name))[0], None


def event_create(world: World, name: str) -> Answer:
    """cuEventCreate without timing."""
    code, handle = attempt(cu.cuEventCreate, 2)
    if code == 0:
        world.events[name] = handle
    return code, None


def event_destroy(world: World, name: str) -> Answer:
    """cuEventDestroy."""
    return attempt(cu.cuEventDestroy, world.events.pop(name))[0], None


def record(world: World, event: str, stream: str) -> Answer:
    """cuEventRecord."""
    return attempt(cu.cuEventRecord, world.events[event], world.stream(stream))[0], None


def record_external(world: World, event: str, stream: str) -> Answer:
    """cuEventRecordWithFlags, EXTERNAL: an event record node."""
    arguments = (world.events[event], world.stream(stream), EXTERNAL)
    return attempt(cu.cuEventRecordWithFlags, *arguments)[0], None


def wait(world: World, stream: str, event: str) -> Answer:
    """cuStreamWaitEvent."""
    return attempt(cu.cuStreamWaitEvent, world.stream(stream), world.events[event], 0)[0], None


def wait_external(world: World, stream: str, event: str) -> Answer:
    """cuStreamWaitEvent, EXTERNAL: an event wait node."""
    arguments = (world.stream(stream), world.events[event], EXTERNAL)
    return attempt(cu.cuStreamWaitEvent, *arguments)[0], None


def event_query(world: World, event: str) -> Answer:
    """cuEventQuery."""
    return attempt(cu.cuEventQuery, world.events[event])[0], None


def event_sync(world: World, event: str) -> Answer:
    """cuEventSynchronize."""
    return attempt(cu.cuEventSynchronize, world.events[event])[0], None


def elapsed(world: World, first: str, second: str) -> Answer:
    """cuEventElapsedTime; the time itself is no part of the answer."""
    return attempt(cu.cuEventElapsedTime, world.events[first], world.events[second])[0], None


def host_function(world: World, stream: str) -> Answer:
    """cuLaunchHostFunc, by its address: the bindings cannot pass a Python function."""
    code, answer = attempt(cu.cuGetProcAddress, b"cuLaunchHostFunc", 10000, 0)
    if code or not int(answer[0]):
        return code or -1, None
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    world.keep.append(callback)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    return kind(int(answer[0]))(int(world.stream(stream)), address, None), None


def instantiate(world: World, graph: str, name: str, flag: str = "") -> Answer:
    """cuGraphInstantiate; flag auto_free is AUTO_FREE_ON_LAUNCH."""
    flags = int(AUTO_FREE) if flag == "auto_free" else 0
    code, handle = attempt(cu.cuGraphInstantiate, world.graphs[graph], flags)
    if code == 0:
        world.execs[name] = handle
    return code, None


def upload(world: World, name: str, stream: str) -> Answer:
    """cuGraphUpload."""
    return attempt(cu.cuGraphUpload, world.execs[name], world.stream(stream))[0], None


def graph_launch(world: World, name: str, stream: str) -> Answer:
    """cuGraphLaunch."""
    return attempt(cu.cuGraphLaunch, world.execs[name], world.stream(stream))[0], None


def update(world: World, name: str, graph: str) -> Answer:
    """cuGraphExecUpdate; extra: the reason, and the error node's place in the new graph."""
    target = int(world.graphs[graph])
    try:
        result = driver_graph.update(int(world.execs[name]), target)
    except DriverError as error:
        return error.code, None
    return result.code, {"reason": result.reason, "node": _place(result.node, target)}


def _place(node: int | None, graph: int) -> int | str | None:
    nodes = driver_graph.nodes(graph)
    return nodes.index(node) if node in nodes else (None if node is None else "elsewhere")


def graph_destroy(world: World, name: str) -> Answer:
    """cuGraphDestroy."""
    graph = world.graphs.pop(name)
    gone = [node for node, named in world.nodes.items() if named.graph == int(graph)]
    for node in gone:  # a driver may crash on one
        del world.nodes[node]
    return attempt(cu.cuGraphDestroy, graph)[0], None


def exec_destroy(world: World, name: str) -> Answer:
    """cuGraphExecDestroy."""
    return attempt(cu.cuGraphExecDestroy, world.execs.pop(name))[0], None


def cluster_attribute(world: World, graph: str, place: str = "0") -> Answer:
    """cuGraphKernelNodeGetAttribute; extra: the cluster's size along x."""
    node = driver_graph.nodes(int(world.graphs[graph]))[int(place)]
    name = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    code, value = attempt(cu.cuGraphKernelNodeGetAttribute, node, name)
    return code, int(value.clusterDim.x) if code == 0 else None


def cluster_seen(world: World) -> Answer:
    """Read back what the kernel cluster_size wrote (no capture may be active)."""
    seen = ctypes.c_int(-1)
    code, _ = attempt(cu.cuMemcpyDtoH, ctypes.addressof(seen), world.buffers[0], 4)
    return code, seen.value if code == 0 else None


_FUNCTIONS = (
    begin, end, is_capturing, capture_info, exchange_mode, sync, query, ctx_sync,
    stream_create, stream_ranked, stream_destroy, event_create, event_destroy, record,
    record_external, wait, wait_external, event_query, event_sync, elapsed, host_function,
    instantiate, upload, graph_launch, update, graph_destroy, exec_destroy, cluster_attribute,
    cluster_seen,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
