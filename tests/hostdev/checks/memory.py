"""Launches every kernel of memory*.cu: run by `python -m lowgraph check` (test_check_memory.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph import Library, PersistentPool, open_device
from lowgraph.driver import memory
from lowgraph.driver import stream as streams
from lowgraph.hostdev.check import RESTING_BLOCKS
from lowgraph.memory import Slice, download, upload

HERE = Path(__file__).parent
SOURCES = ("memory.cu", "memory_names.cu")
N = 32


class Cases:
    """Launches by kernel name; each with slices of its own."""

    def __init__(self) -> None:
        self.device = open_device("auto")
        self.library, self.pool = Library(self.device), PersistentPool(self.device)
        self.stream = streams.create()
        self.source_of = {name: source for source in SOURCES for name in kernel_names(source)}
        self.special: dict[str, Callable[[str], None]] = {
            "past_whole_end": lambda name: self.launch(name, n=64),
            "null_pointer": lambda name: self.launch(name, x=0),
            "atomic_past_end": lambda name: self.launch(name, y=self.ones("y", 4)),
            "freed_slice": self.freed_slice,
            "freed_allocation": self.freed_allocation,
            "unwritten": lambda name: self.launch(name, x=self.pool.take("blank", (N,))),
            "unwritten_sum": lambda name: self.launch(name, y=self.pool.take("blank", (N,))),
            "unwritten_copy": self.unwritten_copy,
            "unwritten_again": self.unwritten_again,
            "written_clean": self.written,
            "host_read": self.host_read,
            "host_write": self.host_write,
            "pinned_clean": self.pinned,
            "tile_then_pinned_clean": self.pinned,
            "tile_then_unwritten": lambda name: self.launch(name, x=self.pool.take("blank", (N,))),
            "no_memory": lambda name: self.launch(name, x=0x123456789000),
            "three_slices": lambda name: self.several(name, "weights", "gradient", "momentum"),
            "two_races": lambda name: self.several(name, "first", "second"),
            "scratch": lambda name: self.launch(name, shared=124),
            "scratch_unwritten": lambda name: self.launch(name, grid=2, shared=128),
        }

    def ones(self, name: str, count: int = N) -> Slice:
        piece = self.pool.take(name, (count,))
        upload(piece, np.ones(count, np.float32), self.stream)
        return piece

    def launch(
        self, name: str, y: Any = None, x: Any = None, n: int = N, grid: int = 1, shared: int = 0
    ) -> Slice:
        y = self.ones("y", n) if y is None else y
        x = self.ones("x", n) if x is None else x
        kernel = self.library.kernel(HERE / self.source_of[name], name)
        kernel(self.stream, grid, 32, y, x, n, shared=shared)
        streams.synchronize(self.stream)
        return y

    def several(self, name: str, *outputs: str) -> None:
        for output in outputs:
            self.launch(name, y=self.ones(output, 30))

    def freed_slice(self, name: str) -> None:
        piece, y = self.ones("gone"), self.ones("y")  # y first: it would get the freed block
        address = piece.address
        self.pool.give_back(piece)
        self.launch(name, y=y, x=address)

    def freed_allocation(self, name: str) -> None:
        address = memory.alloc(1024)
        memory.free(address)
        self.launch(name, y=address)

    def unwritten_copy(self, name: str) -> None:
        source, copied = self.pool.take("source", (N,)), self.pool.take("copied", (N,))
        memory.memset_d8_async(source.address, 0, source.nbytes // 2, self.stream)
        memory.copy_dtod_async(copied.address, source.address, copied.nbytes, self.stream)
        self.launch(name, x=copied)

    def unwritten_again(self, name: str) -> None:
        first, y = self.ones("first"), self.ones("y")
        address = first.address
        self.pool.give_back(first)
        for _ in range(RESTING_BLOCKS):  # until then its block is nobody's
            self.pool.give_back(self.ones("another"))
        again = self.pool.take("again", (N,))
        assert again.address == address
        self.launch(name, y=y, x=again)

    def written(self, name: str) -> None:
        filled, y = self.pool.take("filled", (N,)), self.pool.take("y", (N,))
        memory.memset_d8_async(filled.address, 0, filled.nbytes, self.stream)
        self.launch(name, y=y, x=filled)
        self.launch(name, x=y)

    def host_read(self, name: str) -> None:
        values = np.arange(N, dtype=np.float32)
        y = self.launch(name, x=values.ctypes.data)
        assert np.array_equal(download(y, self.stream), values)  # it goes on where it can

    def host_write(self, name: str) -> None:
        values = np.zeros(N, np.float32)
        self.launch(name, y=values.ctypes.data)
        assert not values.any()

    def pinned(self, name: str) -> None:
        address = memory.host_alloc(4 * N)
        self.launch(name, x=address)
        memory.host_free(address)


def kernel_names(source: str) -> list[str]:
    """All kernels of the file, in its order."""
    lines = (HERE / source).read_text().splitlines()
    mark = 'extern "C" __global__ void '
    return [line.removeprefix(mark).split("(")[0] for line in lines if line.startswith(mark)]


if __name__ == "__main__":
    cases = Cases()
    for kernel_name in cases.source_of:
        cases.special.get(kernel_name, cases.launch)(kernel_name)
