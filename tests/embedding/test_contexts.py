"""Another context in the process, and several threads: what is one's own stays one's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.capture import GraphStep, Phase
from lowgraph.errors import WrongContext
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, download, upload
from tests.capture.moving import SOURCE
from tests.embedding.small import BLOCKS, N, Small

pytestmark = pytest.mark.both


@contextmanager
def another_context(device: Any) -> Iterator[int]:
    """A context of somebody else's, current in this thread."""
    params = (None, 0) if driver.compat.BINDINGS_MAJOR >= 13 else (0,)
    code, context = cu.cuCtxCreate(*params, cu.CUdevice(device.ordinal))
    assert int(code) == 0
    try:
        yield int(context)
    finally:
        assert int(cu.cuCtxDestroy(context)[0]) == 0
        device.make_current()


MAKES: dict[str, tuple[Callable[[Small], Any], str]] = {
    "pool grows": (lambda small: small.pool.take("big", 99 * N), "cuMemAlloc"),
    "module": (lambda small: small.rig.library.kernel(SOURCE, "busy", {"IN_OTHER": 1}),
               "cuModuleLoadData"),
    "stream": (lambda small: driver.stream.create(), "cuStreamCreateWithPriority"),
    "event": (lambda small: driver.event.create(), "cuEventCreate"),
    "capture": (lambda small: driver.stream.begin_capture(small.stream), "cuStreamBeginCapture"),
}  # fmt: skip


@pytest.mark.parametrize("what", MAKES)
def test_nothing_is_made_in_another_context(small: Small, what: str) -> None:
    make, call = MAKES[what]
    reserved = small.pool.stats().reserved
    with another_context(small.rig.device) as other, small.rig.device.count_calls() as count:
        told = rf"test_contexts.py:\d+: {call} in a thread whose context is {other:#x}, not that of"
        with pytest.raises(WrongContext, match=told) as caught:
            make(small)
        assert not count.calls.get(call, 0), "the driver was not asked"
    assert "call device.make_current()" in str(caught.value)
    assert small.pool.stats().reserved == reserved
    made = make(small)
    if what == "stream":
        driver.stream.destroy(made)
    elif what == "event":
        driver.event.destroy(made)
    elif what == "capture":
        driver.graph.destroy(driver.stream.end_capture(small.stream))


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_pass_in_another_context_is_refused_before_its_body(small: Small, calls: int) -> None:
    ran: list[int] = []

    def body(stream: int) -> None:
        ran.append(stream)
        small.body(stream)

    step = small.step(body, graph=calls != 2)  # cold, primed, and without a graph
    for _ in range(min(calls, 1)):
        step()
    passes = len(ran)
    with another_context(small.rig.device):
        for _ in range(2):
            with pytest.raises(WrongContext, match=r"test_contexts.py:\d+: a pass of 'step' in a"):
                step()
    assert len(ran) == passes
    for _ in range(3):
        step()
    assert step.report().refusals == 0 and small.value() == 2 * (min(calls, 1) + 3)


def test_a_part_in_another_context_is_refused(small: Small) -> None:
    part = small.part()
    with (
        another_context(small.rig.device),
        pytest.raises(WrongContext, match="a pass of 'part' in a"),
    ):
        part.prime(small.stream)


def test_a_step_is_as_it_was_behind_another_context(small: Small) -> None:
    step = small.ready()
    with another_context(small.rig.device):
        pass
    step()
    assert step.phase is Phase.READY and small.value() == 6


class Worker(threading.Thread):
    """Its own pool, library, stream and step: y = y / 2 + x, x being its number."""

    def __init__(self, device: Any, number: int, start: threading.Barrier) -> None:
        super().__init__(name=f"worker {number}")
        self.device, self.number, self.barrier = device, number, start
        self.error: BaseException | None = None
        self.result: np.ndarray | None = None
        self.phase: Phase | None = None
        self.blocks: list[tuple[int, int]] = []

    def run(self) -> None:
        try:
            self.device.make_current()
            self._work()
        except BaseException as error:
            self.error = error

    def _work(self) -> None:
        pool, stream = PersistentPool(self.device), driver.stream.create()
        add = Library(self.device).kernel(SOURCE, "add_twice")
        x, y = pool.take("x", N), pool.take("y", N)
        upload(x, np.full(N, self.number, np.float32), stream)
        upload(y, np.zeros(N, np.float32), stream)

        def body(s: int) -> None:
            sums = pool.take("sums", N)
            driver.memory.memset_d8_async(sums.address, 0, sums.nbytes, s)
            add(s, BLOCKS, 128, sums, x, N)
            add(s, BLOCKS, 128, y, sums, N)

        self.barrier.wait(30)
        with GraphStep(body, device=self.device, pool=pool, stream=stream, label=self.name) as step:
            for _ in range(50):
                step()
            self.result, self.phase = download(y, stream), step.phase
            self.blocks = [(one.address, one.nbytes) for one in step.graph.buffers()]
            self.barrier.wait(30)  # what one gives back before, the other may be handed out
        pool.close()
        driver.stream.destroy(stream)


def test_two_threads_each_with_a_step(device: Any) -> None:
    barrier = threading.Barrier(2)
    workers = [Worker(device, number, barrier) for number in (1, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.error is None, worker.error
        assert worker.phase is Phase.READY and len(worker.blocks) == 3
        np.testing.assert_array_equal(worker.result, np.full(N, 50 * 4 * worker.number, np.float32))
    first, second = ({*range(a, a + n, 256)} for a, n in (w.blocks[0] for w in workers))
    assert not first & second, "two pools, two memories"


def test_the_context_is_not_asked_for_where_no_call_may_be_made(device: Any) -> None:
    """In the driver's own thread, which runs a host function, the look could hang."""
    asked = []
    for shut in (set(), {-99}):
        driver.poison.shut.update(shut)
        try:
            with device.count_calls() as count:
                driver.context.require("anything")
        finally:
            driver.poison.shut.difference_update(shut)
        asked.append("cuCtxGetCurrent" in count.calls)
    assert asked == [True, False]
