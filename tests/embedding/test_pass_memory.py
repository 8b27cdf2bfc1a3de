"""The pool as the allocator of another library: what is taken, reused, kept and refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.driver import event
from lowgraph.errors import CaptureAllocationError, CaptureIncomplete, PoolError
from lowgraph.interop.pass_memory import Keeper, PassMemory
from lowgraph.memory import Slice, open_window
from tests.embedding.small import BLOCKS, N, Small

pytestmark = pytest.mark.both

SIZES = [1, 0, 4 * N, 33, 257 * 4]


class Arrays:
    """A body that works on arrays as a library makes them: y += 2 x by way of temporaries."""

    def __init__(self, small: Small) -> None:
        self.small = small
        self.taken: list[list[tuple[int, int]]] = []  # of each pass: address and bytes
        self.kept: list[Keeper] = []
        self.pieces: list[Slice] = []
        self.keep = False
        self.within: Any = lambda memory, stream: None

    def __call__(self, stream: int) -> None:
        small = self.small
        memory = PassMemory(small.pool, "Lib", stream)
        addresses = list[tuple[int, int]]()
        self.taken.append(addresses)
        try:
            for nbytes in SIZES:
                piece, keeper = memory.take(nbytes, stream)
                addresses.append((piece.address, nbytes))
                if self.keep:
                    self.kept.append(keeper)
                    self.pieces.append(piece)
                del keeper
            self.within(memory, stream)
            small.add(stream, BLOCKS, 128, small.y, small.x, N)
        finally:
            memory.leave()


def test_the_window_takes_what_the_priming_pass_kept(small: Small) -> None:
    body = Arrays(small)
    step = small.step(body=body)
    step()
    with small.rig.device.count_calls() as count:
        step.capture()
    assert step.phase is Phase.READY and small.pool.stats().refused == 0
    assert not {"cuMemAlloc", "cuMemAllocAsync"} & set(count.calls)
    primed, recorded = ({address for address, _ in taken} for taken in body.taken)
    assert recorded <= primed, "addresses of the priming pass"
    assert len(primed) == len(SIZES), "which reuses nothing: it is to have what any window needs"


def test_each_pass_gives_and_takes_in_the_same_order(small: Small) -> None:
    body = Arrays(small)
    for _ in range(3):
        step = small.ready(body=body)
        small._made.remove(step)
        step.close()
    assert body.taken[1] == body.taken[3] == body.taken[5]


def test_an_array_that_is_gone_is_given_back_at_the_next_request_and_not_before(
    small: Small,
) -> None:
    gives: list[int] = []

    def within(memory: PassMemory, stream: int) -> None:
        memory.settle()
        _, keeper = memory.take(64, stream)
        gives.append(small.pool.stats().gives)
        thread = threading.Thread(target=lambda box: box.pop(), args=([keeper],))
        del keeper
        thread.start()
        thread.join()
        gives.append(small.pool.stats().gives)
        memory.take(64, stream)
        gives.append(small.pool.stats().gives)

    body = Arrays(small)
    body.within = within
    step = small.step(body=body)
    step()
    assert len(set(gives)) == 1, "a plain pass does not know of forks: all of it ends with it"
    gives.clear()
    step()
    assert gives[1] == gives[0], "whoever drops it makes no call of the pool"
    assert gives[2] == gives[0] + 1


def test_what_outlives_its_pass_keeps_its_memory(small: Small) -> None:
    body = Arrays(small)
    body.keep = True
    step = small.step(body=body, graph=False)  # plain passes
    step()
    addresses = {address for address, _ in body.taken[0]}
    others = [small.pool.take(f"other {n}", 64) for n in range(16)]
    assert not addresses & {other.address for other in others}
    assert 'an array over "Lib\'s array 0"' in {share[2] for share in small.pool.holdings()}
    body.kept.clear()
    more = [small.pool.take(f"more {n}", 64) for n in range(16)]
    assert addresses & {piece.address for piece in more}, "until the array is gone"


def test_an_array_of_a_recorded_pass_outlives_its_graph(small: Small) -> None:
    body = Arrays(small)
    step = small.step(body=body)
    step()
    body.keep = True
    step()
    assert step.phase is Phase.READY
    addresses = {address for address, _ in body.taken[1]}
    assert step.report().retained_bytes >= 256 * len(SIZES), "the graph's"
    step.close()
    others = [small.pool.take(f"other {n}", 64) for n in range(16)]
    assert not addresses & {other.address for other in others}, "and then the array's"
    body.kept.clear()


def test_an_array_of_the_priming_pass_is_kept_and_does_not_starve_the_window(small: Small) -> None:
    """As code that keeps its latest result: it is alive still when the recorded pass makes one."""
    body = Arrays(small)
    body.keep = True
    step = small.step(body=body)
    step()
    step()
    assert step.phase is Phase.READY, step.report().first_refusal
    primed, recorded = ({address for address, _ in taken} for taken in body.taken)
    assert not primed & recorded, "the graph writes into memory of its own"
    assert step.report().shape_warning == "", "which no pass asked for"
    body.kept.clear()


def test_arrays_that_a_body_only_forgot_take_no_memory_twice(small: Small) -> None:
    """A local variable lives until the body returns, which is before the pass ends."""

    def within(memory: PassMemory, stream: int) -> None:
        keepers = [memory.take(4 * N, stream)[1] for _ in range(8)]
        memory.leave()
        del keepers

    body = Arrays(small)
    body.within = within
    step = small.step(body=body)
    step()
    reserved = small.pool.stats().reserved
    other = Small(small.rig)
    plain = Arrays(other)
    plain.within = lambda memory, stream: [memory.take(4 * N, stream) for _ in range(8)]
    other.step(body=plain)()
    assert other.pool.stats().reserved == reserved
    other.close()
    step()
    assert step.phase is Phase.READY


def test_a_size_that_was_not_primed_is_refused_by_the_users_line(small: Small) -> None:
    refused: list[Any] = []

    def within(memory: PassMemory, stream: int) -> None:
        if open_window.mine() is None:
            return
        with pytest.raises(CaptureAllocationError) as caught:
            memory.take(1 << 26, stream)
        refused.extend([caught.value, memory.refusal])

    body = Arrays(small)
    body.within = within
    step = small.step(body=body)
    step()
    step()
    report = step.report()
    assert report.refusals == 1 and refused[0] is refused[1]
    for part in ("Lib's array 5", "the driver is never asked for memory", "prime with a pass"):
        assert part in report.first_refusal, "also where the library answers it in its own way"


def test_outside_of_a_pass_there_is_nobody_to_give_it_back(small: Small) -> None:
    with pytest.raises(PoolError, match="Call it in the body of a GraphStep, or let Lib allocate"):
        PassMemory(small.pool, "Lib", small.stream)


def test_work_on_a_stream_outside_of_the_capture_is_refused(small: Small) -> None:
    other = driver.stream.create()

    def within(memory: PassMemory, stream: int) -> None:
        memory.take(64, other)

    body = Arrays(small)
    body.within = within
    step = small.step(body=body)
    step()  # plain: how the two are ordered is the body's to know
    with pytest.raises(CaptureIncomplete, match="leave Lib's current stream as it is") as caught:
        step.capture()
    assert f"stream {other:#x}" in str(caught.value)
    assert "test_pass_memory" in str(caught.value.where)
    driver.stream.destroy(other)


@pytest.mark.parametrize("on_fork", [False, True])
def test_beside_a_fork_nothing_is_reused(small: Small, on_fork: bool) -> None:
    """What the fork reads may be dropped here, and its block would be the next array's."""
    fork, forked, joined = driver.stream.create(), event.create(), event.create()
    addresses: list[int] = []

    def within(memory: PassMemory, stream: int) -> None:
        addresses.clear()
        piece, keeper = memory.take(64, stream)
        address = piece.address
        del keeper
        addresses.append(memory.take(64, stream)[0].address == address)
        event.record(forked, stream)
        driver.stream.wait_event(fork, forked)
        for _ in range(4):
            piece, keeper = memory.take(64, fork if on_fork else stream)
            addresses.append(piece.address)
            del keeper
        event.record(joined, fork)
        driver.stream.wait_event(stream, joined)

    body = Arrays(small)
    body.within = within
    step = small.ready(body=body)
    assert step.phase is Phase.READY
    assert addresses[0], "before the fork it is"
    assert len(set(addresses[1:])) == 4
    step.close()
    for each in (forked, joined):
        event.destroy(each)
    driver.stream.destroy(fork)
