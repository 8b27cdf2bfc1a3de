"""Verbs of callbacks and of attributes, of streams and of kernel nodes. Each returns (code, extra).

Attributes are named as in attribute_values.py.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from tests.traces import attribute_values, proc
from tests.traces.verbs_build import node_at
from tests.traces.world import World, attempt

Answer = tuple[int, Any]


def callback(world: World, stream: str, flags: str = "0") -> Answer:
    """cuStreamAddCallback of a function that does nothing."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    function = kind(lambda _stream, _status, _data: None)
    world.keep.append(function)
    held = proc.pointer(world.stream(stream)), ctypes.cast(function, ctypes.c_void_p), None
    return proc.call("cuStreamAddCallback", 5000, *held, int(flags)), None


def stream_copy_attributes(world: World, target: str, source: str) -> Answer:
    """cuStreamCopyAttributes."""
    ends = world.stream(target), world.stream(source)
    world.altered.add(target)
    return attempt(cu.cuStreamCopyAttributes, *ends)[0], None


def stream_set(world: World, stream: str, name: str, value: str) -> Answer:
    """cuStreamSetAttribute."""
    number, held = attribute_values.kind_of(name)[0], attribute_values.packed(world, name, value)
    handle = proc.pointer(world.stream(stream))
    world.altered.add(stream)
    return proc.call("cuStreamSetAttribute", 11000, handle, number, held), None


def stream_get(world: World, stream: str, name: str) -> Answer:
    """cuStreamGetAttribute; extra: the value."""
    number, held = attribute_values.kind_of(name)[0], (ctypes.c_char * attribute_values.BYTES)()
    handle = proc.pointer(world.stream(stream))
    code = proc.call("cuStreamGetAttribute", 11000, handle, number, held)
    return code, attribute_values.unpacked(world, name, held) if code == 0 else None


def stream_ask(world: World, stream: str, name: str) -> Answer:
    """cuStreamGetAttribute of whatever an earlier scenario left there: the code alone."""
    return stream_get(world, stream, name)[0], None


def window_set(world: World, stream: str, nbytes: str) -> Answer:
    """cuStreamSetAttribute of the access policy window, over the first buffer."""
    return stream_set(world, stream, "window", f"buffer:{nbytes}:1:2:1")


def window_get(world: World, stream: str) -> Answer:
    """cuStreamGetAttribute of the access policy window; extra: its bytes."""
    code, value = stream_get(world, stream, "window")
    return code, value[1] if code == 0 else None


def spin_set(world: World, stream: str, policy: str) -> Answer:
    """cuStreamSetAttribute of how a synchronisation waits."""
    return stream_set(world, stream, "policy", policy)


def attribute_set(world: World, graph: str, place: str, name: str, value: str) -> Answer:
    """cuGraphKernelNodeSetAttribute."""
    number, held = attribute_values.kind_of(name)[0], attribute_values.packed(world, name, value)
    node = proc.pointer(node_at(world, graph, place, "kernel"))
    return proc.call("cuGraphKernelNodeSetAttribute", 11000, node, number, held), None


def attribute_get(world: World, graph: str, place: str, name: str) -> Answer:
    """cuGraphKernelNodeGetAttribute; extra: the value, of a cluster the first of its sizes."""
    number, held = attribute_values.kind_of(name)[0], (ctypes.c_char * attribute_values.BYTES)()
    node = proc.pointer(node_at(world, graph, place, "kernel"))
    code = proc.call("cuGraphKernelNodeGetAttribute", 11000, node, number, held)
    if code:
        return code, None
    value = attribute_values.unpacked(world, name, held)
    return code, value[0] if name == "cluster" and isinstance(value, list) else value


def attributes_copy(world: World, graph: str, source: str, target: str) -> Answer:
    """cuGraphKernelNodeCopyAttributes between two kernels of a graph."""
    to, source_node = (node_at(world, graph, place, "kernel") for place in (target, source))
    return attempt(cu.cuGraphKernelNodeCopyAttributes, to, source_node)[0], None


_FUNCTIONS = (
    callback, stream_copy_attributes, stream_set, stream_get, stream_ask, window_set,
    window_get, spin_set, attribute_set, attribute_get, attributes_copy,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
