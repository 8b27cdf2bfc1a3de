"""ForeignBuffer: device memory by raw address, with an owner, a generation and an end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.driver import memory
from lowgraph.driver.callers import requester
from lowgraph.errors import ConfigError, PoolError

__all__ = ["ForeignBuffer"]


class ForeignBuffer:
    """Memory that another library allocated, as the source of an Input or a pin.

        weights = ForeignBuffer(address, nbytes, owner=lib, shape=(64, 64), dtype="f4", name="w")
        step = GraphStep(body, ..., inputs=[Input("w", weights)])

    Before each replay the step asks it where it is: an Input that has moved or was freed is refused
    before anything is launched, by name (InputMoved); a pin follows a move.

    owner: what keeps the memory valid; kept alive for as long as the device may read it.
    shape, dtype: row-major; by default the bytes.
    watch: ask the driver at each replay whether the address is still the same allocation, so that
        a free nobody told of is seen too, one query (no launch, no wait) a replay; of memory that
        a library hands out of blocks of its own it sees the block only.

    Raises ConfigError when the driver knows no such device memory, or less of it.
    """

    def __init__(
        self,
        address: int,
        nbytes: int,
        owner: object,
        *,
        shape: tuple[int, ...] | None = None,
        dtype: npt.DTypeLike = np.uint8,
        name: str = "foreign memory",
        watch: bool = True,
    ) -> None:
        self.name = name
        self.owner = owner
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shape = (nbytes // self.dtype.itemsize,) if shape is None else tuple(shape)
        self.watch = watch
        self._moves = 0
        self._freed_at = ""
        self._place(address, nbytes)

    @property
    def address(self) -> int:
        """The device address. Raises PoolError once the memory is known to be freed."""
        self._look()
        return self._address

    @property
    def nbytes(self) -> int:
        """Bytes of the memory, of which shape and dtype may use fewer."""
        return self._nbytes

    @property
    def generation(self) -> int:
        """Another number for the same address means other memory."""
        return self._moves

    def moved(
        self, address: int, nbytes: int | None = None, *, owner: object | None = None
    ) -> None:
        """It is elsewhere now, or was handed out anew; nbytes, owner: if they are others.

        Launches in flight may still read the old place: its owner is kept until they are done.
        Raises ConfigError as the constructor does; nothing has changed then.
        """
        self._place(address, self._nbytes if nbytes is None else nbytes)
        self.owner = self.owner if owner is None else owner
        self._moves += 1
        self._freed_at = ""

    def freed(self) -> None:
        """Its owner has freed it: what reads it is refused until `moved`."""
        self._freed_at = requester()

    def _place(self, address: int, nbytes: int) -> None:
        wanted = math.prod(self.shape) * self.dtype.itemsize
        if wanted > nbytes:
            raise ConfigError(
                f"{self.name}: {self.dtype.name} {list(self.shape)} ({wanted} bytes) does not lie "
                f"in {nbytes} bytes at {address:#x}"
            )
        found = memory.allocation(address)
        if found is None or address + nbytes > found.address + found.nbytes:
            known = "none there" if found is None else f"{found.nbytes} from {found.address:#x} on"
            raise ConfigError(
                f"{self.name}: {nbytes} bytes at {address:#x} are no device memory of one "
                f"allocation: the driver knows {known}"
            )
        self._address, self._nbytes, self._allocation = address, nbytes, found.id

    def _look(self) -> None:
        if self._freed_at:
            raise PoolError(f"{self.name} at {self._address:#x} was freed at {self._freed_at}")
        if not self.watch:
            return
        found = memory.allocation(self._address)
        if found is None or found.id != self._allocation:
            other = "is no memory" if found is None else "belongs to another allocation"
            raise PoolError(
                f"{self.name} was freed: {self._address:#x} {other} now; tell of a move by moved()"
            )

    def __repr__(self) -> str:
        state = f", freed at {self._freed_at}" if self._freed_at else ""
        return (
            f"ForeignBuffer({self.name!r}, {self.dtype.name} {list(self.shape)}, "
            f"{self._nbytes} bytes at {self._address:#x}, generation {self._moves}{state})"
        )
