"""Capture and graphs through the thin calls: what is recorded, replayed, updated, asked."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as bindings

from lowgraph.driver import entry, event, gate, graph, memory, stream
from lowgraph.errors import CaptureError, ConfigError, DriverError
from lowgraph.kernels import Kernel
from tests.support.rig import Buffer, Rig

pytestmark = pytest.mark.both

KERNELS = Path(__file__).with_name("kernels.cu")
N = 100


@pytest.fixture
def scale(rig: Rig) -> Kernel:
    kernel = rig.library.kernel(KERNELS, "scale")
    rig.library.make_resident()
    return kernel


@pytest.fixture
def x(rig: Rig) -> Buffer:
    return rig.put(np.arange(N, dtype=np.float32))


class Recording:
    """A captured graph; the handle is set when the block ends."""

    handle: int = 0


@contextmanager
def captured(rig: Rig, mode: str = "thread_local") -> Iterator[Recording]:
    recording = Recording()
    stream.begin_capture(rig.stream, mode)
    yield recording
    recording.handle = stream.end_capture(rig.stream)


def test_recorded_work_runs_at_the_launch_only(rig: Rig, scale: Kernel, x: Buffer) -> None:
    y = rig.empty(N)
    with captured(rig) as recording:
        assert stream.capture_status(rig.stream) == "active"
        scale(rig.stream, 1, 128, y, x, 2.0, N)
    assert stream.capture_status(rig.stream) == "none"
    assert np.isnan(rig.get(y)).all()
    executable = graph.instantiate(recording.handle)
    graph.upload(executable, rig.stream)
    graph.launch(executable, rig.stream)
    assert rig.get(y).tolist() == [2.0 * i for i in range(N)]
    graph.exec_destroy(executable)
    graph.destroy(recording.handle)


def test_nodes_edges_and_parameters(rig: Rig, scale: Kernel, x: Buffer) -> None:
    y = rig.empty(N)
    with captured(rig) as recording:
        memory.memset_d8_async(y.address, 0, y.nbytes, rig.stream)
        ongoing = stream.capture_graph(rig.stream)
        assert ongoing is not None
        assert graph.count_nodes(ongoing) == 1
        scale(rig.stream, (3, 2), (64, 2), y, x, 2.5, N, shared=16)
        memory.copy_dtod_async(x.address, y.address, x.nbytes, rig.stream)
    assert stream.capture_graph(rig.stream) is None
    nodes = graph.nodes(recording.handle)
    by_type = {graph.node_type(node): node for node in nodes}
    assert sorted(by_type) == ["kernel", "memcpy", "memset"]
    order = [by_type[kind] for kind in ("memset", "kernel", "memcpy")]
    assert sorted(graph.edges(recording.handle)) == sorted(itertools.pairwise(order))
    params = graph.kernel_params(by_type["kernel"])
    assert params.function == graph.function_of(by_type["kernel"])
    assert (params.grid, params.block, params.shared) == ((3, 2, 1), (64, 2, 1), 16)
    expected = [struct.pack("Q", y.address), struct.pack("Q", x.address)]
    assert params.args == (*expected, struct.pack("f", 2.5), struct.pack("i", N))
    assert graph.cluster_of(by_type["kernel"]) == (0, 0, 0)
    graph.destroy(recording.handle)


def test_fork_and_join(rig: Rig, scale: Kernel, x: Buffer) -> None:
    y, z, other = rig.empty(N), rig.empty(N), stream.create()
    fork, join = event.create(), event.create()
    with captured(rig) as recording:
        event.record(fork, rig.stream)
        stream.wait_event(other, fork)
        scale(rig.stream, 1, 128, y, x, 2.0, N)
        scale(other, 1, 128, z, x, 3.0, N)
        event.record(join, other)
        stream.wait_event(rig.stream, join)
        scale(rig.stream, 1, 128, z, z, 2.0, N)
    assert len(graph.nodes(recording.handle)) == 3
    assert len(graph.edges(recording.handle)) == 2
    graph.destroy(recording.handle)
    for handle in (fork, join):
        event.destroy(handle)
    stream.destroy(other)


def test_kernels_keep_the_priorities_of_their_streams(
    rig: Rig, scale: Kernel, x: Buffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the graph, and in the executable, which would have that of its launch's stream else."""
    greatest, y = stream.greatest_priority(), rig.empty(N)
    assert greatest < 0
    urgent = stream.create(priority=greatest)
    assert (stream.priority_of(urgent), stream.priority_of(rig.stream)) == (greatest, 0)
    ready, done = event.create(), event.create()
    stream.begin_capture(rig.stream, "thread_local")
    scale(rig.stream, 1, 128, y, x, 2.0, N)
    event.record(ready, rig.stream)
    stream.wait_event(urgent, ready)
    scale(urgent, 1, 128, x, y, 2.0, N)
    event.record(done, urgent)
    stream.wait_event(rig.stream, done)
    handle = stream.end_capture(rig.stream)
    priority = bindings.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    found = [bindings.cuGraphKernelNodeGetAttribute(node, priority) for node in graph.nodes(handle)]
    assert [(int(code), value.priority) for code, value in found] == [(0, 0), (0, greatest)]
    seen = list[Any]()
    monkeypatch.setattr(gate, "observer", lambda name, args, code: seen.append((name, args)))
    executable = graph.instantiate(handle)
    monkeypatch.undo()
    # Asked of the call: the driver does not tell of this flag (cuGraphExecGetFlags is 0).
    wanted = bindings.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
    assert seen == [("cuGraphInstantiate", (handle, int(wanted)))]
    graph.exec_destroy(executable)
    graph.destroy(handle)
    for each in (ready, done):
        event.destroy(each)
    stream.destroy(urgent)


