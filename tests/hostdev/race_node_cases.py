"""Works without an order, in the check build: test_check_races_nodes.py starts it.

But for the first two, every call returns after its work is done (blocking mode), so that what
races never overlaps here: it has to be found all the same.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph.driver import open_device
from lowgraph.hostdev import check, control
from tests.hostdev.driver.kit import NON_BLOCKING, SOURCE, Kit, must, pointer

COUNT = 300
BYTES = 4 * COUNT


class World:
    """Vectors a, b, c of COUNT floats, streams and events."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.a, self.b, self.c = (kit.put([1.0] * COUNT) for _ in range(3))
        self.first, self.second, self.third = (kit.stream(NON_BLOCKING) for _ in range(3))
        must(cu.cuCtxSynchronize())

    def scale(self, y: int, x: int, stream: Any) -> None:
        """y = 2 x."""
        assert self.kit.scale(y, x, 2.0, COUNT, stream) == 0

    def add_up(self, total: int, stream: Any) -> None:
        """total[0] += the sum of a, by atomics."""
        values = pointer(total), pointer(self.a), ctypes.c_int(COUNT)
        assert self.kit.launch("add_up", *values, grid=3, block=128, stream=stream) == 0

    def order(self, before: Any, after: Any) -> None:
        """Let a stream wait for what was issued to another one so far."""
        event = self.kit.event()
        must(cu.cuEventRecord(event, before))
        must(cu.cuStreamWaitEvent(after, event, 0))

    def launch_captured(self, body: Callable[[], None], times: int = 1) -> None:
        """Launch what `body` captures on the first stream."""
        must(cu.cuStreamBeginCapture(self.first, cu.CUstreamCaptureMode(2)))
        body()
        graph = must(cu.cuStreamEndCapture(self.first))
        executable = must(cu.cuGraphInstantiate(graph, 0))
        for _ in range(times):
            must(cu.cuGraphLaunch(executable, self.first))
        must(cu.cuCtxSynchronize())
        must(cu.cuGraphExecDestroy(executable))
        must(cu.cuGraphDestroy(graph))


def forks(world: World, ordered: bool) -> None:
    """A side stream of a capture writes b, the main one reads it."""

    def body() -> None:
        world.order(world.first, world.second)
        world.scale(world.b, world.a, world.second)
        if ordered:
            world.order(world.second, world.first)
        world.scale(world.c, world.b, world.first)
        world.order(world.second, world.first)

    world.launch_captured(body, times=3)


def both_write(world: World, ordered: bool) -> None:
    """Two forks write parts of b; unless ordered, one element is of both."""

    def body() -> None:
        world.order(world.first, world.second)
        half = COUNT // 2
        reach = half if ordered else half + 1
        assert world.kit.scale(world.b, world.a, 2.0, reach, world.first) == 0
        assert world.kit.scale(world.b + 4 * half, world.a, 2.0, half, world.second) == 0
        world.order(world.second, world.first)

    world.launch_captured(body)


def atomics(world: World, ordered: bool) -> None:
    """Two forks add to one place atomically, which needs no order; unless one of them writes it."""

    def body() -> None:
        world.order(world.first, world.second)
        world.add_up(world.b, world.first)
        if ordered:
            world.add_up(world.b, world.second)
        else:
            world.scale(world.b, world.a, world.second)
        world.order(world.second, world.first)

    world.launch_captured(body, times=2)


def streams(world: World, ordered: bool) -> None:
    """One stream writes b, another reads it."""
    world.scale(world.b, world.a, world.first)
    if ordered:
        world.order(world.first, world.second)
    world.scale(world.c, world.b, world.second)


def streams_through_a_third(world: World, ordered: bool) -> None:
    """The order goes by way of a stream that does nothing itself."""
    world.scale(world.b, world.a, world.first)
    if ordered:
        world.order(world.first, world.third)
    world.order(world.third, world.second)
    world.scale(world.c, world.b, world.second)


def waited_too_early(world: World, ordered: bool) -> None:
    """The event was recorded before the work that matters."""
    event = world.kit.event()
    if not ordered:
        must(cu.cuEventRecord(event, world.first))
    world.scale(world.b, world.a, world.first)
    if ordered:
        must(cu.cuEventRecord(event, world.first))
    must(cu.cuStreamWaitEvent(world.second, event, 0))
    world.scale(world.c, world.b, world.second)


def host_waits(world: World, ordered: bool) -> None:
    """The host waits for the writing stream, or for another one."""
    world.scale(world.b, world.a, world.first)
    must(cu.cuStreamSynchronize(world.first if ordered else world.third))
    world.scale(world.c, world.b, world.second)


