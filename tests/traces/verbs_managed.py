"""Verbs of managed memory, of pools of other kinds, and of many copies in one call. Each returns
(code, extra)."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from tests.traces import proc
from tests.traces.world import World, attempt

Answer = tuple[int, Any]
SIZE = 64
# Kinds of a place: CU_MEM_LOCATION_TYPE_ of the driver, and a number.
_PLACES = {"device": (1, 0), "host": (2, 0), "numa": (3, 0), "current_numa": (4, 0),
           "nowhere": (0, 0), "no_device": (1, 99)}  # fmt: skip
_ADVICE = {"read_mostly": 1, "not_read_mostly": 2, "preferred": 3, "not_preferred": 4,
           "accessed": 5, "not_accessed": 6, "unknown": 99}  # fmt: skip
_RANGE = {"READ_MOSTLY": 1, "PREFERRED_LOCATION": 2, "LAST_PREFETCH_LOCATION": 4}
_ORDERS = {"stream": 1, "call": 2, "any": 3, "none": 0}


class _Place(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("kind", ctypes.c_int), ("number", ctypes.c_int))


class _PoolProps(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("place", _Place),
        ("security", ctypes.c_void_p),
        ("most", ctypes.c_size_t),
        ("usage", ctypes.c_ushort),
        ("rest", ctypes.c_ubyte * 54),
    )


class _CopyAttributes(ctypes.Structure):
    """CUmemcpyAttributes."""

    _fields_ = (
        ("order", ctypes.c_int),
        ("source", _Place),
        ("target", _Place),
        ("flags", ctypes.c_uint),
    )


def managed_alloc(world: World, name: str, flags: str = "1", nbytes: str = "4096") -> Answer:
    """cuMemAllocManaged; 1 is GLOBAL, 2 HOST, 4 SINGLE."""
    code, address = attempt(cu.cuMemAllocManaged, int(nbytes), int(flags))
    if code == 0:
        world.memory[name] = address
    return code, None


def store(world: World, name: str, value: str) -> Answer:
    """Store a byte from the host (no call): into managed or pinned memory."""
    ctypes.c_ubyte.from_address(world.address(name)).value = int(value)
    return 0, None


def look(world: World, name: str) -> Answer:
    """Read a byte from the host (no call): of managed or pinned memory; extra: its value."""
    return 0, ctypes.c_ubyte.from_address(world.address(name)).value


def fetch(world: World, name: str) -> Answer:
    """cuMemcpyDtoH of a byte of memory by its name; extra: its value."""
    seen = ctypes.c_ubyte()
    code, _ = attempt(cu.cuMemcpyDtoH, ctypes.addressof(seen), world.address(name), 1)
    return code, seen.value if code == 0 else None


def prefetch(world: World, name: str, place: str, stream: str, nbytes: str = "64") -> Answer:
    """cuMemPrefetchAsync to a place."""
    held = proc.size(world.address(name)), proc.size(int(nbytes)), _Place(*_PLACES[place])
    code = proc.call("cuMemPrefetchAsync", 12020, *held, 0, proc.pointer(world.stream(stream)))
    return code, None


def prefetch_old(world: World, name: str, device: str, stream: str) -> Answer:
    """cuMemPrefetchAsync as CUDA 8 has it; device -1 is the host."""
    held = proc.size(world.address(name)), proc.size(SIZE), int(device)
    code = proc.call("cuMemPrefetchAsync", 8000, *held, proc.pointer(world.stream(stream)))
    return code, None


def prefetch_batch(world: World, stream: str, place: str, *names: str) -> Answer:
    """cuMemPrefetchBatchAsync of all to one place."""
    count = len(names)
    addresses = (ctypes.c_uint64 * count)(*(world.address(name) for name in names))
    sizes = (ctypes.c_size_t * count)(*[SIZE] * count)
    places, first = (_Place * 1)(_Place(*_PLACES[place])), (ctypes.c_size_t * 1)(0)
    held = addresses, sizes, proc.size(count), places, first, proc.size(1), proc.size(0)
    code = proc.call("cuMemPrefetchBatchAsync", 13000, *held, proc.pointer(world.stream(stream)))
    return code, None


def advise(world: World, name: str, advice: str, place: str = "device") -> Answer:
    """cuMemAdvise."""
    held = proc.size(world.address(name)), proc.size(SIZE), _ADVICE[advice]
    return proc.call("cuMemAdvise", 12020, *held, _Place(*_PLACES[place])), None


def advised(world: World, name: str, attribute: str) -> Answer:
    """cuMemRangeGetAttribute; extra: its number."""
    value = ctypes.c_int(77)
    held = ctypes.byref(value), proc.size(4), _RANGE[attribute], proc.size(world.address(name))
    code = proc.call("cuMemRangeGetAttribute", 8000, *held, proc.size(SIZE))
    return code, value.value if code == 0 else None


def attach(world: World, stream: str, name: str, flags: str, nbytes: str = "0") -> Answer:
    """cuStreamAttachMemAsync; 1 is GLOBAL, 2 HOST, 4 SINGLE."""
    held = proc.pointer(world.stream(stream)), proc.size(world.address(name))
    return proc.call(
        "cuStreamAttachMemAsync", 6000, *held, proc.size(int(nbytes)), int(flags)
    ), None


def memops_set(world: World, name: str, value: str) -> Answer:
    """cuPointerSetAttribute of SYNC_MEMOPS."""
    held = ctypes.c_uint(int(value))
    arguments = ctypes.byref(held), 6, proc.size(world.address(name))
    return proc.call("cuPointerSetAttribute", 6000, *arguments), None


# ---- Pools ----
def pool_make(world: World, name: str, kind: str, place: str, usage: str = "0") -> Answer:
    """cuMemPoolCreate of pinned (1) or managed (2) memory at a place."""
    made = ctypes.c_void_p()
    props = _PoolProps(int(kind), 0, _Place(*_PLACES[place]), usage=int(usage))
    code = proc.call("cuMemPoolCreate", 11020, ctypes.byref(made), ctypes.byref(props))
    if code == 0:
        world.pools[name] = made.value or 0
    return code, None


def pool_end(world: World, name: str) -> Answer:
    """cuMemPoolDestroy."""
    return attempt(cu.cuMemPoolDestroy, cu.CUmemoryPool(world.pools.pop(name)))[0], None


def alloc_from(world: World, pool: str, name: str, stream: str) -> Answer:
    """cuMemAllocFromPoolAsync. An address that a capture gave is the graph's."""
    capturing = any(world.status())
    held = 4096, cu.CUmemoryPool(world.pools[pool]), world.stream(stream)
    code, address = attempt(cu.cuMemAllocFromPoolAsync, *held)
    if code == 0:
        (world.graph_memory if capturing else world.memory)[name] = address
    return code, None


