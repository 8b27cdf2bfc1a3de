"""What must not grow: pool, driver memory, handles, and the process itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lowgraph import driver
from lowgraph.memory import PersistentPool
from lowgraph.memory.free_list import Block

# Each handle that a call makes, and the call that ends it.
HANDLES = {
    "cuGraphInstantiate": "cuGraphExecDestroy",
    "cuStreamEndCapture": "cuGraphDestroy",
    "cuEventCreate": "cuEventDestroy",
    "cuStreamCreateWithPriority": "cuStreamDestroy",
    "cuMemAlloc": "cuMemFree",
    "cuMemHostAlloc": "cuMemFreeHost",
    "cuModuleLoadData": "cuModuleUnload",
}

# A GPU's driver takes memory for itself in pages of this size, at times of its own choice.
PAGES = 4 << 20


@dataclass(frozen=True)
class Footprint:
    """Bytes of the pool by what holds them, its free list, and the free bytes of the device.

    exact: whether the last are this process's alone.
    """

    reserved: int
    live: int
    retained: int
    primed: int
    driver_allocs: int
    blocks: tuple[Block, ...]
    device_free: int
    exact: bool

    def assert_same(self, other: Footprint) -> None:
        """Nothing has grown; free device memory to the byte on the host device."""
        assert replace(other, device_free=self.device_free) == self
        assert abs(self.device_free - other.device_free) <= (0 if self.exact else PAGES)

    @staticmethod
    def of(pool: PersistentPool) -> Footprint:
        stats = pool.stats()
        return Footprint(
            stats.reserved, stats.live, stats.retained, stats.primed, stats.driver_allocs,
            pool.free_blocks(), driver.memory.info()[0], pool.device.spec == "host",
        )  # fmt: skip


def handles_left(calls: dict[str, int]) -> dict[str, int]:
    """Handles made and not ended, by the call that makes them, given successful calls by name."""
    left = {made: calls.get(made, 0) - calls.get(ended, 0) for made, ended in HANDLES.items()}
    return {made: count for made, count in left.items() if count}


def resident_bytes() -> int:
    """Of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
