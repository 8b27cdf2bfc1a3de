"""Nodes of graphs: what they hold, and what is set of them in an executable. Handles as integers.

An executable knows its nodes by those of the graph that it was instantiated from; what is set here
counts for later launches, not for those in flight, and leaves that graph as it is.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver

from lowgraph.driver import compat, gate
from lowgraph.driver.graph import KernelParams
from lowgraph.errors import ConfigError

__all__ = [
    "CopyParams",
    "FillParams",
    "add_child",
    "alloc_bytes",
    "child_graph",
    "cooperative_of",
    "copy_params",
    "dependencies",
    "fill_params",
    "is_enabled",
    "set_enabled",
    "set_kernel_params",
]

_COOPERATIVE = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
# CUDA_KERNEL_NODE_PARAMS as cuda.h lays it out: func, gridDim[3], blockDim[3], sharedMemBytes,
# kernelParams. Written as one block: through the bindings' setters it is 9 calls.
_FIELDS = struct.Struct("=Q7I4xQ")
_HOST = driver.CUmemorytype.CU_MEMORYTYPE_HOST


@dataclass(frozen=True)
class FillParams:
    """Parameters of a memset node: `height` rows of `width` elements of `element` bytes.

    pitch: bytes from row to row, 0 where there is one.
    """

    address: int
    value: int
    element: int
    width: int
    height: int
    pitch: int = 0


@dataclass(frozen=True)
class CopyParams:
    """Parameters of a memcpy node: addresses, the kind of memory at each end, and the shape.

    direction: "device to device", "host to device" ... width in bytes. to_pitch, source_pitch:
    bytes from row to row, 0 where there is one.
    """

    to: int
    source: int
    direction: str
    width: int
    height: int
    depth: int
    to_pitch: int = 0
    source_pitch: int = 0


def dependencies(node: int) -> list[int]:
    """Return the nodes it waits for, in the driver's order (cuGraphNodeGetDependencies)."""
    count = int(gate.call(compat.graph_node_get_dependencies, node, 0)[-1])
    found = gate.call(compat.graph_node_get_dependencies, node, count)
    return [int(before) for before in found[0]]


def cooperative_of(node: int) -> bool:
    """Return whether a kernel node is launched cooperatively (cuGraphKernelNodeGetAttribute)."""
    value = gate.call(driver.cuGraphKernelNodeGetAttribute, node, _COOPERATIVE)
    return bool(value.cooperative)


def child_graph(node: int) -> int:
    """Return the graph that a child graph node owns (cuGraphChildGraphNodeGetGraph)."""
    return int(gate.call(driver.cuGraphChildGraphNodeGetGraph, node))


def add_child(graph: int, child: int, after: Sequence[int] = ()) -> int:
    """Add a copy of `child` to a graph as one node behind others (cuGraphAddChildGraphNode)."""
    before = [driver.CUgraphNode(each) for each in after]
    return int(gate.call(driver.cuGraphAddChildGraphNode, graph, before, len(before), child))


def fill_params(node: int) -> FillParams:
    """Return a memset node's parameters (cuGraphMemsetNodeGetParams)."""
    raw = gate.call(driver.cuGraphMemsetNodeGetParams, node)
    rows = int(raw.height)
    pitch = int(raw.pitch) if rows > 1 else 0
    return FillParams(
        int(raw.dst), int(raw.value), int(raw.elementSize), int(raw.width), rows, pitch
    )


def alloc_bytes(node: int) -> int:
    """Return the size of a memory allocation node (cuGraphMemAllocNodeGetParams)."""
    return int(gate.call(driver.cuGraphMemAllocNodeGetParams, node).bytesize)


def copy_params(node: int) -> CopyParams:
    """Return a memcpy node's parameters (cuGraphMemcpyNodeGetParams)."""
    raw = gate.call(driver.cuGraphMemcpyNodeGetParams, node)
    to_host, from_host = raw.dstMemoryType == _HOST, raw.srcMemoryType == _HOST
    names = {True: "host", False: "device"}
    rows = raw.Height > 1 or raw.Depth > 1
    return CopyParams(
        int(raw.dstHost if to_host else raw.dstDevice),
        int(raw.srcHost if from_host else raw.srcDevice),
        f"{names[from_host]} to {names[to_host]}",
        int(raw.WidthInBytes),
        int(raw.Height),
        int(raw.Depth),
        int(raw.dstPitch) if rows else 0,
        int(raw.srcPitch) if rows else 0,
    )


def set_kernel_params(executable: int, node: int, params: KernelParams) -> None:
    """Give a kernel node of an executable other parameters (cuGraphExecKernelNodeSetParams)."""
    pointers, _values = _pointers(params.args)  # both live until the driver has copied them
    raw = driver.CUDA_KERNEL_NODE_PARAMS()
    fields = (ctypes.c_ubyte * _FIELDS.size).from_address(int(raw.getPtr()))
    sizes = (*params.grid, *params.block, params.shared)
    try:
        _FIELDS.pack_into(fields, 0, params.function, *sizes, ctypes.addressof(pointers))
    except struct.error as error:
        raise ConfigError(f"grid, block and shared of a node {sizes}: {error}") from error
    gate.call(driver.cuGraphExecKernelNodeSetParams, executable, node, raw)


def set_enabled(executable: int, node: int, enabled: bool) -> None:
    """Let a kernel, memset or memcpy node of an executable run, or not (cuGraphNodeSetEnabled)."""
    gate.call(driver.cuGraphNodeSetEnabled, executable, node, int(enabled))


def is_enabled(executable: int, node: int) -> bool:
    """Return whether a node of an executable runs (cuGraphNodeGetEnabled)."""
    return bool(gate.call(driver.cuGraphNodeGetEnabled, executable, node))


def _pointers(args: tuple[bytes, ...]) -> tuple[Any, Any]:
    """An array of pointers to the values, and the storage that they point into."""
    # Each as aligned as any type has to be.
    values = ctypes.create_string_buffer(b"".join(value.ljust(_padded(value)) for value in args))
    place, places = ctypes.addressof(values), []
    for value in args:
        places.append(place)
        place += _padded(value)
    return (ctypes.c_void_p * max(len(places), 1))(*places), values


def _padded(value: bytes) -> int:
    return -(-len(value) // 16) * 16