def host_asks(world: World, ordered: bool) -> None:
    """The host has been told that an event's work is done, or has not asked."""
    event = world.kit.event()
    world.scale(world.b, world.a, world.first)
    must(cu.cuEventRecord(event, world.first))
    if ordered:
        assert int(cu.cuEventQuery(event)[0]) == 0
    world.scale(world.c, world.b, world.second)


def host_function(world: World, ordered: bool) -> None:
    """A host function tells the host that its stream has come so far; or another stream has."""
    told = threading.Event()
    world.scale(world.b, world.a, world.first)
    assert world.kit.call_host(world.first if ordered else world.third, told.set) == 0
    assert told.wait(60)
    world.scale(world.c, world.b, world.second)


def legacy_stream(world: World, ordered: bool) -> None:
    """The legacy stream waits for blocking streams, destroyed ones too, and for no others."""
    stream = must(cu.cuStreamCreate(0 if ordered else NON_BLOCKING))
    world.scale(world.b, world.a, stream)
    must(cu.cuStreamDestroy(stream))
    world.scale(world.c, world.b, 0)


def second_reader(world: World, ordered: bool) -> None:
    """Two streams read a; the third, which writes it, waits for the later one or for both."""
    world.scale(world.b, world.a, world.first)
    world.scale(world.c, world.a, world.second)
    world.order(world.second, world.third)
    if ordered:
        world.order(world.first, world.third)
    must(cu.cuMemsetD32Async(world.a, 0, COUNT, world.third))


def copies(world: World, ordered: bool) -> None:
    """A copy reads what another stream's copy writes."""
    must(cu.cuMemcpyDtoDAsync(world.b, world.a, BYTES, world.first))
    if ordered:
        world.order(world.first, world.second)
    must(cu.cuMemcpyDtoDAsync(world.c, world.b, BYTES, world.second))


def copy_from_pageable(world: World, ordered: bool) -> None:
    """The call of a synchronous copy from pageable memory returns before the copy has arrived."""
    values = np.ones(COUNT, np.float32)
    must(cu.cuMemcpyHtoD(world.b, values.ctypes.data, BYTES))
    if ordered:
        must(cu.cuStreamSynchronize(0))
    world.scale(world.c, world.b, world.first)


def copy_on_the_device(world: World, ordered: bool) -> None:
    """The host waits for no synchronous copy between addresses of the device."""
    must(cu.cuMemcpyDtoD(world.b, world.a, BYTES))
    world.scale(world.c, world.b, world.kit.stream(0) if ordered else world.first)


def copies_that_are_waited_for(world: World) -> None:
    """Synchronous copies of pinned, registered and managed memory, and to the host: in order."""
    memory = int(must(cu.cuMemHostAlloc(BYTES, 0)))
    managed = int(must(cu.cuMemAllocManaged(BYTES, 1)))
    read = np.zeros(COUNT, np.float32)
    ctypes.memset(memory, 0, BYTES)
    # Each is relied on at once: a later wait would order it.
    must(cu.cuMemcpyHtoD(world.b, memory, BYTES))
    world.scale(world.c, world.b, world.first)
    must(cu.cuMemHostRegister(read.ctypes.data, BYTES, 0))
    must(cu.cuMemcpyHtoD(world.a, read.ctypes.data, BYTES))
    must(cu.cuMemsetD32Async(world.a, 0, COUNT, world.third))
    must(cu.cuMemHostUnregister(read.ctypes.data))
    must(cu.cuMemcpyHtoD(managed, read.ctypes.data, BYTES))
    must(cu.cuMemsetD32Async(managed, 0, COUNT, world.second))
    must(cu.cuCtxSynchronize())
    must(cu.cuMemcpyDtoD(world.a, managed, BYTES))
    must(cu.cuMemsetD32Async(world.a, 0, COUNT, world.third))
    must(cu.cuCtxSynchronize())
    must(cu.cuMemcpyDtoH(read.ctypes.data, world.a, BYTES))
    must(cu.cuMemsetD32Async(world.a, 1, COUNT, world.first))
    must(cu.cuCtxSynchronize())
    must(cu.cuMemFreeHost(memory))
    must(cu.cuMemFree(managed))


def pinned(world: World, ordered: bool) -> None:
    """A kernel reads pinned memory that a copy writes."""
    memory = int(must(cu.cuMemHostAlloc(BYTES, 0)))
    must(cu.cuMemcpyDtoHAsync(memory, world.a, BYTES, world.first))
    if ordered:
        world.order(world.first, world.second)
    world.scale(world.c, memory, world.second)
    must(cu.cuMemFreeHost(memory))


