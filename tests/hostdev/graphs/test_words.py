"""Memory operations of streams and graphs: what conformance does not ask, with real waits."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cuda.bindings import driver as cu

from tests.hostdev.graphs.kit import answer_of, must
from tests.support.rig import Rig

STREAMS = 9  # more waits at once than the device has executor threads
SECONDS = 20
GEQ, EQ = 0, 1
WAIT, WRITE = 1, 2
TOLD = 5  # what every wait here waits for


class Words:
    """Words of pinned memory that begin as 0, and streams."""

    def __init__(self) -> None:
        self.start = int(must(cu.cuMemHostAlloc(4096, 0)))
        ctypes.memset(self.start, 0, 4096)
        self.streams = [must(cu.cuStreamCreate(1)) for _ in range(STREAMS + 1)]

    def at(self, place: int) -> int:
        return self.start + 8 * place

    def value(self, place: int) -> int:
        return ctypes.c_uint32.from_address(self.at(place)).value

    def store(self, place: int, value: int) -> None:
        ctypes.c_uint32.from_address(self.at(place)).value = value

    def is_done(self, stream: cu.CUstream) -> bool:
        """Whether the stream gets done in time; lets go of every wait where it does not."""
        end = time.monotonic() + SECONDS
        while answer_of(cu.cuStreamQuery(stream)) != 0:
            if time.monotonic() > end:
                for place in range(512):
                    self.store(place, TOLD)
                return False
            time.sleep(0.001)
        return True

    def close(self) -> None:
        must(cu.cuCtxSynchronize())
        for stream in self.streams:
            must(cu.cuStreamDestroy(stream))
        must(cu.cuMemFreeHost(self.start))


@pytest.fixture
def words(device: object) -> Iterator[Words]:
    made = Words()
    yield made
    made.close()


# On a GPU streams share some tens of channels, and a wait holds up all of its channel.
@pytest.mark.host
def test_waits_leave_room_for_what_they_wait_for(words: Words) -> None:
    """A chain: each stream waits for the word that the next one writes, the last for nothing."""
    *waiting, last = words.streams
    for place, stream in enumerate(waiting):
        must(cu.cuStreamWaitValue32(stream, words.at(place + 1), TOLD, EQ))
        must(cu.cuStreamWriteValue32(stream, words.at(place), TOLD, 0))
    assert [answer_of(cu.cuStreamQuery(stream)) for stream in waiting] == [600] * STREAMS
    must(cu.cuStreamWriteValue32(last, words.at(STREAMS), TOLD, 0))
    assert [words.is_done(stream) for stream in words.streams] == [True] * (STREAMS + 1)
    assert [words.value(place) for place in range(STREAMS + 1)] == [TOLD] * (STREAMS + 1)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _address_space() -> int:
    """Bytes that the process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < end:
        time.sleep(0.001)
    return holds()


@pytest.mark.host
def test_threads_that_took_the_places_of_waits_end(words: Words, rig: Rig) -> None:
    """One a wait, and what those that ran kernels had for it serves the next ones."""
    many, kept, block = 40, 12, 72 << 20  # bytes of addresses that a thread's kernels take
    fill, x = rig.library.kernel("fill.cu", "fill"), rig.empty((many, 33))
    streams = [must(cu.cuStreamCreate(1)) for _ in range(many)]
    fill(int(streams[0]), 1000, 128, x.address, 0.0, many * 33)  # starts who helps with kernels
    must(cu.cuCtxSynchronize())
    before, mapped = _threads(), _address_space()
    for turn in range(10):
        for place, stream in enumerate(streams):
            must(cu.cuStreamWaitValue32(stream, words.at(place), turn + 1, EQ))
            fill(int(stream), 1, 32, x.address + place * 132, float(turn), 33)
        assert _until(lambda: _threads() > before + kept), "the waits have threads"
        for place in range(many):
            words.store(place, turn + 1)
        assert all(words.is_done(stream) for stream in streams)
        assert (rig.get(x) == turn).all()
        assert _until(lambda: _threads() <= before + kept)
    assert _address_space() - mapped < (many + kept) * block
    for stream in streams:
        must(cu.cuStreamDestroy(stream))