# ---- Many copies ----
def copies(world: World, stream: str, pairs: str, order: str = "stream", sizes: str = "64",
           attributes: str = "1", flags: str = "0") -> Answer:  # fmt: skip
    """cuMemcpyBatchAsync of CUDA 13: `target<source` joined by `,`, all of one size, with so many
    equal attributes; `nothing` has no copies."""
    parts = [] if pairs == "nothing" else [pair.split("<") for pair in pairs.split(",")]
    count, kinds = len(parts), int(attributes)
    targets, sources = ((ctypes.c_uint64 * count)(*(world.address(part[end]) for part in parts))
                        for end in (0, 1))  # fmt: skip
    world.keep.append((targets, sources))
    nbytes = (ctypes.c_size_t * count)(*[int(sizes)] * count)
    one = _CopyAttributes(_ORDERS[order], flags=int(flags))
    told = (_CopyAttributes * kinds)(*[one] * kinds)
    places = (ctypes.c_size_t * kinds)(*range(kinds))
    held = targets, sources, nbytes, proc.size(count), told, places, proc.size(kinds)
    return proc.call("cuMemcpyBatchAsync", 13000, *held, proc.pointer(world.stream(stream))), None


_FUNCTIONS = (
    managed_alloc, store, look, fetch, prefetch, prefetch_old, prefetch_batch, advise, advised,
    attach, memops_set, pool_make, pool_end, alloc_from, copies,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
