"""A device and an upstream for the pool that keep lists instead of memory."""

from __future__ import annotations

from typing import Any

from lowgraph.errors import OutOfMemory
from lowgraph.memory import PersistentPool


class FakeDevice:
    """Remembers what the pool told it about slices."""

    def __init__(self, resting_blocks: int = 0) -> None:
        self.notes: list[tuple[int, int, str, str]] = []
        self.resting_blocks = resting_blocks

    def annotate(self, address: int, nbytes: int, state: str, name: str) -> None:
        self.notes.append((address, nbytes, state, name))

    def host_view(self, address: int, nbytes: int) -> memoryview | None:
        return memoryview(bytearray(nbytes))


class FakeUpstream:
    """Hands out rising addresses; OutOfMemory beyond `size` bytes."""

    def __init__(self, size: int = 1 << 40) -> None:
        self.size = size
        self.live: dict[int, int] = {}
        self.allocs = 0
        self._next = 0x7000_0000

    def alloc(self, nbytes: int) -> int:
        if sum(self.live.values()) + nbytes > self.size:
            raise OutOfMemory("cuMemAlloc", str(nbytes), 2, "CUDA_ERROR_OUT_OF_MEMORY", "", nbytes)
        address = self._next
        self._next += nbytes + 4096
        self.live[address] = nbytes
        self.allocs += 1
        return address

    def free(self, address: int) -> None:
        del self.live[address]


def make_pool(
    size: int = 1 << 40, *, resting: int = 0, **options: Any
) -> tuple[PersistentPool, FakeUpstream]:
    upstream, device = FakeUpstream(size), FakeDevice(resting)
    return PersistentPool(device, upstream=upstream, **options), upstream  # type: ignore[arg-type]