@pytest.mark.host
def test_graphs_that_wait_leave_room_too(words: Words) -> None:
    executables = []
    for place, stream in enumerate(words.streams[:-1]):
        must(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode(1)))
        must(cu.cuStreamWaitValue32(stream, words.at(place + 1), TOLD, GEQ))
        must(cu.cuStreamWriteValue32(stream, words.at(place), TOLD, 0))
        graph = must(cu.cuStreamEndCapture(stream))
        executables.append(must(cu.cuGraphInstantiate(graph, 0)))
        must(cu.cuGraphDestroy(graph))
        must(cu.cuGraphLaunch(executables[-1], stream))
    words.store(STREAMS, TOLD + 2)
    assert [words.is_done(stream) for stream in words.streams] == [True] * (STREAMS + 1)
    assert [words.value(place) for place in range(STREAMS)] == [TOLD] * STREAMS
    for executable in executables:
        must(cu.cuGraphExecDestroy(executable))


def fork(words: Words, writer_first: bool) -> cu.CUgraphExec:
    """A graph of two branches: one waits for word 0 and writes word 1, one writes word 0."""
    graph = must(cu.cuGraphCreate(0))

    def operations(*found: tuple[int, int, int]) -> cu.CUDA_BATCH_MEM_OP_NODE_PARAMS:
        params = cu.CUDA_BATCH_MEM_OP_NODE_PARAMS()
        rows = []
        for kind, place, value in found:
            row = cu.CUstreamBatchMemOpParams()
            side = row.waitValue if kind == WAIT else row.writeValue
            side.operation = cu.CUstreamBatchMemOpType(kind)
            side.address, side.value, side.flags = words.at(place), value, GEQ
            if kind == WAIT:
                row.waitValue = side
            else:
                row.writeValue = side
            rows.append(row)
        params.ctx, params.count = must(cu.cuCtxGetCurrent()), len(rows)
        params.paramArray, params.flags = rows, 0
        return params

    waiter = operations((WAIT, 0, TOLD), (WRITE, 1, TOLD))
    writer = operations((WRITE, 0, TOLD))
    for params in (writer, waiter) if writer_first else (waiter, writer):
        must(cu.cuGraphAddBatchMemOpNode(graph, None, 0, params))
    made = must(cu.cuGraphInstantiate(graph, 0))
    must(cu.cuGraphDestroy(graph))
    return made


@pytest.mark.parametrize("writer_first", [True, False])
def test_a_wait_lets_the_branch_beside_it_go_first(words: Words, writer_first: bool) -> None:
    executable, stream = fork(words, writer_first), words.streams[0]
    for _ in range(2):
        words.store(0, 0)
        words.store(1, 0)
        must(cu.cuGraphLaunch(executable, stream))
        assert words.is_done(stream)
        assert [words.value(place) for place in range(2)] == [TOLD, TOLD]
    must(cu.cuGraphExecDestroy(executable))


def test_a_word_and_its_neighbours(words: Words) -> None:
    """A write of 32 bits leaves the other half of a double word alone."""
    ctypes.c_uint64.from_address(words.at(0)).value = 2**64 - 1
    must(cu.cuStreamWriteValue32(words.streams[0], words.at(0), 3, 0))
    must(cu.cuStreamSynchronize(words.streams[0]))
    assert ctypes.c_uint64.from_address(words.at(0)).value == (2**64 - 2**32) + 3
    must(cu.cuStreamWriteValue64(words.streams[0], words.at(0), 2**40 + 1, 0))
    must(cu.cuStreamSynchronize(words.streams[0]))
    assert ctypes.c_uint64.from_address(words.at(0)).value == 2**40 + 1


def test_memory_of_a_pool_holds_no_words(words: Words) -> None:
    stream = words.streams[0]
    address = int(must(cu.cuMemAllocAsync(64, stream)))
    assert answer_of(cu.cuStreamWriteValue32(stream, address, 6, 0)) == 1
    assert answer_of(cu.cuStreamWaitValue32(stream, address, 6, EQ)) == 1
    must(cu.cuMemFreeAsync(address, stream))
