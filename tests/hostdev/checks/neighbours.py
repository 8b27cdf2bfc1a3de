"""Memory beside shared memory: run by `python -m lowgraph check` (test_check_neighbours.py).

Prints JSON: for each distance behind the dynamic shared memory the rights of what is mapped there,
and whether a kernel read registered memory right behind the static one as it is.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph import Library, PersistentPool, open_device
from lowgraph.driver import stream as streams
from lowgraph.memory import Slice, download

SOURCE = Path(__file__).with_suffix(".cu")
N, SHARED = 32, 128
DISTANCES = (0, 4096, 65536, 524288, 1044480)
BEHIND_TILE = 8192  # bytes: behind all static shared memory of the image, and within its reach


def rights(address: int) -> str:
    """Of the mapping that the address is in ("r--p"), "" where there is none."""
    for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
        span, word = line.split()[:2]
        start, stop = (int(number, 16) for number in span.split("-"))
        if start <= address < stop:
            return word
    return ""


def read_beside(cases: Cases, static: int) -> bool:
    """Whether a kernel reads registered memory beside its tile as it is.

    Static shared memory is the thread's that runs the launch: only where it is the same one as
    when the address was asked for, the memory lies beside it.
    """
    for _ in range(50):
        beside = static + BEHIND_TILE  # some allocation's in the heap; it is only read
        assert int(cu.cuMemHostRegister(beside, 4 * N, 0)[0]) == 0
        y = cases.launch("copy_clean", cases.y, cases.out, beside)
        same = download(y, cases.stream)[::-1].tobytes() == ctypes.string_at(beside, 4 * N)
        assert int(cu.cuMemHostUnregister(beside)[0]) == 0
        before, static = static, cases.addresses()[1]
        if before == static:
            return same
    raise AssertionError("the launches run on one thread after another")


class Cases:
    """The kernels of neighbours.cu on slices of their own."""

    def __init__(self) -> None:
        self.device = open_device("auto")
        self.library, self.pool = Library(self.device), PersistentPool(self.device)
        self.stream = streams.create()
        self.out, self.y = self.pool.take("out", (2,), np.uint64), self.pool.take("y", (N,))

    def launch(self, name: str, *arguments: Any, shared: int = 0) -> Slice:
        self.library.kernel(SOURCE, name)(self.stream, 1, N, *arguments, shared=shared)
        streams.synchronize(self.stream)
        return self.y

    def addresses(self) -> list[int]:
        """Of the dynamic and the static shared memory of the last launch."""
        return [int(value) for value in download(self.out, self.stream)]


def main() -> None:
    """Print what is there."""
    cases = Cases()
    cases.launch("addresses_clean", cases.out, shared=SHARED)
    dynamic, static = cases.addresses()
    mapped = {distance: rights(dynamic + SHARED + distance) for distance in DISTANCES}
    read = read_beside(cases, static)
    cases.launch("behind", cases.y, BEHIND_TILE)
    print(json.dumps({"mapped": mapped, "read": read}))


if __name__ == "__main__":
    main()