def two_graphs(world: World, ordered: bool) -> None:
    """Graphs on two streams: one writes b, the other reads it. Launches of one are in order."""
    executables = []
    for y, x in ((world.b, world.a), (world.c, world.b)):
        must(cu.cuStreamBeginCapture(world.first, cu.CUstreamCaptureMode(2)))
        world.scale(y, x, world.first)
        graph = must(cu.cuStreamEndCapture(world.first))
        executables.append(must(cu.cuGraphInstantiate(graph, 0)))
    writer, reader = executables
    must(cu.cuGraphLaunch(writer, world.third))
    must(cu.cuGraphLaunch(writer, world.first))
    if ordered:
        world.order(world.first, world.second)
    must(cu.cuGraphLaunch(reader, world.second))


def child_graphs(world: World, ordered: bool) -> None:
    """A child graph writes b; a node of its parent that reads b comes behind it, or beside it."""
    must(cu.cuStreamBeginCapture(world.first, cu.CUstreamCaptureMode(2)))
    world.scale(world.b, world.a, world.first)
    child = must(cu.cuStreamEndCapture(world.first))
    parent = must(cu.cuGraphCreate(0))
    node = must(cu.cuGraphAddChildGraphNode(parent, None, 0, child))
    copy = cu.CUDA_MEMCPY3D()
    device = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcMemoryType = copy.dstMemoryType = device
    copy.srcDevice, copy.dstDevice = world.b, world.c
    copy.WidthInBytes, copy.Height, copy.Depth = BYTES, 1, 1
    behind = [node] if ordered else None
    context = must(cu.cuCtxGetCurrent())
    must(cu.cuGraphAddMemcpyNode(parent, behind, int(ordered), copy, context))
    must(cu.cuGraphLaunch(must(cu.cuGraphInstantiate(parent, 0)), world.third))


def stream_ordered_free(world: World, ordered: bool) -> None:
    """Memory of the first stream's pool is freed there while another stream uses it."""
    memory = int(must(cu.cuMemAllocAsync(BYTES, world.first)))
    world.order(world.first, world.second)
    world.scale(memory, world.a, world.second)
    if ordered:
        world.order(world.second, world.first)
    must(cu.cuMemFreeAsync(memory, world.first))


def late_writer(world: World) -> None:
    """The reader has ended, and the host has waited for it, before the unordered writer begins."""
    go_on = threading.Event()
    assert world.kit.call_host(world.first, lambda: go_on.wait(60)) == 0
    world.scale(world.b, world.a, world.first)
    world.scale(world.c, world.b, world.second)
    must(cu.cuStreamSynchronize(world.second))
    go_on.set()


def without_a_line(world: World) -> None:
    """Memsets and copies on two streams: of the same bytes, and of another vector's."""
    must(cu.cuMemsetD32Async(world.a, 0, COUNT, world.first))
    must(cu.cuMemsetD32Async(world.b, 0, 7, world.first))
    must(cu.cuMemsetD32Async(world.a, 1, COUNT, world.second))
    must(cu.cuMemcpyDtoDAsync(world.b, world.c, 4, world.second))
    must(cu.cuMemcpyDtoDAsync(world.b + 4, world.c, 4, world.second))


def two_memories(world: World) -> None:
    """Two kernels on two streams, each writing what the other reads."""
    for address, name in ((world.a, "first"), (world.b, "second")):
        control.annotate(address, BYTES, control.LIVE, name)
        must(cu.cuMemsetD32(address, 0, COUNT))  # what is named anew counts as unwritten
    must(cu.cuCtxSynchronize())
    world.scale(world.b, world.a, world.first)
    world.scale(world.a, world.b, world.second)


CASES = (
    forks, both_write, atomics, streams, streams_through_a_third, waited_too_early, host_waits,
    host_asks, host_function, legacy_stream, second_reader, copies, copy_from_pageable,
    copy_on_the_device, pinned, two_graphs, child_graphs, stream_ordered_free,
)  # fmt: skip


def run(kit: Kit, case: Callable[[World, bool], None], ordered: bool) -> list[dict[str, Any]]:
    """Run a case; what was found."""
    case(World(kit), ordered)
    must(cu.cuCtxSynchronize())
    found = [finding.as_dict() for finding in check.findings()]
    check.forget()
    assert control.fault_text() == "", (case.__name__, control.fault_text())
    return found


def main() -> None:
    """Print the findings of each case, without and with its order."""
    device = open_device("host")
    kit = Kit(device, device.compile(SOURCE, [], {}))
    results = {
        "overlapping": run(kit, streams, False),
        "late_writer": run(kit, lambda world, _: late_writer(world), False),
    }
    control.set_blocking(True)
    results["without_a_line"] = run(kit, lambda world, _: without_a_line(world), False)
    results["copies_that_are_waited_for"] = run(
        kit, lambda world, _: copies_that_are_waited_for(world), True
    )
    results["two_memories"] = run(kit, lambda world, _: two_memories(world), False)
    for case in CASES:
        for ordered in (False, True):
            results[f"{case.__name__}{'_ordered' * ordered}"] = run(kit, case, ordered)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
