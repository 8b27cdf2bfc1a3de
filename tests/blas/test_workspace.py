"""Field case 3: graphs that share a workspace: with bare driver calls, then with ours."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.blas import Product
from lowgraph.capture import GraphStep
from lowgraph.errors import PoolError, WorkspaceInUse
from lowgraph.memory import Slice, download, fill_zero
from tests.blas.bench import Bench

M = N = 40
K = 700  # so long that gemm.cu splits it into the workspace


class Pair:
    """Two steps that write their own product, both in the workspace of the bench's stream."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.a, self.b = bench.random("a", M, K), bench.random("b", K, N, 2)
        self.first, self.out_first = self._step("train")
        self.second, self.out_second = self._step("eval")

    def _step(self, label: str) -> tuple[GraphStep, Slice]:
        out = self.bench.pool.take(f"out {label}", (M, N))

        def body(stream: int) -> None:
            self.bench.blas.gemm(stream, out, self.a, self.b, M, N, K)

        step = self.bench.step(body, label)
        for _ in range(3):
            step()
        assert step.report().replays == 2
        return step, out

    def result(self, out: Slice) -> bytes:
        return download(out, self.bench.rig.stream).tobytes()


def test_bare_a_graph_whose_workspace_was_handed_on_gives_garbage(bench: Bench) -> None:
    """What happens without borrowing: the graph reads what its slabs' new owner left there."""
    rig, stream = bench.rig, bench.rig.stream
    gemm, reduce = (rig.library.kernel("gemm.cu", name) for name in ("gemm_nn", "gemm_reduce"))
    a, b = bench.random("a", M, K), bench.random("b", K, N, 2)
    out, workspace = rig.empty((M, N)), rig.empty((4, M, N))
    driver.stream.begin_capture(stream)
    reduce(stream, -(-M * N // 512), 128, out, workspace, M * N, 4, 0)
    graph = driver.stream.end_capture(stream)
    executable = driver.graph.instantiate(graph)
    gemm(stream, (1, 1, 4), 64, workspace, a, b, M, N, K, 192, 0)
    driver.graph.launch(executable, stream)
    right = rig.get(out)
    sevens = np.full((4, M, N), 7.0, np.float32)
    driver.memory.copy_htod_async(workspace.address, sevens.ctypes.data, sevens.nbytes, stream)
    driver.graph.launch(executable, stream)
    assert (rig.get(out) == 28.0).all() and not (right == 28.0).any()
    driver.graph.exec_destroy(executable)
    driver.graph.destroy(graph)


def test_destroying_one_graph_drops_only_its_own_borrow(bench: Bench) -> None:
    pair = Pair(bench)
    workspace = bench.blas.workspace
    assert bench.pool.holders(workspace) == ["eval", "train"]
    right = pair.result(pair.out_first)
    pair.second.close()
    assert bench.pool.holders(workspace) == ["train"]
    # The variant of the thread: an array that would get the workspace's bytes if they were free.
    sevens = bench.put("sevens", np.full(workspace.nbytes // 4, 7.0))
    assert sevens.address != workspace.address
    fill_zero(pair.out_first, bench.rig.stream)
    pair.first()
    assert pair.result(pair.out_first) == right
    assert (download(sevens, bench.rig.stream) == 7.0).all()


@pytest.mark.parametrize("call", ["close", "release", "resize", "give_back"])
def test_a_borrowed_workspace_is_not_moved_or_given_back(bench: Bench, call: str) -> None:
    pair = Pair(bench)
    workspace = bench.blas.workspace
    address = workspace.address
    calls = {
        "close": bench.blas.close,
        "release": lambda: bench.blas.release(bench.rig.stream),
        "resize": lambda: bench.blas.resize(1 << 20),
        "give_back": lambda: bench.pool.give_back(workspace),
    }
    with pytest.raises(WorkspaceInUse, match="borrowed by eval, train: close those graphs") as held:
        calls[call]()
    error = held.value
    assert (error.id, error.nbytes) == (workspace.id, workspace.nbytes)
    assert error.graphs == ["eval", "train"] and isinstance(error, PoolError)
    assert bench.blas.workspace is workspace and workspace.address == address
    pair.first()
    pair.second()
    assert pair.result(pair.out_first) == pair.result(pair.out_second)


def test_once_the_graphs_are_closed_it_may_be_resized(bench: Bench) -> None:
    pair = Pair(bench)
    before = bench.blas.workspace
    pair.first.close()
    pair.second.close()
    bench.blas.resize(1 << 20)
    after = bench.blas.workspace
    assert not before.alive and after.nbytes == 1 << 20
    assert not bench.blas.prepared(Product(M, N, K)), "another size may mean another algorithm"
    again = bench.step(
        lambda stream: bench.blas.gemm(stream, pair.out_first, pair.a, pair.b, M, N, K), "again"
    )
    for _ in range(3):
        again()
    assert again.report().replays == 2 and bench.pool.holders(after) == ["again"]


def test_each_stream_has_a_workspace_of_its_own(bench: Bench) -> None:
    other = bench.stream()
    bench.blas.prepare(stream=other)
    one, two = bench.blas.workspaces.get(bench.rig.stream), bench.blas.workspaces.get(other)
    assert one is not None and two is not None and one.address != two.address
    bench.blas.release(other)
    bench.blas.release(other)
    assert bench.blas.workspaces.get(other) is None and not two.alive and one.alive


class Forked:
    """Two steps on streams of their own that both fork to a third and multiply there."""

    def __init__(self, bench: Bench, repeats: int = 200) -> None:
        self.bench = bench
        self.repeats = repeats
        self.side = bench.stream()
        bench.blas.prepare(stream=self.side)
        self.a, self.b = bench.random("a", M, K), bench.random("b", K, N, 2)
        bench.rig.sync()
        self.streams = (bench.stream(), bench.stream())
        self.outs = [bench.pool.take(f"out{n}", (M, N)) for n in range(2)]
        for out in self.outs:
            fill_zero(out, bench.rig.stream)
        bench.rig.sync()
        self.fork, self.join = driver.event.create(), driver.event.create()
        self.steps = [self._step(n) for n in range(2)]

    def _step(self, number: int) -> GraphStep:
        def body(stream: int) -> None:
            driver.event.record(self.fork, stream)
            driver.stream.wait_event(self.side, self.fork)
            # So many that they are in flight when the other one is launched.
            for _ in range(self.repeats):
                self.bench.blas.gemm(
                    self.side, self.outs[number], self.a, self.b, M, N, K, accumulate=True
                )
            driver.event.record(self.join, self.side)
            driver.stream.wait_event(stream, self.join)

        step = self.bench.step(body, f"replay {number}", stream=self.streams[number])
        step.prime()
        step.capture()
        driver.stream.synchronize(self.streams[number])
        return step

    def close(self) -> None:
        for stream in self.streams:
            driver.stream.synchronize(stream)
        for event in (self.fork, self.join):
            driver.event.destroy(event)


def test_concurrent_replays_that_borrow_one_workspace_are_refused_both_named(
    bench: Bench,
) -> None:
    forked = Forked(bench)
    first, second = forked.steps
    workspace = bench.blas.workspaces.get(forked.side)
    assert workspace is not None
    assert bench.pool.holders(workspace) == ["replay 0", "replay 1"]
    first.replay()
    with pytest.raises(WorkspaceInUse, match=r"'replay 1' .* while 'replay 0' .* is using") as busy:
        second.replay()
    assert busy.value.graphs == ["replay 0", "replay 1"] and busy.value.id == workspace.id
    assert second.report().replays == 0, "nothing ran, and the graph is still there"
    driver.stream.synchronize(forked.streams[0])
    second.replay()
    driver.stream.synchronize(forked.streams[1])
    # Serial replays give both the same sums: one priming pass and one replay each.
    sums = [download(out, bench.rig.stream).tobytes() for out in forked.outs]
    assert sums[0] == sums[1]
    forked.close()


def test_replays_on_one_stream_are_never_asked_after(bench: Bench) -> None:
    pair = Pair(bench)
    seen: list[str] = []
    driver.gate.observer = lambda name, args, code: seen.append(name)
    try:
        for _ in range(3):
            pair.first.replay()
            pair.second.replay()
    finally:
        driver.gate.observer = None
    assert seen == ["cuGraphLaunch"] * 6


def test_a_closed_graphs_stream_may_be_destroyed(bench: Bench) -> None:
    """Its workspace must not ask a stream that is gone."""
    forked = Forked(bench)
    first, second = forked.steps
    first.replay()
    first.close()
    driver.stream.synchronize(forked.streams[0])
    bench.streams.remove(forked.streams[0])
    driver.stream.destroy(forked.streams[0])
    forked.streams = (forked.streams[1],) * 2
    second.replay()
    assert second.report().replays == 1
    forked.close()


def test_a_pool_with_a_lent_workspace_is_not_closed(bench: Bench) -> None:
    pair = Pair(bench)
    with pytest.raises(PoolError, match="the pool serves eval, train: close that first"):
        bench.pool.close()
    pair.first()
    assert pair.first.report().replays == 3


@pytest.mark.parametrize("journal", ["full", "light"])
def test_the_borrow_does_not_depend_on_how_much_is_journalled(bench: Bench, journal: str) -> None:
    a, b, out = bench.random("a", M, K), bench.random("b", K, N), bench.pool.take("out", (M, N))
    step = bench.step(lambda stream: bench.blas.gemm(stream, out, a, b, M, N, K), "train",
                      journal=journal)  # fmt: skip
    for _ in range(3):
        step()
    assert bench.pool.holders(bench.blas.workspace) == ["train"]


def test_a_recaptured_graph_borrows_once(bench: Bench) -> None:
    pair = Pair(bench)
    pair.second.close()
    pair.first.recapture()
    pair.first()
    assert bench.pool.holders(bench.blas.workspace) == ["train"]
    pair.first.close()
    assert bench.pool.holders(bench.blas.workspace) == []


def test_two_threads_that_replay_two_borrowers_never_overlap(bench: Bench) -> None:
    """Each replay runs alone or is refused: the sums are those of that many, bit for bit."""
    repeats, wanted = 50, 8
    forked = Forked(bench, repeats)
    done = [0, 0]
    refused: list[WorkspaceInUse] = []
    # The host device is so slow that they meet, but on a busy machine one may run before the other.
    must_meet, end = bench.rig.device.spec == "host", time.monotonic() + 60

    def drive(number: int) -> None:
        bench.rig.device.make_current()
        while done[number] < wanted or (must_meet and not refused and time.monotonic() < end):
            try:
                forked.steps[number].replay()
                done[number] += 1
                driver.stream.synchronize(forked.streams[number])
            except WorkspaceInUse as busy:
                refused.append(busy)
            time.sleep(0.001)  # the other one's turn

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in forked.streams:
        driver.stream.synchronize(stream)
    if must_meet:
        assert {tuple(sorted(busy.graphs)) for busy in refused} == {("replay 0", "replay 1")}
    for number, out in enumerate(forked.outs):
        alone = bench.pool.take(f"alone{number}", (M, N))
        fill_zero(alone, bench.rig.stream)
        for _ in range(repeats * (1 + done[number])):  # the priming pass was one
            bench.blas.gemm(bench.rig.stream, alone, forked.a, forked.b, M, N, K, accumulate=True)
        assert download(out, bench.rig.stream).tobytes() == (
            download(alone, bench.rig.stream).tobytes()
        )
    forked.close()
