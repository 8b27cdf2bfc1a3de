"""Case 15, continued: what is no other node but another attribute, copy or size of the same one.

That an executable keeps the cluster size that it was made with is in `tests/traces`, as the kernel
sees it: kernels of the host device see none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as bindings

from lowgraph import driver
from lowgraph.capture import GraphStep, Phase
from lowgraph.driver.launch import LaunchConfig
from lowgraph.errors import ArgTypeError, CaptureFailed
from lowgraph.kernels import Kernel
from lowgraph.memory import open_window
from tests.capture.micro import BLOCKS, Micro
from tests.capture.test_refusals import assert_sound
from tests.field_cases.bare import BLOCK, GRID, INVALIDATED, SOURCE, Bare, N, foreign
from tests.field_cases.test_case_15_rejected_update import UPDATE_FAILURE, Changes
from tests.support.codes import code_of

FILE = Path(__file__).name
TOO_MUCH = 300_000  # bytes of dynamic shared memory: above the opt-in limit of every device so far
INVALID_VALUE = 1


def clustered(kernel: Kernel, stream: int, args: tuple[object, ...], size: int | None) -> None:
    """Launch with a cluster size, below the kernel library, which has none."""
    kernel.pack.store(kernel.pack.values(args))
    config = LaunchConfig(stream, GRID, BLOCK, cluster=size)
    driver.launch.launch(config, kernel.handle, kernel.pack.address)


def cooperative(kernel: Kernel, stream: int, args: tuple[object, ...]) -> int:
    """Launch cooperatively, past lowgraph; the code."""
    kernel.pack.store(kernel.pack.values(args))
    sizes = (GRID, 1, 1, BLOCK, 1, 1, 0)
    where = stream, kernel.pack.address
    return int(foreign("cuLaunchCooperativeKernel", kernel.handle, *sizes, *where))


def oversized(kernel: Kernel, stream: int, args: tuple[object, ...]) -> None:
    """Launch with more dynamic shared memory than there is, below the kernel library's check."""
    kernel.pack.store(kernel.pack.values(args))
    config = LaunchConfig(stream, GRID, BLOCK, shared=TOO_MUCH)
    driver.launch.launch(config, kernel.handle, kernel.pack.address)


@pytest.fixture
def pinned() -> Iterator[int]:
    """Address of N pinned floats, each 4."""
    address = driver.memory.host_alloc(4 * N)
    (ctypes.c_float * N).from_address(address)[:] = [4.0] * N
    yield address
    driver.memory.host_free(address)


# ---- bare: what the driver answers ----


class Attributes(Changes):
    """The second launch as another kind of the same."""

    pinned = 0

    def __init__(self, bare: Bare) -> None:
        super().__init__(bare)
        self.args: tuple[object, ...] = (self.x, 3.0, N)

    def cooperative(self) -> None:
        self.first()
        assert cooperative(self.fill, self.bare.stream, self.args) == 0

    def copy(self) -> None:
        self.first()
        driver.memory.copy_dtod_async(self.x.address, self.y.address, 4 * N, self.bare.stream)

    def copy_in(self) -> None:
        self.first()
        driver.memory.copy_htod_async(self.x.address, self.pinned, 4 * N, self.bare.stream)

    def oversized(self) -> None:
        self.first()
        oversized(self.fill, self.bare.stream, self.args)


@pytest.mark.parametrize(
    ("before", "now", "reason", "x"),
    [("as_before", "cooperative", "ATTRIBUTES_CHANGED", 3.0),
     ("cooperative", "as_before", "ATTRIBUTES_CHANGED", 3.0),
     ("copy", "copy_in", "PARAMETERS_CHANGED", 2.0)],
)  # fmt: skip
def test_bare_the_same_node_of_another_kind_is_910_without_a_word(
    bare: Bare, pinned: int, before: str, now: str, reason: str, x: float
) -> None:
    changes = Attributes(bare)
    changes.pinned = pinned
    executable = bare.ready(getattr(changes, before))
    graph = bare.record(getattr(changes, now))
    code, info = bindings.cuGraphExecUpdate(executable, graph)
    assert int(code) == UPDATE_FAILURE and info is None, "what the bindings tell"
    told = driver.graph.update(executable, graph)
    place = driver.graph.nodes(graph).index(told.node or 0)
    assert (told.ok, told.reason, place) == (False, reason, 1), "what the driver knows"
    bare.replay(executable)
    assert np.all(bare.rig.get(changes.x) == x), "the old one still runs"


def test_bare_too_much_shared_memory_ends_the_capture_and_not_the_old_executable(
    bare: Bare,
) -> None:
    changes = Attributes(bare)
    executable = bare.ready(changes.as_before)
    codes: list[int] = []

    def second() -> None:
        codes.append(code_of(changes.oversized))
        codes.append(code_of(changes.first))

    assert bare.end_code(second) == INVALIDATED, "which names nothing"
    assert codes == [INVALID_VALUE, INVALIDATED], "the launch that did it, and an innocent one"
    bare.replay(executable)
    assert np.all(bare.rig.get(changes.x) == 3.0)


# ---- lowgraph: explained, and a fresh executable takes over ----