def test_update_changes_what_the_executable_does(rig: Rig, scale: Kernel, x: Buffer) -> None:
    y = rig.empty(N)
    recordings = []
    for factor in (2.0, 7.0):
        with captured(rig) as recording:
            scale(rig.stream, 1, 128, y, x, factor, N)
        recordings.append(recording.handle)
    executable = graph.instantiate(recordings[0])
    assert graph.update(executable, recordings[1]) == graph.UpdateResult(True, 0, "SUCCESS", None)
    graph.launch(executable, rig.stream)
    assert rig.get(y)[3] == 21.0
    graph.exec_destroy(executable)
    for handle in recordings:
        graph.destroy(handle)


def test_refused_update_gives_reason_and_node(rig: Rig, scale: Kernel, x: Buffer) -> None:
    y = rig.empty(N)
    with captured(rig) as first:
        scale(rig.stream, 1, 128, y, x, 2.0, N)
    with captured(rig) as longer:
        scale(rig.stream, 1, 128, y, x, 2.0, N)
        scale(rig.stream, 1, 128, y, y, 2.0, N)
    with captured(rig) as fill:
        memory.memset_d8_async(y.address, 0, y.nbytes, rig.stream)
    executable = graph.instantiate(first.handle)
    refused = graph.update(executable, longer.handle)
    assert (refused.ok, refused.code, refused.reason) == (False, 910, "TOPOLOGY_CHANGED")
    refused = graph.update(executable, fill.handle)
    assert (refused.ok, refused.reason) == (False, "NODE_TYPE_CHANGED")
    assert refused.node is not None
    graph.launch(executable, rig.stream)  # as before
    assert rig.get(y)[3] == 6.0
    graph.exec_destroy(executable)
    for recording in (first, longer, fill):
        graph.destroy(recording.handle)


def test_host_function_runs_at_every_replay(rig: Rig) -> None:
    calls: list[int] = []
    function = entry.HOST_FUNCTION(calls.append)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    with captured(rig) as recording:
        entry.launch_host_function(rig.stream, address, 77)
    executable = graph.instantiate(recording.handle)
    for _ in range(3):  # the bindings' own wrapper crashes at the second
        graph.launch(executable, rig.stream)
    rig.sync()
    assert calls == [77, 77, 77]
    graph.exec_destroy(executable)
    graph.destroy(recording.handle)


@pytest.mark.parametrize("mode", ["global", "thread_local"])
def test_allocation_in_a_capture_invalidates_it(rig: Rig, mode: str) -> None:
    stream.begin_capture(rig.stream, mode)
    with pytest.raises(CaptureError) as caught:
        memory.alloc(64)
    assert (caught.value.call, caught.value.code) == ("cuMemAlloc", 900)
    assert stream.capture_status(rig.stream) == "invalidated"
    with pytest.raises(CaptureError) as caught:
        stream.end_capture(rig.stream)
    assert caught.value.code == 901
    assert stream.capture_status(rig.stream) == "none"


def test_oversized_launch_is_refused_before_it_can_invalidate(rig: Rig, scale: Kernel) -> None:
    x = rig.put(np.ones(4, np.float32))
    with captured(rig) as recording:
        for grid, block in ((1, 4096), (1, (32, 64)), (1, (1, 1, 65)), ((1, 65536), 32)):
            with pytest.raises(Exception, match=r"scale: (block|grid) wants at most"):
                scale(rig.stream, grid, block, x, x, 1.0, 4)
        scale(rig.stream, 1, 4, x, x, 1.0, 4)
    assert graph.count_nodes(recording.handle) == 1
    graph.destroy(recording.handle)


def test_end_without_begin_and_unknown_mode(rig: Rig) -> None:
    with pytest.raises(DriverError, match="cuStreamEndCapture"):
        stream.end_capture(rig.stream)
    with pytest.raises(ConfigError, match="global, thread_local, relaxed"):
        stream.begin_capture(rig.stream, "local")
