"""Whose access a race between works names: test_check_touchers.py starts this in the check build.

A memset of one element races with a kernel that touches many, before it and after it; what is
found has to name the thread and the line that touched that element last.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import open_device
from lowgraph.hostdev import check, control
from tests.hostdev.driver.kit import NON_BLOCKING, Kit, must, pointer

SOURCE = Path(__file__).parent / "kernels" / "touchers.cu"
GRID, BLOCK = (2, 3), (8, 5, 2)
THREADS = BLOCK[0] * BLOCK[1] * BLOCK[2]
TOTAL = GRID[0] * GRID[1] * THREADS
COUNT = 1157  # two turns and a part for each thread; two pages of floats
AT = (0, 1, 7, 31, 33, 79, 80, 257, 479, 480, 481, 1023, 1024, COUNT - 3, COUNT - 2)


@dataclass(frozen=True)
class Case:
    """A kernel of SOURCE: the bytes of its elements, those that a turn touches, and how many turns.

    lines: the texts of the lines that touch them, one for all or one for each element of a turn.
    """

    size: int
    elements: Callable[[int], tuple[int, ...]]
    turns: int
    lines: tuple[str, ...]

    def touched_last(self, element: int) -> tuple[int, str]:
        """The thread, by running the turns in the check build's order, and the line's text."""
        found = None
        for thread in range(TOTAL):
            for turn in range(thread, self.turns, TOTAL):
                if element in self.elements(turn):
                    place = self.elements(turn).index(element)
                    found = thread, self.lines[place % len(self.lines)]
        assert found is not None, element
        return found


def four(turn: int) -> tuple[int, ...]:
    """The elements of a turn of four."""
    return tuple(range(4 * turn, 4 * turn + 4))


CASES = {
    "plain": Case(4, lambda k: (k,), COUNT, ("y[k] = 1.0f;",)),
    "scattered": Case(4, lambda k: (k * 7 % COUNT,), COUNT, ("y[k * 7 % n]",)),
    "backwards": Case(4, lambda k: (COUNT - 1 - k,), COUNT, ("y[n - 1 - k]",)),
    "by_fours": Case(4, four, COUNT // 4, ("y[k] =", "y[k + 1]", "y[k + 2]", "y[k + 3]")),
    "vectors": Case(4, four, COUNT // 4, ("float4*>(y)[k]",)),
    "added": Case(4, lambda k: (k // 2,), 2 * COUNT, ("atomicAdd(&y[k / 2]",)),
    "of_halves": Case(2, lambda k: (k,), COUNT, ("y[k] = 1;",)),
    "of_bytes": Case(1, lambda k: (k,), COUNT, ("y[k] = 1;",)),
    "only_read": Case(4, lambda k: (k,), COUNT, ("sum += y[k]",)),
}


class World:
    """A vector, the kernels, and two streams that nothing orders."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.y = kit.put([1.0] * COUNT)
        self.first, self.second = kit.stream(NON_BLOCKING), kit.stream(NON_BLOCKING)

    def kernel(self, name: str, stream: Any) -> None:
        """Run the kernel over the vector."""
        values = (pointer(self.y), ctypes.c_int(COUNT))
        params = (ctypes.c_void_p * 2)(*[ctypes.addressof(value) for value in values])
        function, grid = self.kit.function(name), (*GRID, 1)
        must(cu.cuLaunchKernel(function, *grid, *BLOCK, 0, stream, ctypes.addressof(params), 0))

    def memset(self, size: int, element: int, stream: Any) -> None:
        """Clear one element."""
        must(cu.cuMemsetD8Async(self.y + size * element, 0, size, stream))


def race(world: World, name: str, element: int, kernel_first: bool) -> list[dict[str, Any]]:
    """What is found of the kernel and a memset of that element, in this order or the other."""
    acts: list[Callable[[], None]] = [
        lambda: world.kernel(name, world.first),
        lambda: world.memset(CASES[name].size, element, world.second),
    ]
    for act in acts if kernel_first else reversed(acts):
        act()
    must(cu.cuCtxSynchronize())
    found = [finding.as_dict() for finding in check.findings()]
    check.forget()
    return found


def main() -> None:
    """Print what each case found, by name, element and order."""
    device = open_device("host")
    world = World(Kit(device, device.compile(SOURCE, [], {})))
    must(cu.cuCtxSynchronize())
    control.set_blocking(True)  # two streams, and which work comes first is to be known
    results = {
        f"{name} {element} {first}": race(world, name, element, first)
        for name in CASES
        for element in AT
        for first in (True, False)
    }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
