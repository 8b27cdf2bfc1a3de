"""A part of a body in which another library sends work by itself: told, held, and judged.

The library's calls are here bare driver calls past the gate, as CuPy's are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.capture import Conditional, Phase
from lowgraph.capture.shared_block import SharedBlock
from lowgraph.debug import Audit
from lowgraph.errors import CaptureFailed, CaptureIncomplete, CaptureRefused, SyncDuringCapture
from lowgraph.memory import open_window
from tests.embedding.small import BLOCKS, N, Small
from tests.field_cases.bare import foreign

pytestmark = pytest.mark.both


class Mixed:
    """A body with launches of a library, Lib, between our own."""

    def __init__(self, small: Small, act: Callable[[int], None]) -> None:
        self.small = small
        self.act = act

    def theirs(self, stream: int, y: Any = None, x: Any = None) -> None:
        """y += 2 x by somebody else's launch."""
        add = self.small.add
        add.pack.store(add.pack.values([y or self.small.y, x or self.small.x, N]))
        launched = foreign("cuLaunchKernel", add.handle, BLOCKS, 1, 1, 128, 1, 1, 0, stream,
                           add.pack.address, 0)  # fmt: skip
        assert launched == 0

    def ours(self, stream: int) -> None:
        self.small.add(stream, BLOCKS, 128, self.small.y, self.small.x, N)

    def __call__(self, stream: int) -> None:
        block = SharedBlock("Lib", stream, self.small.pool)
        with block:
            self.act(stream)
        if block.refusal is not None:
            raise open_window.refused(block.refusal)


def mixed(small: Small, act: Callable[[Mixed, int], None]) -> Mixed:
    body = Mixed(small, lambda stream: act(body, stream))
    return body


def test_nodes_between_our_calls_are_the_librarys(small: Small) -> None:
    aside = small.pool.take("aside", N)

    def act(body: Mixed, stream: int) -> None:
        body.theirs(stream)
        body.ours(stream)
        body.theirs(stream)
        assert foreign("cuMemsetD8Async", aside.address, 0, 4, stream) == 0
        driver.memory.memset_d8_async(aside.address, 0, 4, stream)
        body.theirs(stream)

    step = small.ready(body=mixed(small, act))
    report = step.report()
    assert report.nodes == 6 and report.kernels == 4 and report.refusals == 0
    assert report.launches_eager_step == 4, "counted below us in the plain pass"
    assert small.value() == 16
    journal = step.graph.contents.journal  # type: ignore[union-attr]
    (call,) = journal.library
    assert call.name == "Lib" and call.kernels == 3 and len(call.nodes) == 4
    assert len(journal.launches) == 1
    origins = step.graph.contents.origins  # type: ignore[union-attr]
    assert [getattr(origins[n], "name", None) == "Lib" for n in range(6)] == [
        True, False, True, True, False, True,
    ]  # fmt: skip


def test_what_its_nodes_point_at_is_held_by_the_graph(small: Small) -> None:
    other = small.pool.take("other", N)

    def act(body: Mixed, stream: int) -> None:
        body.theirs(stream, x=other)
        assert foreign("cuMemcpyDtoDAsync", other.address, small.x.address, 4 * N, stream) == 0

    step = small.ready(body=mixed(small, act))
    for piece in (other, small.x):
        assert small.pool.holders(piece) == ["step"]
    assert Audit.of(step).check() == ()
    address = other.address
    small.pool.give_back(other)
    assert small.pool.take("next", N).address != address


def test_memory_that_is_nobodys_here_is_counted_as_outside(small: Small) -> None:
    theirs = driver.memory.alloc(4 * N)

    def act(body: Mixed, stream: int) -> None:
        assert foreign("cuMemsetD8Async", theirs, 0, 4 * N, stream) == 0
        body.ours(stream)

    step = small.ready(body=mixed(small, act))
    assert step.report().unowned == 1
    step.close()
    driver.memory.free(theirs)


def test_in_somebody_elses_capture_its_nodes_are_those_of_the_part(small: Small) -> None:
    def act(body: Mixed, stream: int) -> None:
        body.ours(stream)
        body.theirs(stream)

    body = mixed(small, act)
    part = small.part(body)
    part.prime(small.stream)
    with small.their_capture() as graphs:
        body.theirs(small.stream)
        assert part.record(small.stream).types == {"kernel": 2}
    assert small.value() == 4
    small.launch(graphs[0])
    assert small.value() == 10


