"""The orders that the host device runs things in, as JSON: a process of its own for each seed."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph.driver import event, graph, memory, open_device, stream
from lowgraph.hostdev import control
from lowgraph.kernels import Library
from tests.support.rig import Rig

KERNELS = Path(__file__).parent / "kernels" / "order.cu"
THREADS, BLOCKS, BRANCHES, OPS, COPIES = 70, 20, 6, 40, 30


class Orders:
    def __init__(self) -> None:
        device = open_device("host")
        control.set_workers(1)  # or how two blocks overlap is the machine's choice
        self.title = device.title
        self.rig = Rig(device, Library(device))
        self.arrivals, self.stamp, self.sum = (
            self.rig.library.kernel(KERNELS, name)
            for name in ("arrivals", "stamp", "sum_without_barrier")
        )

    def tickets(self, count: int) -> tuple[Any, Any]:
        return self.rig.empty(count, np.int32), self.rig.put(np.zeros(1, np.int32))

    def threads(self) -> list[list[int]]:
        order, counter = self.tickets(3 * THREADS)
        self.arrivals(self.rig.stream, 1, THREADS, order, counter)
        return self.rig.get(order).reshape(3, THREADS).tolist()

    def blocks(self) -> list[int]:
        order, counter = self.tickets(BLOCKS)
        self.stamp(self.rig.stream, BLOCKS, 1, order, counter, 0)
        return self.rig.get(order).tolist()

    def branches(self) -> list[int]:
        """A root (100), BRANCHES branches of a and 10 + a, a join (200): captured."""
        order, counter = self.tickets(2 * BRANCHES + 2)
        main, sides = self.rig.stream, [stream.create() for _ in range(BRANCHES)]
        forked, joined = event.create(), [event.create() for _ in sides]
        stream.begin_capture(main)
        self.stamp(main, 1, 1, order, counter, 100)
        event.record(forked, main)
        for branch, side in enumerate(sides):
            stream.wait_event(side, forked)
            self.stamp(side, 1, 1, order, counter, branch)
            self.stamp(side, 1, 1, order, counter, 10 + branch)
            event.record(joined[branch], side)
        for each in joined:
            stream.wait_event(main, each)
        self.stamp(main, 1, 1, order, counter, 200)
        graph.launch(graph.instantiate(stream.end_capture(main)), main)
        return self.rig.get(order).tolist()

    def children(self) -> list[int]:
        """Two child graphs beside each other: chains of 0 1 2 3 and 10 11 12 13."""
        order, counter = self.tickets(8)
        _, parent = cu.cuGraphCreate(0)
        for chain in (0, 10):
            stream.begin_capture(self.rig.stream)
            for place in range(4):
                self.stamp(self.rig.stream, 1, 1, order, counter, chain + place)
            child = stream.end_capture(self.rig.stream)
            assert int(cu.cuGraphAddChildGraphNode(parent, None, 0, child)[0]) == 0
        graph.launch(graph.instantiate(int(parent)), self.rig.stream)
        return self.rig.get(order).tolist()

    def delayed(self) -> float:
        """Seconds of OPS launches of next to nothing."""
        order, counter = self.tickets(OPS)
        begin = time.perf_counter()
        for _ in range(OPS):
            self.stamp(self.rig.stream, 1, 1, order, counter, 0)
        self.rig.sync()
        return time.perf_counter() - begin

    def wrong_sums(self) -> int:
        """How many of 20 sums come out wrong for want of a barrier."""
        x, wrong = self.rig.put(np.arange(1, 34, dtype=np.int32)), 0
        for _ in range(20):
            y = self.rig.empty(1, np.int32)
            self.sum(self.rig.stream, 1, 33, y, x)
            wrong += int(self.rig.get(y)[0]) != 33 * 34 // 2
        return wrong

    def late_copies(self, waited: bool, busy: int) -> list[int]:
        """How many of COPIES synchronous copies came behind a memset of a non-blocking stream that
        was issued later: from pageable memory, and between addresses of the device. busy: bytes
        that the legacy stream fills before each."""
        filled = self.rig.empty(busy + 1, np.uint8)
        ones, late = np.ones(1, np.int32), [0, 0]
        source, target = self.rig.put(ones), self.rig.empty(1, np.int32)
        copies = (
            lambda: cu.cuMemcpyHtoD(target.address, ones.ctypes.data, 4),
            lambda: cu.cuMemcpyDtoD(target.address, source.address, 4),
        )
        for place in (0, 1) * COPIES:
            memory.memset_d8_async(filled.address, 0, busy, 0)
            assert int(copies[place]()[0]) == 0
            if waited:
                assert int(cu.cuStreamSynchronize(0)[0]) == 0
            memory.memset_d32_async(target.address, 2, 1, self.rig.stream)
            assert int(cu.cuCtxSynchronize()[0]) == 0
            late[place] += int(self.rig.get(target)[0]) == 1
        return late


def main() -> None:
    orders = Orders()
    parts = ("threads", "blocks", "branches", "children", "delayed", "wrong_sums")
    found = {part: getattr(orders, part)() for part in parts}
    json.dump({"title": orders.title, **found}, sys.stdout)


def main_late(busy: int) -> None:
    """Without a wait the copies and the memsets race: in a process that does nothing else."""
    orders = Orders()
    late = [orders.late_copies(waited, busy) for waited in (False, True)]
    control.set_blocking(True)
    json.dump([*late, orders.late_copies(False, busy)], sys.stdout)


if __name__ == "__main__":
    main()
