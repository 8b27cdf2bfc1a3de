"""Verbs of attributes by their numbers (of launches, kernel nodes, streams), of what a pointer
tells in how many bytes, of modules' options, of calls by version. Each returns (code, extra).

An attribute's value is numbers joined by `,`, each of 32 bits from the start; `event:e1` stands for
an event's handle, `buffer` for the address of the first buffer.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from tests.traces import proc
from tests.traces.verbs_build import node_at
from tests.traces.world import World

Answer = tuple[int, Any]
_WINDOW, _EVENTS, _UPDATABLE = 1, (7, 12), 13
_PATTERNS = (0x5A, 0xA5)


class _Value(ctypes.Structure):
    """CUlaunchAttributeValue."""

    _fields_ = (("words", ctypes.c_int * 16),)


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("number", ctypes.c_int), ("rest", ctypes.c_int), ("value", _Value))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("sizes", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def _value(world: World, text: str) -> _Value:
    words: list[int] = []
    for part in text.split(","):
        if part == "buffer" or part.startswith("event:"):
            number = (
                int(world.buffers[0])
                if part == "buffer"
                else int(world.events[part.removeprefix("event:")])
            )
            words += [number & 0xFFFFFFFF, number >> 32]
        else:
            words.append(int(part))
    signed = [ctypes.c_int(word).value for word in words]
    return _Value((ctypes.c_int * 16)(*signed))


def _read(number: int, value: _Value) -> list[int]:
    """Its numbers, without addresses and handles."""
    if number == _UPDATABLE:
        return [value.words[0]]
    first = 2 if number == _WINDOW or number in _EVENTS else 0
    return list(value.words[first : first + 6])


def launch_with(world: World, stream: str, number: str, value: str) -> Answer:
    """cuLaunchKernelEx with one attribute."""
    one = (_Attribute * 1)(_Attribute(int(number), 0, _value(world, value)))
    sizes = (ctypes.c_uint * 7)(1, 1, 1, 32, 1, 1, 0)
    config = _Config(sizes, int(world.stream(stream)), one, 1)
    function, arguments = proc.pointer(world.functions["noop"]), proc.pointer(world.pack_buffers())
    return proc.call(
        "cuLaunchKernelEx", 11060, ctypes.byref(config), function, arguments, None
    ), None


def kernel_attr(world: World, graph: str, place: str, number: str) -> Answer:
    """cuGraphKernelNodeGetAttribute; extra: its numbers."""
    node, value = proc.pointer(node_at(world, graph, place, "kernel")), _Value()
    held = node, int(number), ctypes.byref(value)
    code = proc.call("cuGraphKernelNodeGetAttribute", 11000, *held)
    return code, _read(int(number), value) if code == 0 else None


def kernel_attr_set(world: World, graph: str, place: str, number: str, value: str) -> Answer:
    """cuGraphKernelNodeSetAttribute."""
    node = proc.pointer(node_at(world, graph, place, "kernel"))
    held = node, int(number), ctypes.byref(_value(world, value))
    return proc.call("cuGraphKernelNodeSetAttribute", 11000, *held), None


def kernel_fields(world: World, graph: str, place: str) -> Answer:
    """cuGraphKernelNodeGetParams; extra: which of function, kernel and context it gives."""
    node = node_at(world, graph, place, "kernel")
    storage = (ctypes.c_void_p * 9)()
    code = proc.call("cuGraphKernelNodeGetParams", 12000, proc.pointer(node), storage)
    return code, [bool(storage[n]) for n in (0, 7, 8)] if code == 0 else None


def stream_attr(world: World, stream: str, number: str) -> Answer:
    """cuStreamGetAttribute; extra: its numbers."""
    value = _Value()
    held = proc.pointer(world.stream(stream)), int(number), ctypes.byref(value)
    code = proc.call("cuStreamGetAttribute", 11000, *held)
    return code, _read(int(number), value) if code == 0 else None


def stream_attr_set(world: World, stream: str, number: str, value: str) -> Answer:
    """cuStreamSetAttribute."""
    held = proc.pointer(world.stream(stream)), int(number), ctypes.byref(_value(world, value))
    return proc.call("cuStreamSetAttribute", 11000, *held), None


def pointer_bytes(world: World, attribute: str, name: str) -> Answer:
    """cuPointerGetAttribute, the name as in CU_POINTER_ATTRIBUTE_; extra: how many bytes of its
    place it writes."""
    which = int(getattr(cu.CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{attribute}"))
    code, written = 0, 0
    for pattern in _PATTERNS:
        place = (ctypes.c_ubyte * 32)(*[pattern] * 32)
        held = place, which, proc.size(world.address(name))
        code = proc.call("cuPointerGetAttribute", 4000, *held)
        changed = [n for n in range(32) if place[n] != pattern]
        written = max(written, changed[-1] + 1 if changed else 0)
    return code, written


def pool_of(world: World, name: str) -> Answer:
    """cuPointerGetAttribute of the pool; extra: which."""
    found = ctypes.c_void_p()
    which = int(cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
    held = ctypes.byref(found), which, proc.size(world.address(name))
    code = proc.call("cuPointerGetAttribute", 4000, *held)
    standard = ctypes.c_void_p()
    proc.call("cuDeviceGetDefaultMemPool", 11020, ctypes.byref(standard), 0)
    known = {value: own for own, value in world.pools.items()}
    known |= {standard.value: "standard", None: "none"}
    return code, known.get(found.value, "another") if code == 0 else None


def load_with_options(world: World, name: str) -> Answer:
    """cuModuleLoadDataEx with buffers for its messages and a time; extra: the sizes that come back,
    how much text there is, and whether the time was written."""
    logs = [ctypes.create_string_buffer(256) for _ in range(2)]
    kinds = (ctypes.c_int * 6)(
        3, 4, 5, 6, 2, 12
    )  # log, its size, errors, their size, time, verbose
    values = (ctypes.c_void_p * 6)(ctypes.addressof(logs[0]), 256, ctypes.addressof(logs[1]), 256)
    values[4], values[5] = 0x7FFFFFFF, 1
    made = ctypes.c_void_p()
    held = ctypes.byref(made), world.image, 6, kinds, values
    code = proc.call("cuModuleLoadDataEx", 2010, *held)
    if code == 0:
        world.modules[name] = cu.CUmodule(made.value or 0)
    told = [values[1] or 0, values[3] or 0, *(len(log.value) for log in logs)]
    return code, [*told, (values[4] or 0) & 0xFFFFFFFF != 0x7FFFFFFF]


def call_there(_world: World, name: str, version: str, flags: str = "0") -> Answer:
    """cuGetProcAddress with the answer's kind; extra: whether there is an address, and the kind."""
    found, kind = ctypes.c_void_p(), ctypes.c_int(77)
    held = name.encode(), ctypes.byref(found), int(version), proc.size(int(flags))
    code = proc.call("cuGetProcAddress", 12000, *held, ctypes.byref(kind))
    return code, [bool(found.value), kind.value]


_FUNCTIONS = (
    launch_with, kernel_attr, kernel_attr_set, kernel_fields, stream_attr, stream_attr_set,
    pointer_bytes, pool_of, load_with_options, call_there,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
