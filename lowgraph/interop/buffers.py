"""ForeignBuffer: device memory by raw address, with an owner, a generation and an end."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lowgraph.capture.pinned_memory import ForeignMemory, Life, layout
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

    Raises ConfigError when the driver knows no such device memory, or less of it, and for what is
    no address, shape or dtype.
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
        self.shape, self.dtype = layout(shape, dtype, nbytes, name)
        self._moves = 0
        self._place(address, nbytes, watch)

    @property
    def address(self) -> int:
        """The device address. Raises PoolError once the memory is known to be freed."""
        end = self._life.end
        if not end:
            return self._address
        at = f" at {self._address:#x}" if self._life.freed_at else ""
        raise PoolError(f"{self.name}{at} {end}")

    @property
    def nbytes(self) -> int:
        """Bytes of the memory, of which shape and dtype may use fewer."""
        return self._nbytes

    @property
    def generation(self) -> int:
        """Another number for the same address means other memory."""
        return self._moves

    @property
    def memory(self) -> ForeignMemory:
        """Where it is now, as plain ForeignMemory that keeps the owner: for `debug.Audit`.

        That knows of the end of this generation also once the buffer has moved on.
        """
        told = self.owner, self.shape, self.dtype, self._moves, self.name, self._life
        return ForeignMemory(self._address, self._nbytes, *told)

    def moved(
        self, address: int, nbytes: int | None = None, *, owner: object | None = None
    ) -> None:
        """It is elsewhere now, or was handed out anew; nbytes, owner: if they are others.

        Launches in flight may still read the old place: its owner is kept until they are done.
        Raises ConfigError as the constructor does; nothing has changed then.
        """
        self._place(address, self._nbytes if nbytes is None else nbytes, self._life.watch)
        self.owner = self.owner if owner is None else owner
        self._moves += 1

    def freed(self) -> None:
        """Its owner has freed it: what reads it is refused until `moved`, and audits name it."""
        self._life.freed_at = requester()

    def _place(self, address: int, nbytes: int, watch: bool) -> None:
        layout(self.shape, self.dtype, nbytes, self.name)  # moved() may give other bytes
        if type(address) is not int or not 0 < address < 1 << 64:
            raise ConfigError(f"{self.name}: {address!r} is no device address")
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
        self._address, self._nbytes = address, nbytes
        self._life = Life(address, found.id, watch)

    def __repr__(self) -> str:
        freed_at = self._life.freed_at
        state = f", freed at {freed_at}" if freed_at else ""
        return (
            f"ForeignBuffer({self.name!r}, {self.dtype.name} {list(self.shape)}, "
            f"{self._nbytes} bytes at {self._address:#x}, generation {self._moves}{state})"
        )
