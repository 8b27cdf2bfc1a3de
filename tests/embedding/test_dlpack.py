"""Slices as arrays of other libraries and their arrays as memory of ours, by DLPack."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

from lowgraph import interop
from lowgraph.errors import ConfigError, PoolError
from lowgraph.memory import PersistentPool, dlpack
from lowgraph.memory.dlpack import capsule_of, is_dense, read_array
from lowgraph.memory.slices import Slice
from tests.embedding.arrays import Exporter, Interface
from tests.embedding.small import N, Small

pytestmark = pytest.mark.both

DTYPES = ["f4", "f8", "f2", "i1", "u2", "i8", "?", "c8"]
VERSIONS = [None, (0, 8), (1, 0), (1, 1)]


def takes_over(piece: Any, **options: Any) -> object:
    """A consumer of the capsule: it holds it, as a tensor would."""
    return piece.__dlpack__(**options)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_slice_goes_out_and_comes_back_as_it_was(small: Small, dtype: str, version: Any) -> None:
    piece = small.pool.take("piece", (3, 5, 2), dtype)

    class Versioned:
        __dlpack_device__ = piece.__dlpack_device__

        def __dlpack__(self, **options: Any) -> object:
            return piece.__dlpack__(**{**options, "max_version": version})

    found = read_array(Versioned(), "piece")
    assert (found.address, found.shape, found.dtype) == (piece.address, (3, 5, 2), np.dtype(dtype))
    assert found.dense and found.place == small.rig.device.dlpack_device


def test_a_part_goes_out_with_its_own_place(small: Small) -> None:
    part = small.x.part(100, (2, 3))
    found = read_array(part, "part")
    assert (found.address, found.shape) == (small.x.address + 400, (2, 3))


def test_an_array_holds_the_memory_of_a_slice_that_was_given_back(small: Small) -> None:
    piece = small.put("piece", 7)
    address, array = piece.address, takes_over(piece)
    small.pool.give_back(piece)
    others = [small.pool.take(f"other {n}", N) for n in range(3)]
    assert address not in [other.address for other in others]
    with pytest.raises(PoolError, match="serves an array over 'piece': close that first"):
        small.pool.close()
    assert small.pool.stats().retained == 4096
    del array
    assert small.pool.stats().retained == 0
    assert small.pool.take("again", N).address == address


@pytest.mark.parametrize("call", ["take", "close", "trim", "holdings", "stats", "layout"])
def test_each_look_at_the_pool_sees_an_array_gone(rig: Any, call: str) -> None:
    pool = PersistentPool(rig.device)
    piece = pool.take("piece", N)
    array = takes_over(piece)
    pool.give_back(piece)
    del array
    acts = {"take": lambda: pool.take("x", N), "holdings": pool.holdings, "stats": pool.stats,
            "close": pool.close, "trim": pool.trim, "layout": pool.layout}  # fmt: skip
    answer = acts[call]()
    if call == "take":
        assert answer.generation == 2
    elif call == "trim":
        assert answer == 4096
    elif call == "holdings":
        assert answer == ()
    elif call == "layout":
        assert [place.state for place in answer] == ["free"]
    pool.close()


def test_an_array_made_in_a_body_outlives_the_graph(small: Small) -> None:
    kept: list[Any] = []

    def body(stream: int) -> None:
        sums = small.pool.take("sums", N)
        kept[:] = [takes_over(sums), sums.address]
        small.add(stream, 8, 128, small.y, small.x, N)
        small.add(stream, 8, 128, sums, small.x, N)

    step = small.step(body)
    step()
    kept.clear()  # else the block that the priming pass took would not be there to be recorded
    step()
    assert step.graph is not None, step.report().text()
    step.close()
    assert small.pool.who_owns(kept[1]) is not None, "the array that the recorded pass made"
    kept.clear()
    assert small.pool.stats().retained == 0


def test_a_slice_given_back_cannot_go_out(small: Small) -> None:
    piece = small.pool.take("piece", N)
    small.pool.give_back(piece)
    with pytest.raises(PoolError, match=r"'piece' .* was given back"):
        piece.__dlpack__()
    with pytest.raises(PoolError, match=r"'piece' .* was given back"):
        _ = piece.__cuda_array_interface__


@pytest.mark.parametrize(
    ("options", "told"),
    [({"dl_device": (99, 0)}, "is on DLPack device .* not on"), ({"copy": True}, "not copied")],
)
def test_another_device_and_a_copy_are_refused(small: Small, options: Any, told: str) -> None:
    with pytest.raises(BufferError, match=told):
        small.x.__dlpack__(**options)
    small.x.__dlpack__(dl_device=small.rig.device.dlpack_device, copy=False)


def test_a_dtype_that_dlpack_has_not_is_refused_and_holds_nothing(small: Small) -> None:
    piece = small.pool.take("times", N, "M8[s]")
    with pytest.raises(BufferError, match="no element type datetime64"):
        piece.__dlpack__()
    small.pool.give_back(piece)
    assert small.pool.stats().retained == 0


def test_a_slice_of_no_pool_has_no_device() -> None:
    piece = Slice(4096, "alone", (1,), np.dtype(np.float32))
    for act in (piece.__dlpack__, piece.__dlpack_device__, lambda: piece.__cuda_array_interface__):
        with pytest.raises(PoolError, match="'alone' belongs to no pool"):
            act()


def test_the_array_interface_of_a_slice(small: Small) -> None:
    piece = small.pool.take("piece", (4, 3), np.int16)
    assert piece.__cuda_array_interface__ == {
        "shape": (4, 3), "typestr": "<i2", "data": (piece.address, False), "strides": None,
        "stream": None, "version": 3,
    }  # fmt: skip
    assert small.pool.take("none", 0).__cuda_array_interface__["data"] == (0, False)


# ---- theirs ----


@pytest.mark.parametrize("versioned", [True, False])
def test_foreign_memory_has_the_array_and_keeps_it(small: Small, versioned: bool) -> None:
    exporter = Exporter(small.x, versioned)
    found = interop.foreign_memory(exporter.export(), "theirs")
    assert (found.address, found.nbytes, found.name) == (small.x.address, 4 * N, "theirs")
    assert (found.shape, found.dtype) == ((N,), np.float32)
    gc.collect()
    held = exporter.let_go
    del found
    gc.collect()
    assert exporter.let_go == held + 1, "the capsule was kept until then"


def test_foreign_memory_of_the_array_interface(small: Small) -> None:
    array = Interface(small.x.part(0, (10, 100)), strides=(400, 4))
    found = interop.foreign_memory(array)
    assert (found.address, found.shape, found.owner) == (small.x.address, (10, 100), array)


def test_a_stream_is_made_to_wait_for_the_producers(small: Small, heard: Any) -> None:
    other = interop.stream_handle(small.stream)
    with heard() as calls:
        interop.foreign_memory(Interface(small.x, stream=1), "theirs", stream=other)
    assert calls == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"]
    with heard() as calls:
        interop.foreign_memory(Interface(small.x, stream=1), "theirs")
        interop.foreign_memory(Interface(small.x), "theirs", stream=other)
    assert calls == []


@pytest.mark.parametrize(("stream", "told"), [(None, -1), (7, 7), (0, 1)])
def test_a_dlpack_producer_is_told_the_stream(
    small: Small, stream: int | None, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = Exporter(small.x)
    exporter.place = (2, 0)  # CUDA, which the host device's is as well
    interop.foreign_memory(exporter.export(), "theirs", stream=stream)
    assert exporter.asked[1 if stream is not None else 0]["stream"] == told


def test_an_array_of_another_device_is_refused(small: Small) -> None:
    exporter = Exporter(small.x)
    exporter.place = (4, 0)  # OpenCL
    with pytest.raises(ConfigError, match=r"'theirs' is on DLPack device \(4, 0\), .* cannot read"):
        interop.foreign_memory(exporter.export(), "theirs")


def test_a_strided_array_is_refused(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowgraph.memory.dlpack._steps", lambda shape: [1, 10])
    exporter = Exporter(small.x.part(0, (10, 100)))
    with pytest.raises(ConfigError, match=r"'theirs' .*strided: make it contiguous"):
        interop.foreign_memory(exporter.export(), "theirs")
    with pytest.raises(ConfigError, match=r"'theirs' has strides \(4, 40\)"):
        interop.foreign_memory(Interface(small.x.part(0, (10, 100)), strides=(4, 40)), "theirs")


def test_a_freed_array_is_refused(small: Small) -> None:
    exporter = Exporter(small.x)
    exporter.address = 0
    with pytest.raises(PoolError, match="'theirs': its Foreign has no memory any more"):
        interop.foreign_memory(exporter.export(), "theirs")


def test_dense_strides() -> None:
    assert (
        is_dense((2, 3), (3, 1), 1) and is_dense((1, 3), (99, 1), 1) and is_dense((0, 3), (7,), 1)
    )
    assert not is_dense((2, 3), (1, 2), 1) and not is_dense((2, 3), (12, 8), 4)


class Broken:
    """A producer that raises, or returns what it should not."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (BufferError("requires grad"), "Broken cannot be shared by DLPack: requires grad"),
        (ValueError("odd"), "cannot be shared by DLPack: odd"),
        ("text", "returned str, no DLPack capsule"),
    ],
)
def test_a_producer_that_does_not_deliver(answer: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_array(Broken(answer), "x")


def _changed(offset: int, value: bytes) -> object:
    """A versioned capsule with some bytes changed."""
    capsule = capsule_of(4096, (1,), np.dtype("f4"), (1, 0), versioned=True, end=lambda: None)
    at = dlpack._pointer(capsule, b"dltensor_versioned")
    ctypes.memmove(at + offset, value, len(value))
    return capsule


_DTYPE_AT = 8 + 8 + 8 + 8 + 8 + 8 + 4  # version, context, deleter, flags, data, device, ndim


@pytest.mark.parametrize(
    ("offset", "value", "told"),
    [
        (0, b"\x02", "speaks DLPack 2, lowgraph 1"),
        (_DTYPE_AT, b"\x0a\x08", r"\(code 10, 8 bits, 1 lanes\) has no NumPy dtype"),
        (_DTYPE_AT + 2, b"\x04", r"\(code 2, 32 bits, 4 lanes\) has no NumPy dtype"),
        (_DTYPE_AT + 1, b"\x04", r"\(code 2, 4 bits, 1 lanes\) has no NumPy dtype"),
        (_DTYPE_AT + 1, b"\x18", r"\(code 2, 24 bits, 1 lanes\) has no NumPy dtype"),
    ],
)
def test_what_cannot_be_read_is_told(offset: int, value: bytes, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_array(Broken(_changed(offset, value)), "x")


def test_bfloat16_is_read_as_its_bits() -> None:
    assert read_array(Broken(_changed(_DTYPE_AT, b"\x04\x10")), "x").dtype == np.uint16