class Kinds:
    """A ready step of two nodes, whose second one `now` replaces."""

    def __init__(self, micro: Micro, pinned: int) -> None:
        self.micro, self.pinned = micro, pinned
        self.x, self.y = micro.pool.take("target", N), micro.pool.take("result", N)
        self.fill = micro.rig.library.kernel(SOURCE, "fill")
        self.args: tuple[object, ...] = (self.x, 3.0, N)
        self.now: Callable[[int], object] = self.plain

    def ready(self, first: Callable[[int], object]) -> GraphStep:
        self.now = first
        step = self.micro.step(body=self.body)
        for _ in range(2):
            step()
        assert step.phase is Phase.READY, step.report().text()
        return step

    def body(self, stream: int) -> None:
        self.micro.forward(stream, BLOCKS, 128, self.y, self.micro.x, N)
        self.now(stream)

    def plain(self, stream: int) -> None:
        self.fill(stream, GRID, BLOCK, *self.args)

    def cooperative(self, stream: int) -> None:
        assert cooperative(self.fill, stream, self.args) == 0

    def copy(self, stream: int) -> None:
        driver.memory.copy_dtod_async(self.x.address, self.y.address, 4 * N, stream)

    def copy_in(self, stream: int) -> None:
        driver.memory.copy_htod_async(self.x.address, self.pinned, 4 * N, stream)

    def two(self, stream: int) -> None:
        clustered(self.fill, stream, self.args, 2)

    def four(self, stream: int) -> None:
        clustered(self.fill, stream, self.args, 4)

    def values(self) -> set[float]:
        array = np.empty(N, np.float32)
        driver.memory.copy_dtoh_async(
            array.ctypes.data, self.x.address, array.nbytes, self.micro.stream
        )
        self.micro.rig.sync()
        return {float(value) for value in array}


@pytest.fixture
def kinds(micro: Micro, pinned: int) -> Kinds:
    return Kinds(micro, pinned)


@pytest.mark.parametrize(
    ("before", "now", "reason", "told"),
    [("plain", "cooperative", "ATTRIBUTES_CHANGED", "launch: normal -> cooperative"),
     ("cooperative", "plain", "ATTRIBUTES_CHANGED", "launch: cooperative -> normal"),
     ("copy", "copy_in", "PARAMETERS_CHANGED", "direction: device to device -> host to device"),
     ("plain", "two", "CLUSTER_CHANGED", "cluster: (0, 0, 0) -> (2, 1, 1)"),
     ("two", "four", "CLUSTER_CHANGED", "cluster: (2, 1, 1) -> (4, 1, 1)"),
     ("four", "plain", "CLUSTER_CHANGED", "cluster: (4, 1, 1) -> (0, 0, 0)")],
)  # fmt: skip
def test_the_change_is_named_and_the_new_kind_runs(
    kinds: Kinds, before: str, now: str, reason: str, told: str
) -> None:
    step = kinds.ready(getattr(kinds, before))
    kinds.now = getattr(kinds, now)
    assert step.recapture() is False
    report = step.report()
    assert report.rejections == {reason: 1} and report.reinstantiations == 1
    assert (report.refusals, step.phase) == (0, Phase.READY)
    assert told in report.last_rejection and "node 1 (" in report.last_rejection
    if "cooperative" not in (before, now):  # past us, so that we have no line of it
        assert f"{FILE}:" in report.last_rejection.split(": ")[0]
    if reason == "CLUSTER_CHANGED":
        assert "would answer success and keep the old one" in report.last_rejection
        assert step.graph is not None
        assert str(step.graph.node(1).cluster) == told.split(" -> ")[1]
    driver.memory.memset_d8_async(kinds.x.address, 0, 4 * N, kinds.micro.stream)
    step()
    assert kinds.values() == ({4.0} if now == "copy_in" else {3.0}), "the fresh one is what runs"
    assert step.recapture() is True, "the same again is an update"


@pytest.mark.parametrize("checked", [True, False])
def test_too_much_shared_memory_is_named_and_the_graph_from_before_runs_on(
    kinds: Kinds, checked: bool
) -> None:
    """Through our launch the driver is not sent it; below it, the call that did it is named."""

    def now(stream: int) -> None:
        if open_window.mine() is None:
            kinds.plain(stream)
        elif checked:
            kinds.fill(stream, GRID, BLOCK, *kinds.args, shared=TOO_MUCH)
        else:
            oversized(kinds.fill, stream, kinds.args)

    step = kinds.ready(kinds.plain)
    kinds.now = now
    with pytest.raises(ArgTypeError if checked else CaptureFailed) as raised:
        step.recapture()
    told = str(raised.value)
    if isinstance(raised.value, CaptureFailed):
        assert ": cuLaunchKernelEx(" in told and "answered 1 CUDA_ERROR_INVALID_VALUE" in told
        assert f"/{FILE}:" in (raised.value.where or "")
        assert "its arguments are wrong" in raised.value.remedy
        assert "no new graph, the old one is live: CaptureFailed" in kinds.micro.said[0]
    else:
        assert told.startswith(f"fill: shared wants at most {kinds.micro.rig.device.most_shared} ")
        assert f"given {TOO_MUCH}: let a block work on a smaller tile" in told
    assert_sound(kinds.micro)
    driver.memory.memset_d8_async(kinds.x.address, 0, 4 * N, kinds.micro.stream)
    step()
    assert step.phase is Phase.READY and kinds.values() == {3.0}


def test_too_much_shared_memory_in_a_plain_step_is_the_bodys_own_error(kinds: Kinds) -> None:
    kinds.now = lambda stream: kinds.fill(stream, GRID, BLOCK, *kinds.args, shared=TOO_MUCH)
    step = kinds.micro.step(body=kinds.body)
    with pytest.raises(ArgTypeError, match=f"fill: shared wants at most .*, given {TOO_MUCH}: let"):
        step()
    assert step.phase is Phase.COLD and step.report().refusals == 0
