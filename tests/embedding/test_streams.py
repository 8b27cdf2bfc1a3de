"""Streams of other libraries: the handle behind each kind of object, and a step on one of them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import ConfigError
from lowgraph.interop import SharedStream, ordered, stream_handle
from tests.embedding.small import Small


class Protocol:
    """As cuda.core's and others'."""

    def __init__(self, handle: int, version: int = 0) -> None:
        self.answer = version, handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.answer


class Torch:
    """As torch.cuda.Stream."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


class Cupy:
    """As cupy.cuda.Stream."""

    def __init__(self, handle: int) -> None:
        self.ptr = handle


KINDS = [int, Protocol, Torch, Cupy, cu.CUstream, SharedStream]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_stream_has_its_handle(kind: Any) -> None:
    assert stream_handle(kind(4096)) == 4096


@pytest.mark.parametrize("wrong", [None, True, -1, "stream", 1.0, Torch("x"), Cupy(None)])
def test_what_is_no_stream_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"is no stream: give a CUstream as an integer, or an"):
        stream_handle(wrong)


def test_another_version_of_the_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="version 1 of __cuda_stream__, lowgraph 0"):
        stream_handle(Protocol(4096, version=1))


@pytest.mark.both
@pytest.mark.parametrize("kind", [Protocol, Torch, Cupy])
def test_a_step_runs_on_a_foreign_stream_and_keeps_it(small: Small, kind: Any) -> None:
    stream = kind(small.stream)
    kept = weakref.ref(stream)
    step = small.step(stream=stream)
    del stream
    for _ in range(3):
        step()
    assert step.phase is Phase.READY and step.stream == small.stream and small.value() == 6
    gc.collect()
    assert kept() is not None


@pytest.mark.both
def test_a_dropped_graph_keeps_the_stream_until_it_has_waited(small: Small) -> None:
    from lowgraph.capture import drain_dropped
    from lowgraph.capture.handles import dropped

    stream = Protocol(small.stream)
    kept = weakref.ref(stream)
    step = small.ready(stream=stream)
    small._made.remove(step)
    del step, stream
    gc.collect()
    assert kept() is not None and dropped
    drain_dropped()
    gc.collect()
    assert kept() is None


@pytest.mark.both
def test_the_legacy_stream_of_another_library_is_refused_with_the_remedy(small: Small) -> None:
    step = small.step(stream=Torch(0))
    step()
    step()
    assert "legacy stream" in step.report().first_refusal
    assert step.report().eager_steps == 2


@pytest.mark.both
def test_a_step_on_a_stream_of_cuda_core(small: Small) -> None:
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    device = core.Device(small.rig.device.ordinal)
    device.set_current()
    theirs = device.create_stream()
    step = small.step(stream=theirs)
    for _ in range(3):
        step()
    theirs.sync()
    assert step.report().replays == 2 and small.value() == 6
    ours = device.create_stream(SharedStream(small.stream, owner=small))
    assert int(ours.handle) == small.stream
    ours.sync()
    step.close()


# ---- slices for others, behind a stream ----


@pytest.mark.host
def test_a_consumer_on_the_cpu_waits_for_the_stream(small: Small, heard: Any) -> None:
    array = ordered(small.x, Cupy(small.stream))
    assert array.__dlpack_device__() == (1, 0)
    for options, calls in (({}, ["cuStreamSynchronize"]), ({"stream": -1}, [])):
        with heard() as made:
            array.__dlpack__(**options)
        assert made == calls
    with pytest.raises(BufferError, match="DLPack has no streams on the CPU"):
        array.__dlpack__(stream=5)


@pytest.mark.gpu
@pytest.mark.parametrize("consumer", [None, 2])
def test_a_consumers_stream_on_a_gpu_waits(small: Small, heard: Any, consumer: Any) -> None:
    with heard() as made:
        ordered(small.x, small.stream).__dlpack__(stream=consumer)
    assert made == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"]


@pytest.mark.both
def test_the_array_interface_names_the_stream(small: Small) -> None:
    for stream, named in ((small.stream, small.stream), (0, driver.stream.LEGACY)):
        interface = ordered(small.x, stream).__cuda_array_interface__
        assert interface["stream"] == named and interface["data"][0] == small.x.address