def test_an_empty_block_is_no_loss(small: Small) -> None:
    body = mixed(small, lambda body, stream: None)

    def whole(stream: int) -> None:
        body(stream)
        body.ours(stream)

    step = small.ready(body=whole)
    (call,) = step.graph.contents.journal.library  # type: ignore[union-attr]
    assert step.phase is Phase.READY and (call.kernels, call.nodes) == (0, ())
    assert step.report().shape_warning == "", "the plain pass tells of an empty block, too"


def refusal_of(small: Small, act: Callable[[Mixed, int], None]) -> CaptureRefused:
    step = small.step(body=mixed(small, act))
    step.prime()
    with pytest.raises(CaptureRefused) as caught:
        step.capture()
    assert open_window.current() is None and driver.gate.observer is None
    return caught.value


def test_what_went_astray_is_told(small: Small) -> None:
    def act(body: Mixed, stream: int) -> None:
        body.theirs(stream)
        body.theirs(0)

    refusal = refusal_of(small, act)
    assert type(refusal) is CaptureIncomplete
    assert "Lib sent 2 kernels, and 1 became nodes" in str(refusal)
    assert "let it send all its work to the stream that it is given" in str(refusal)


def test_a_capture_that_it_broke_is_told_with_what_to_do(small: Small) -> None:
    def act(body: Mixed, stream: int) -> None:
        body.theirs(stream)
        if open_window.mine() is not None:
            assert foreign("cuCtxSetLimit", cu.CUlimit.CU_LIMIT_STACK_SIZE, 1024) == 900

    refusal = refusal_of(small, act)
    assert type(refusal) is CaptureFailed and "Lib broke the capture of 'step'" in str(refusal)
    assert "the priming pass has to have reached" in str(refusal)


def test_our_own_launches_are_not_taken_for_its_lost_ones(small: Small) -> None:
    def act(body: Mixed, stream: int) -> None:
        for _ in range(3):
            body.ours(stream)
        body.theirs(stream)

    assert small.ready(body=mixed(small, act)).phase is Phase.READY


def test_a_wait_is_told_by_its_name(small: Small) -> None:
    def act(body: Mixed, stream: int) -> None:
        body.theirs(stream)
        if open_window.mine() is not None:
            assert foreign("cuStreamSynchronize", stream) == 900

    refusal = refusal_of(small, act)
    assert type(refusal) is SyncDuringCapture
    assert "cuStreamSynchronize was called by Lib in the capture window of 'step'" in str(refusal)


def test_what_leaves_the_block_is_not_hidden(small: Small) -> None:
    def act(body: Mixed, stream: int) -> None:
        if open_window.mine() is not None:
            foreign("cuStreamSynchronize", stream)
            raise KeyError("mine")

    step = small.step(body=mixed(small, act))
    step.prime()
    with pytest.raises(KeyError, match="mine"):
        step.capture()
    assert driver.gate.observer is None and driver.gate.guard is None


def test_work_of_a_conditionals_body_that_goes_around_it_is_refused(small: Small) -> None:
    steer = Conditional(small.rig.library)
    flag = small.pool.take("flag", 1, np.int32)
    driver.memory.memset_d8_async(flag.address, 0, 4, small.stream)

    def act(body: Mixed, stream: int) -> None:
        body.theirs(stream)
        steer.run_if(stream, flag, lambda inner: (body.theirs(stream), body.ours(inner))[0])

    refusal = refusal_of(small, act)
    for part in ("Lib sent work in the body of a conditional to the stream around it",
                 "open one inside its body, with the stream that the body is given"):  # fmt: skip
        assert part in str(refusal)
    steer.close()


def test_another_thread_is_judged_by_the_window_alone(small: Small) -> None:
    """The hooks of the block are the window's thread's: a call beside it is neither's node."""

    def act(body: Mixed, stream: int) -> None:
        def other() -> None:
            small.rig.device.make_current()
            driver.memory.info()

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        body.theirs(stream)

    assert small.ready(body=mixed(small, act)).report().nodes == 1
