"""Slice: a named block of the pool with an address that never moves while it is held."""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowgraph.errors import ConfigError, PoolError
from lowgraph.integers import integer
from lowgraph.memory import sharing

if TYPE_CHECKING:
    from lowgraph.memory.pool import PersistentPool

__all__ = ["Slice", "checked_shape", "register_view"]

_VIEW_PROVIDER = "lowgraph.interop"
_view: Callable[[Slice], Any] | None = None


def checked_shape(name: str, shape: tuple[int, ...] | int) -> tuple[int, ...]:
    """A shape as a tuple of integers, one for a number; PoolError for what is no shape."""
    try:
        given = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        sizes = (-1,) if bool in map(type, given) else tuple(map(operator.index, given))
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise PoolError(f"slice {name!r}: shape {shape!r} must be integers of at least 0")
    return sizes


def _offset(name: str, offset: Any) -> int:
    try:
        return integer(offset, "offset")
    except ConfigError as error:
        raise PoolError(f"part of slice {name!r}: {error}") from None


def register_view(factory: Callable[[Slice], Any]) -> None:
    """Set what makes arrays of slices that the host cannot address (interop does, on import)."""
    global _view
    _view = factory


def _device_view(piece: Slice) -> Any:
    # Loaded by name on first use: this layer stays below interop, and a run that never asks for
    # such a view never imports CuPy.
    if _view is None:
        importlib.import_module(_VIEW_PROVIDER)
    if _view is None:
        raise PoolError(f"no view of {piece!r}: {_VIEW_PROVIDER} registered none")
    return _view(piece)


class Slice:
    """A block of the pool, or a part of one.

    Attributes
    ----------
    id: unique in its pool; a part has the id of its root.
    generation: how many times its address has been handed out, this time included; a freed and
        reused address is a different slice.
    nbytes, shape, dtype, name: size without padding, row-major shape, NumPy dtype, given name.
    owner: label of the graph that holds it, or None.
    stage: the `lowgraph.stage` that it was taken in, "" for none.
    root: the slice that the pool handed out; itself unless this is a part.
    """

    __slots__ = ("_address", "_alive", "_ended_at", "_owner", "_stage", "dtype", "generation", "id",
                 "name", "nbytes", "pool", "root", "shape")  # fmt: skip

    def __init__(
        self,
        address: int,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        pool: PersistentPool | None = None,
        id: int = 0,
        generation: int = 0,
        root: Slice | None = None,
        stage: str = "",
    ) -> None:
        self._address = address
        self._alive = True
        self._ended_at = ""
        self._owner: str | None = None
        self._stage = stage
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.pool = pool
        self.root = self if root is None else root
        self.id = id
        self.generation = generation

    @property
    def address(self) -> int:
        """The device address. Raises PoolError once the slice was given back."""
        if not self.root._alive:
            raise PoolError(
                f"slice {self.name!r} (id {self.id}, generation {self.generation}) was given back; "
                "its address may belong to another slice now. What a step's body takes lives until "
                "that pass ends: take it again in every pass, or once outside the body"
            )
        return self._address

    @property
    def alive(self) -> bool:
        """Whether it has not been given back."""
        return self.root._alive

    @property
    def ended_at(self) -> str:
        """file:line that gave it back outside of a pass; "" where it lives or a pass ended it."""
        return self.root._ended_at

    @property
    def owner(self) -> str | None:
        """Label of the graph that took it, or None."""
        return self.root._owner

    @property
    def stage(self) -> str:
        """See the class."""
        return self.root._stage

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def array(self) -> Any:
        """An array over the same memory: NumPy on the host device, CuPy on a GPU; no copy.

        Nothing waits: synchronise the stream that writes the slice before looking at it.
        """
        if self.pool is None:
            raise PoolError(f"slice {self.name!r} belongs to no pool, so no device can show it")
        memory = self.pool.device.host_view(self.address, self.nbytes)
        if memory is None:
            return _device_view(self)
        return np.frombuffer(memory, dtype=self.dtype, count=self.elements).reshape(self.shape)

    def __dlpack_device__(self) -> tuple[int, int]:
        return sharing.dlpack_device(self)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        # No stream is known to write the slice, so the consumer's has nothing to wait for:
        # interop.ordered(slice, stream) names one.
        return sharing.dlpack_capsule(self, max_version, dl_device, copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return sharing.array_interface(self)

    def part(self, offset: int, shape: tuple[int, ...], name: str | None = None) -> Slice:
        """Elements `offset` to `offset + prod(shape)` under a shape of their own; same lifetime.

        Raises PoolError when they do not lie inside this slice, or `offset` is no integer.
        """
        sizes = checked_shape(self.name if name is None else name, shape)
        count = math.prod(sizes)
        if type(offset) is not int:  # parts are taken in every pass
            offset = _offset(self.name, offset)
        if offset < 0 or offset + count > self.elements:
            raise PoolError(
                f"elements {offset} to {offset + count} do not lie in {self.name!r}, "
                f"which has {self.elements}"
            )
        return Slice(
            self.address + offset * self.dtype.itemsize,
            self.name if name is None else name,
            sizes,
            self.dtype,
            pool=self.pool,
            id=self.id,
            generation=self.generation,
            root=self.root,
        )

    def viewed(self, dtype: npt.DTypeLike) -> Slice:
        """The same elements' bytes as another dtype of the same size; same lifetime.

        Raises PoolError for a dtype of another size.
        """
        kind = np.dtype(dtype)
        if kind.itemsize != self.dtype.itemsize:
            raise PoolError(
                f"{self.name!r} holds {self.dtype.name}, {self.dtype.itemsize} bytes an element: "
                f"it cannot be viewed as {kind.name}"
            )
        return Slice(
            self.address,
            self.name,
            self.shape,
            kind,
            pool=self.pool,
            id=self.id,
            generation=self.generation,
            root=self.root,
        )

    def __repr__(self) -> str:
        state = "" if self.root._alive else ", given back"
        return (
            f"Slice({self.name!r}, {self.dtype.name} {list(self.shape)}, {self.nbytes} bytes "
            f"at {self._address:#x}, id {self.id}, generation {self.generation}{state})"
        )
