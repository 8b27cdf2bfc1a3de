"""What a declared input is: memory of the pool, or foreign memory, described in one way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowgraph import driver
from lowgraph.errors import ConfigError, PoolError
from lowgraph.integers import integer
from lowgraph.memory import Slice
from lowgraph.memory.dlpack import is_dense, read_array

__all__ = ["ForeignMemory", "Life", "Place", "describe", "keeper_of", "layout"]


class Life:
    """Whether memory that was at one place is still there.

    freed_at: file:line that told of its end, "" before. watch: ask the driver, too, whether the
    address is still of the same allocation.
    """

    def __init__(self, address: int, allocation: int, watch: bool) -> None:
        self.freed_at = ""
        self.watch = watch
        self._address = address
        self._allocation = allocation

    @property
    def end(self) -> str:
        """How it ended, for a message; "" while it is not known to have ended."""
        if self.freed_at:
            return f"was freed at {self.freed_at}"
        if not self.watch:
            return ""
        found = driver.memory.allocation(self._address)
        if found is not None and found.id == self._allocation:
            return ""
        other = "is no memory" if found is None else "belongs to another allocation"
        return f"was freed: {self._address:#x} {other} now; tell of a move by moved()"


@dataclass(frozen=True)
class ForeignMemory:
    """Device memory that another library owns, by raw address.

    address, nbytes: in device memory. owner: what keeps it valid; it is kept alive while the device
    may still read the memory. shape, dtype: row-major; by default the bytes.
    generation: raise it when the same address was freed and handed out again.
    life: what tells of its end, where something does (`interop.ForeignBuffer.memory`).
    Raises ConfigError for what is no shape or dtype, and when they do not fit into nbytes.
    """

    address: int
    nbytes: int
    owner: object
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.uint8))
    generation: int = 0
    name: str = "foreign memory"
    life: Life | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        shape, dtype = layout(self.shape, self.dtype, self.nbytes, self.name)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", shape)
        wanted = math.prod(shape) * dtype.itemsize
        if self.address <= 0 or wanted > self.nbytes:
            raise ConfigError(
                f"{self.name}: {dtype.name} {list(self.shape or ())} ({wanted} bytes) does not lie "
                f"in {self.nbytes} bytes at {self.address:#x}"
            )


def layout(
    shape: Any, dtype: npt.DTypeLike, nbytes: int, name: str
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of foreign memory of `nbytes`; without a shape it is as many as lie in it.

    Raises ConfigError for what is no shape, no dtype, or none of fixed bytes, and a size below 0.
    """
    try:
        kind = np.dtype(dtype)
        if kind.hasobject or not kind.itemsize:
            raise TypeError(f"{kind} elements are not bytes of a fixed number")
        size = integer(nbytes, "nbytes")
        sizes = (size // kind.itemsize,) if shape is None else tuple(map(_size, shape))
    except (TypeError, ConfigError) as error:
        raise ConfigError(
            f"{name}: shape {shape!r}, dtype {dtype!r} and {nbytes!r} bytes describe no memory: "
            f"{error}"
        ) from error
    if size < 0 or any(one < 0 for one in sizes):
        raise ConfigError(f"{name}: shape {sizes} and {nbytes} bytes must be at least 0")
    return sizes, kind


def _size(size: Any) -> int:
    return integer(size, "a size")


class Place(NamedTuple):
    """Where an input is at one moment; equal when a graph may go on reading it."""

    address: int
    generation: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.shape)) or "scalar"
        text = f"{self.dtype.name} {sizes} at {self.address:#x}"
        return f"{text} (generation {self.generation})" if self.generation else text


def describe(memory: Any, name: str) -> Place:
    """Where `memory` is: a slice or part, a ForeignMemory, anything with address, shape and dtype,
    or an array with DLPack or `__cuda_array_interface__` (contiguous).

    Raises PoolError for a slice that was given back and an array whose memory was freed,
    ConfigError for what is none of these.
    """
    address = getattr(memory, "address", None)
    if address is not None:
        try:
            generation = getattr(memory, "generation", 0)
            return Place(address, generation, memory.shape, memory.dtype)
        except AttributeError:
            raise ConfigError(
                f"input {name!r}: {type(memory).__name__} has an address but no shape and dtype; "
                "wrap it in ForeignMemory(address, nbytes, owner, shape, dtype)"
            ) from None
    if _is_dlpack(memory):
        return _of_dlpack(memory, name)[0]
    interface = getattr(memory, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(interface, name)
    raise ConfigError(
        f"input {name!r}: {type(memory).__name__} is no device memory; give a slice, an array with "
        "DLPack or __cuda_array_interface__, or ForeignMemory(address, nbytes, owner)"
    )


def keeper_of(memory: Any, place: Place, name: str) -> Slice | ForeignMemory:
    """What to keep alive so that the memory stays where it was found: a slice or ForeignMemory.

    An array may be given other memory meanwhile, so not that is kept but its capsule and storage.
    """
    if isinstance(memory, Slice | ForeignMemory):
        return memory
    told = getattr(memory, "memory", None)
    if isinstance(told, ForeignMemory):
        return told
    if hasattr(memory, "address"):
        owner = getattr(memory, "owner", memory)
        name = getattr(memory, "name", name)
    else:
        owner = _holder_of(memory, name) if _is_dlpack(memory) else memory
    nbytes, generation = place.nbytes, place.generation
    return ForeignMemory(place.address, nbytes, owner, place.shape, place.dtype, generation, name)


def _is_dlpack(memory: Any) -> bool:
    # A NumPy array is the host's on every device; other libraries say what theirs is.
    return hasattr(memory, "__dlpack__") and not isinstance(memory, np.ndarray)


def _holder_of(array: Any, name: str) -> object:
    capsule = _of_dlpack(array, name)[1]
    # PyTorch's capsule holds the tensor, in which `tensor.data = other` replaces the storage.
    storage = getattr(array, "untyped_storage", None)
    return capsule if storage is None else (capsule, storage())


def _of_dlpack(memory: Any, name: str) -> tuple[Place, object]:
    told = f"input {name!r}"
    array = read_array(memory, told)
    device = driver.current()
    if not device.reads(array.place):
        raise ConfigError(
            f"{told} is on DLPack device {array.place}, which kernels on {device.spec} cannot "
            f"read (theirs is {device.dlpack_device}): move it there first"
        )
    if not array.dense:
        raise ConfigError(f"{told} has shape {array.shape} and is strided: make it contiguous")
    if not array.address and 0 not in array.shape:
        raise PoolError(f"{told}: its {type(memory).__name__} has no memory any more, it was freed")
    return Place(array.address, 0, array.shape, array.dtype), array.capsule


def _of_interface(interface: dict[str, Any], name: str) -> Place:
    try:
        address = int(interface["data"][0])
        shape, dtype = layout(tuple(interface["shape"]), interface["typestr"], 0, f"input {name!r}")
        strides = None if interface.get("strides") is None else tuple(interface["strides"])
        dense = strides is None or is_dense(shape, strides, dtype.itemsize)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"input {name!r}: its __cuda_array_interface__ is not as the protocol has it: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not dense:
        raise ConfigError(
            f"input {name!r} has strides {strides}, shape {shape}: make it contiguous"
        )
    return Place(address, 0, shape, dtype)
