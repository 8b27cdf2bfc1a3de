"""Graphs and executable graphs. Both, and nodes, are handles as integers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

from cuda.bindings import driver

from lowgraph.driver import compat, entry, gate, module, poison

_UPDATE_FAILURE = 910
_NODE_PRIORITY = int(driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
_CLUSTER = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION

# CUgraphExecUpdateResult, in the words of cuda.h.
_UPDATE_REASONS = {
    0: "SUCCESS",
    1: "ERROR",
    2: "TOPOLOGY_CHANGED",
    3: "NODE_TYPE_CHANGED",
    4: "FUNCTION_CHANGED",
    5: "PARAMETERS_CHANGED",
    6: "NOT_SUPPORTED",
    7: "UNSUPPORTED_FUNCTION_CHANGE",
    8: "ATTRIBUTES_CHANGED",
}


@dataclass(frozen=True)
class UpdateResult:
    """What cuGraphExecUpdate answered.

    ok: the executable has the new graph's parameters. code: the CUresult, 0 or 910.
    reason: name of the update result. node: the node it objected to, or None. from_node: where the
    edge comes from that it objected to, or None. Both are nodes of the new graph.
    """

    ok: bool
    code: int
    reason: str
    node: int | None
    from_node: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class KernelParams:
    """Parameters of a kernel node. args: each argument's bytes, in order; shared in bytes."""

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: tuple[bytes, ...]


def instantiate(graph: int) -> int:
    """Make an executable graph (cuGraphInstantiate).

    Its kernels have the priorities of the streams that they were captured in, as they would without
    a graph, and not that of the stream that it is launched into.
    """
    return int(gate.call(driver.cuGraphInstantiate, graph, _NODE_PRIORITY))


def upload(executable: int, stream: int) -> None:
    """Move the executable to the device ahead of its first launch (cuGraphUpload)."""
    gate.call(driver.cuGraphUpload, executable, stream)


def launch(executable: int, stream: int) -> None:
    """Launch all of its nodes once, in order of their edges (cuGraphLaunch)."""
    gate.call(driver.cuGraphLaunch, executable, stream)
    poison.note_replay(executable, stream)


def launcher(executable: int, stream: int) -> Callable[[], None]:
    """Return a function that makes this one launch (cuGraphLaunch), as often as it is called.

    The handles are converted once: from integers the bindings make two objects a launch.
    """
    handles = driver.CUgraphExec(executable), driver.CUstream(stream)
    send, note = gate.repeated(driver.cuGraphLaunch, *handles), poison.note_replay

    def again() -> None:
        send()
        note(executable, stream)

    return again


def update(executable: int, graph: int) -> UpdateResult:
    """Give the executable the parameters of `graph`, of equal topology (cuGraphExecUpdate).

    A refusal is returned, not raised; the executable still launches as before then. The driver
    calls success, and keeps the old size, when only the cluster size differs: compare `cluster_of`.
    """
    info = entry.UpdateInfo()
    args = (executable, graph, ctypes.byref(info))
    code = int(gate.attempt(entry.graph_exec_update, *args)[0])
    if code not in (0, _UPDATE_FAILURE):
        raise gate.failure("cuGraphExecUpdate", args[:2], code, None)
    reason = _UPDATE_REASONS.get(info.result, f"result {info.result}")
    return UpdateResult(code == 0, code, reason, info.error_node, info.error_from_node)


def destroy(graph: int) -> None:
    """Destroy a graph (cuGraphDestroy); executables made from it live on."""
    with gate.teardown_lock:
        gate.call(driver.cuGraphDestroy, graph)


def exec_destroy(executable: int) -> None:
    """Destroy an executable graph (cuGraphExecDestroy); a launch in flight is still done."""
    with gate.teardown_lock:
        gate.call(driver.cuGraphExecDestroy, executable)
        poison.graph_names.pop(executable, None)


def count_nodes(graph: int) -> int:
    """Return the number of nodes (cuGraphGetNodes)."""
    return int(gate.call(driver.cuGraphGetNodes, graph, 0)[1])


def nodes(graph: int, *, first: int = 0) -> list[int]:
    """Return the nodes from number `first` on, in the driver's order (cuGraphGetNodes)."""
    count = count_nodes(graph)
    return [int(node) for node in gate.call(driver.cuGraphGetNodes, graph, count)[0][first:]]


def edges(graph: int) -> list[tuple[int, int]]:
    """Return the edges as (from, to) pairs of nodes (cuGraphGetEdges)."""
    count = int(gate.call(compat.graph_get_edges, graph, 0)[-1])
    found = gate.call(compat.graph_get_edges, graph, count)
    return [(int(a), int(b)) for a, b in zip(found[0], found[1], strict=True)]


def node_type(node: int) -> str:
    """Return "kernel", "memcpy", "memset", "host", "mem_alloc" ... (cuGraphNodeGetType)."""
    kind = gate.call(driver.cuGraphNodeGetType, node)
    return str(kind.name).removeprefix("CU_GRAPH_NODE_TYPE_").lower()


def kernel_params(node: int) -> KernelParams:
    """Return a kernel node's function, sizes and argument bytes (cuGraphKernelNodeGetParams)."""
    raw = gate.call(driver.cuGraphKernelNodeGetParams, node)
    function = int(raw.func)  # at once: handles in returned structs are views of them
    pointers = int(raw.kernelParams or 0)
    return KernelParams(
        function,
        (raw.gridDimX, raw.gridDimY, raw.gridDimZ),
        (raw.blockDimX, raw.blockDimY, raw.blockDimZ),
        int(raw.sharedMemBytes),
        _argument_bytes(function, pointers),
    )


def function_of(node: int) -> int:
    """Return a kernel node's function."""
    return int(gate.call(driver.cuGraphKernelNodeGetParams, node).func)


def cluster_of(node: int) -> tuple[int, int, int]:
    """Return a kernel node's cluster size, (0, 0, 0) if none (cuGraphKernelNodeGetAttribute)."""
    size = gate.call(driver.cuGraphKernelNodeGetAttribute, node, _CLUSTER).clusterDim
    return int(size.x), int(size.y), int(size.z)


def _argument_bytes(function: int, pointers: int) -> tuple[bytes, ...]:
    if not pointers:  # launched with an `extra` buffer, or no arguments
        return ()
    values: list[bytes] = []
    while (place := module.param_info(function, len(values))) is not None:
        address = ctypes.c_void_p.from_address(pointers + 8 * len(values)).value
        values.append(ctypes.string_at(address or 0, place[1]))
    return tuple(values)
