"""Verbs of reserved addresses and of the memory that is mapped to them. Each returns (code, extra).

Sizes count pieces of 2 MiB, the least that a GPU maps.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cu

from tests.traces.world import World, attempt

Answer = tuple[int, Any]
PIECE = 2 << 20


def _place() -> Any:
    place = cu.CUmemLocation()
    place.type, place.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    return place


def _properties(device: int = 0) -> Any:
    properties = cu.CUmemAllocationProp()
    properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    place = _place()
    place.id = device
    properties.location = place
    return properties


def granularity(_world: World) -> Answer:
    """cuMemGetAllocationGranularity; extra: the least, in bytes."""
    least = cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    code, nbytes = attempt(cu.cuMemGetAllocationGranularity, _properties(), least)
    return code, int(nbytes) if code == 0 else None


def reserve(world: World, name: str, pieces: str = "2", alignment: str = "0") -> Answer:
    """cuMemAddressReserve; a fraction of a piece is refused."""
    nbytes = int(float(pieces) * PIECE)
    code, start = attempt(cu.cuMemAddressReserve, nbytes, int(alignment), 0, 0)
    if code == 0:
        world.ranges[name] = (int(start), nbytes)
    return code, None


def unreserve(world: World, name: str, pieces: str = "") -> Answer:
    """cuMemAddressFree, of all of it unless told."""
    start, nbytes = world.ranges[name]
    code, _ = attempt(cu.cuMemAddressFree, start, int(pieces) * PIECE if pieces else nbytes)
    if code == 0:
        del world.ranges[name]
    return code, None


def physical(world: World, name: str, pieces: str = "2", device: str = "0") -> Answer:
    """cuMemCreate."""
    nbytes = int(float(pieces) * PIECE)
    code, handle = attempt(cu.cuMemCreate, nbytes, _properties(int(device)), 0)
    if code == 0:
        world.physical[name] = int(handle)
    return code, None


def let_physical_go(world: World, name: str) -> Answer:
    """cuMemRelease."""
    return attempt(cu.cuMemRelease, world.physical.pop(name))[0], None


def map_to(world: World, name: str, memory: str, at: str = "0", pieces: str = "2",
           offset: str = "0") -> Answer:  # fmt: skip
    """cuMemMap of memory, from `offset`, to the range from piece `at`."""
    start = world.ranges[name][0] + int(float(at) * PIECE)
    held = int(float(pieces) * PIECE), int(offset) * PIECE, world.physical[memory], 0
    return attempt(cu.cuMemMap, start, *held)[0], None


def unmap(world: World, name: str, at: str = "0", pieces: str = "2") -> Answer:
    """cuMemUnmap."""
    start = world.ranges[name][0] + int(at) * PIECE
    return attempt(cu.cuMemUnmap, start, int(pieces) * PIECE)[0], None


def access(world: World, name: str, how: str = "3", at: str = "0", pieces: str = "2") -> Answer:
    """cuMemSetAccess of the device: 0 none, 1 read, 3 both."""
    wanted = cu.CUmemAccessDesc()
    wanted.location, wanted.flags = _place(), cu.CUmemAccess_flags(int(how))
    start = world.ranges[name][0] + int(at) * PIECE
    return attempt(cu.cuMemSetAccess, start, int(pieces) * PIECE, [wanted], 1)[0], None


def access_of(world: World, name: str) -> Answer:
    """cuMemGetAccess of the device; extra: the flags."""
    code, flags = attempt(cu.cuMemGetAccess, _place(), world.ranges[name][0])
    return code, int(flags) if code == 0 else None


def physical_of(world: World, name: str, memory: str) -> Answer:
    """cuMemRetainAllocationHandle of the range's start; extra: whether it is that memory's."""
    code, handle = attempt(cu.cuMemRetainAllocationHandle, world.ranges[name][0])
    if code:
        return code, None
    attempt(cu.cuMemRelease, int(handle))
    return code, int(handle) == world.physical[memory]


def physical_told(world: World, memory: str) -> Answer:
    """cuMemGetAllocationPropertiesFromHandle; extra: kind of memory, kind and number of place."""
    code, found = attempt(cu.cuMemGetAllocationPropertiesFromHandle, world.physical[memory])
    return code, [int(found.type), int(found.location.type), int(found.location.id)] if (
        code == 0) else None  # fmt: skip


def free_range(world: World, name: str) -> Answer:
    """cuMemFree of a range's start."""
    return attempt(cu.cuMemFree, world.ranges[name][0])[0], None


_FUNCTIONS = (
    granularity, reserve, unreserve, physical, let_physical_go, map_to, unmap, access, access_of,
    physical_of, physical_told, free_range,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
