"""cuGraphExecUpdate: the recorded reasons; a refused update leaves the executable as it was."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import Device, event, graph, stream
from tests.hostdev.graphs.kit import COUNT, Kit, launches, must

Body = Callable[["Parts"], object]


class Parts(Kit):
    """What the bodies of the table issue."""

    def __init__(self, device: Device, image: bytes) -> None:
        super().__init__(device, image)
        self.x, self.y = self.vector(1.0), self.vector(1.0)
        self.pinned = int(must(cu.cuMemHostAlloc(4 * COUNT, 0)))

    def reset(self) -> None:
        self.x.set(1.0)
        self.y.set(3.0)

    def contents(self) -> tuple[bytes, bytes]:
        """Return the bytes of both vectors, after all work issued so far."""
        must(cu.cuCtxSynchronize())
        read = bytearray(4 * COUNT), bytearray(4 * COUNT)
        for data, vector in zip(read, (self.x, self.y), strict=True):
            must(cu.cuMemcpyDtoH(data, vector.address, len(data)))
        return bytes(read[0]), bytes(read[1])

    def add(self, value: float = 1.0, block: int = 128) -> None:
        self.launch("add", self.x, value, block=block)

    def scale(self) -> None:
        self.launch("scale", self.x, 2.0)

    def fill(self, value: int = 0, count: int = COUNT) -> None:
        must(cu.cuMemsetD32Async(self.x.address, value, count, self.stream))

    def fill_bytes(self) -> None:
        must(cu.cuMemsetD8Async(self.x.address, 0, COUNT, self.stream))

    def copy(self, nbytes: int = 4 * COUNT, back: bool = False) -> None:
        dst, src = (self.y, self.x) if back else (self.x, self.y)
        must(cu.cuMemcpyDtoDAsync(dst.address, src.address, nbytes, self.stream))

    def copy_from_host(self) -> None:
        must(cu.cuMemcpyHtoDAsync(self.x.address, self.pinned, 4 * COUNT, self.stream))

    def allocate(self) -> None:
        must(cu.cuMemAllocAsync(256, self.stream))

    def add_cooperatively(self) -> None:
        pointers, _kept = self.arguments("add", self.x, 1.0)
        function, address = self.functions["add"], ctypes.addressof(pointers)
        must(cu.cuLaunchCooperativeKernel(function, 1, 1, 1, 32, 1, 1, 0, self.stream, address))

    def fork(self) -> None:
        """Four kernels: one, two beside each other, one."""
        forked, joined = event.create(), event.create()
        self.add()
        event.record(forked, self.stream)
        stream.wait_event(self.side, forked)
        self.launch("add", self.y, 1.0, on=self.side)
        self.add()
        event.record(joined, self.side)
        stream.wait_event(self.stream, joined)
        self.add()
        event.destroy(forked)
        event.destroy(joined)

    def close(self) -> None:
        super().close()
        must(cu.cuMemFreeHost(self.pinned))


@pytest.fixture
def parts(device: Device, image: bytes) -> Iterator[Parts]:
    made = Parts(device, image)
    yield made
    made.close()


def chain(*bodies: Body) -> Body:
    return lambda parts: [body(parts) for body in bodies]


THREE = chain(Parts.add, Parts.add, Parts.add)
FOUR = chain(Parts.add, Parts.add, Parts.add, Parts.add)

ACCEPTED: dict[str, tuple[Body, Body]] = {
    "nothing": (THREE, THREE),
    "arguments": (THREE, chain(Parts.add, lambda p: p.add(7.0), Parts.add)),
    "grid and block": (THREE, chain(Parts.add, lambda p: p.add(block=64), Parts.add)),
    "function": (THREE, chain(Parts.add, Parts.scale, Parts.add)),
    "memcpy pointers": (Parts.copy, lambda p: p.copy(back=True)),
    "memcpy size": (Parts.copy, lambda p: p.copy(nbytes=64)),
    "memset value": (Parts.fill, lambda p: p.fill(value=1)),
    "memset size": (Parts.fill, lambda p: p.fill(count=16)),
    "memset width": (Parts.fill, Parts.fill_bytes),
}

# The reason, and the place in the new graph of the node that it names.
REFUSED: dict[str, tuple[Body, Body, str, int | None]] = {
    "one node more": (THREE, FOUR, "TOPOLOGY_CHANGED", None),
    "one node fewer": (FOUR, THREE, "TOPOLOGY_CHANGED", None),
    "empty": (THREE, lambda _: None, "TOPOLOGY_CHANGED", None),
    "other edges": (FOUR, Parts.fork, "TOPOLOGY_CHANGED", 3),
    "kernel to memset": (
        THREE,
        chain(Parts.add, Parts.fill, Parts.add),
        "NODE_TYPE_CHANGED",
        1,
    ),
    "kernel to alloc": (
        THREE,
        chain(Parts.add, Parts.allocate, Parts.add),
        "NODE_TYPE_CHANGED",
        1,
    ),
    "memcpy direction": (Parts.copy, Parts.copy_from_host, "PARAMETERS_CHANGED", 0),
    "normal to cooperative": (Parts.add, Parts.add_cooperatively, "ATTRIBUTES_CHANGED", 0),
    "cooperative to normal": (Parts.add_cooperatively, Parts.add, "ATTRIBUTES_CHANGED", 0),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_change_is_what_runs(parts: Parts, name: str) -> None:
    first, second = ACCEPTED[name]
    executable = parts.executable(parts.capture(lambda: first(parts)))
    changed = parts.capture(lambda: second(parts))
    assert graph.update(executable, changed) == graph.UpdateResult(True, 0, "SUCCESS", None)
    answers = []
    for each in (executable, parts.executable(changed)):
        parts.reset()
        launches(each, parts.stream)
        answers.append(parts.contents())
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why_and_changes_nothing(parts: Parts, name: str) -> None:
    first, second, reason, place = REFUSED[name]
    executable = parts.executable(parts.capture(lambda: first(parts)))
    changed = parts.capture(lambda: second(parts))
    node = None if place is None else graph.nodes(changed)[place]
    assert graph.update(executable, changed) == graph.UpdateResult(False, 910, reason, node)
    parts.reset()
    launches(executable, parts.stream)
    after = parts.contents()
    parts.reset()
    first(parts)
    assert after == parts.contents(), "the old executable still runs what it ran"


def test_a_chain_is_not_a_fork_of_as_many_ends(parts: Parts) -> None:
    """Two ends where the executable has one: the node named is an end of the new graph."""

    def two_chains() -> None:
        forked, joined = event.create(), event.create()
        event.record(forked, parts.stream)
        stream.wait_event(parts.side, forked)
        parts.add()
        parts.launch("add", parts.y, 1.0, on=parts.side)
        event.record(joined, parts.side)
        stream.wait_event(parts.stream, joined)

    executable = parts.executable(parts.capture(lambda: (parts.add(), parts.add())))
    changed = parts.capture(two_chains)
    answer = graph.update(executable, changed)
    assert (answer.ok, answer.reason) == (False, "TOPOLOGY_CHANGED")
    assert answer.node in graph.nodes(changed)
