"""Case 3: two graphs bake in one workspace; what gives it away breaks the other one's replays."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.blas import Blas
from lowgraph.capture import GraphStep, Phase
from lowgraph.errors import WorkspaceInUse
from lowgraph.memory import download, upload
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N


def test_bare_a_replay_writes_into_whoever_has_the_workspace_now(bare: Bare) -> None:
    fill, scale = bare.kernel("fill"), bare.kernel("scale")
    workspace, out = bare.rig.empty(N), bare.rig.empty(N)

    def product(value: float) -> None:
        fill(bare.stream, GRID, BLOCK, workspace, value, N)
        scale(bare.stream, GRID, BLOCK, out, workspace, 2.0, N)

    train, evaluate = bare.ready(lambda: product(1.0)), bare.ready(lambda: product(3.0))
    bare.replay(train)
    bare.replay(evaluate)
    # The evaluation graph is done with, and its workspace, keyed by stream, goes to an array.
    array = workspace
    fill(bare.stream, GRID, BLOCK, array, 7.0, N)
    bare.replay(train)
    assert not np.any(bare.rig.get(array) == 7.0), "the training graph has written over the array"


class Products:
    """out = a b by split-K, which goes through the workspace, in a step for each label."""

    def __init__(self, micro: Micro) -> None:
        rig, pool = micro.rig, micro.pool
        self.micro, self.stream = micro, rig.stream
        self.blas = Blas(rig.device, rig.library, rig.stream, pool)
        self.a, self.b = pool.take("a", (8, 512)), pool.take("b", (512, 8))
        self.out = pool.take("out", (8, 8))
        for piece in (self.a, self.b):
            upload(piece, np.ones(piece.shape, np.float32), rig.stream)

    def step(self, label: str) -> GraphStep:
        """A ready step."""
        step = self.micro.step(body=self.body, label=label)
        step()
        step()
        assert step.phase is Phase.READY, step.report().text()
        return step

    def body(self, stream: int) -> None:
        self.blas.gemm(stream, self.out, self.a, self.b, 8, 8, 512)

    def result(self) -> np.ndarray[Any, Any]:
        return download(self.out, self.stream)


def test_a_workspace_that_a_graph_borrows_is_handed_to_nobody(micro: Micro) -> None:
    products = Products(micro)
    train, evaluate = products.step("train"), products.step("evaluate")
    workspace = products.blas.workspace
    evaluate.close()
    for release in (products.blas.close, lambda: micro.pool.give_back(workspace)):
        with pytest.raises(WorkspaceInUse) as raised:
            release()
        error = raised.value
        assert (error.id, error.nbytes) == (workspace.id, workspace.nbytes)
        assert error.graphs == ["train"], "evaluate dropped only its own borrow"
        assert "close those graphs first" in str(error)
    array = micro.pool.take("array", N)
    upload(array, np.full(N, 7, np.float32), products.stream)
    train()
    assert np.all(products.result() == 512.0)
    assert np.all(download(array, products.stream) == 7.0)
    train.close()
    products.blas.close()


def test_either_graph_may_be_closed_first(micro: Micro) -> None:
    products = Products(micro)
    train, evaluate = products.step("train"), products.step("evaluate")
    for step, other in ((train, evaluate), (evaluate, train)):
        step()
        other()
        assert np.all(products.result() == 512.0)
    train.close()
    evaluate()
    assert np.all(products.result() == 512.0)
    evaluate.close()
    products.blas.close()


class Gate:
    """Holds a stream's later work back until `open` is called: a host function that waits."""

    def __init__(self, stream: int) -> None:
        self._event = threading.Event()
        self._callback = driver.entry.HOST_FUNCTION(lambda data: self._event.wait(30) and None)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        driver.entry.launch_host_function(stream, address)
        self.open = self._event.set


def test_two_borrowers_in_flight_on_two_streams_are_refused(micro: Micro, bare: Bare) -> None:
    workspace = micro.pool.take("workspace", N)
    micro.pool.make_exclusive(workspace)
    second = bare.new_stream()

    def step_of(label: str, stream: int) -> GraphStep:
        out = micro.pool.take(f"out of {label}", N)

        def body(on: int) -> None:
            micro.forward(on, BLOCKS, 128, workspace, micro.x, N)
            micro.forward(on, BLOCKS, 128, out, workspace, N)

        step = micro.step(body=body, label=label, stream=stream)
        for _ in range(2):
            step()
            driver.stream.synchronize(stream)
        assert step.phase is Phase.READY, step.report().text()
        return step

    train, evaluate = step_of("train", micro.stream), step_of("evaluate", second)
    held = Gate(micro.stream)
    try:
        train()  # in flight, behind the gate
        train()  # its own stream keeps the order
        with pytest.raises(WorkspaceInUse) as raised:
            evaluate()
    finally:
        held.open()
    assert raised.value.graphs == ["train", "evaluate"] and raised.value.id == workspace.id
    for part in (f"on stream {second:#x}", f"on stream {micro.stream:#x}", "wait for that stream"):
        assert part in str(raised.value), str(raised.value)
    micro.rig.sync()
    evaluate()
    driver.stream.synchronize(second)
    assert evaluate.report().replays == 2 and evaluate.phase is Phase.READY
    evaluate.close()
