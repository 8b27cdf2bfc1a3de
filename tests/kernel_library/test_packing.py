"""Arguments by declared type: the bytes that the driver reads, and each misfit by name."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver

from lowgraph.errors import ArgTypeError, LowgraphError
from lowgraph.kernels.packing import ArgumentPack
from lowgraph.kernels.signature import read_signature


def pack_of(tmp_path: Path, params: str) -> ArgumentPack:
    path = tmp_path / "source.cu"
    path.write_text(f'extern "C" __global__ void scale({params}) {{}}')
    return ArgumentPack(read_signature(path, "scale"))


def stored(pack: ArgumentPack, *args: Any) -> list[bytes]:
    """What a driver would read through the pointer array."""
    pack.store(pack.values(args))
    pointers = (ctypes.c_void_p * len(pack.layout)).from_address(pack.address)
    sizes = [size for _, size in pack.layout]
    return [ctypes.string_at(p, size) for p, size in zip(pointers, sizes, strict=True)]


def tensor(address: int, dtype: Any) -> SimpleNamespace:
    return SimpleNamespace(address=address, dtype=np.dtype(dtype), name="x")


def test_values_arrive_at_their_own_offsets(tmp_path: Path) -> None:
    pack = pack_of(
        tmp_path, "bool flag, double d, unsigned char b, float* y, short s, float f, int n"
    )
    assert pack.layout == [(0, 1), (8, 8), (16, 1), (24, 8), (32, 2), (36, 4), (40, 4)]
    found = stored(pack, True, 2.5, 255, 0x7F00_0000_1000, -2, 0.5, -7)
    kinds = ("?", "f8", "u1", "u8", "i2", "f4", "i4")
    values = [np.frombuffer(b, k)[0] for b, k in zip(found, kinds, strict=True)]
    assert values == [True, 2.5, 255, 0x7F00_0000_1000, -2, 0.5, -7]


def test_storage_stays_where_it_is(tmp_path: Path) -> None:
    pack = pack_of(tmp_path, "int n, float x")
    before = pack.address
    assert stored(pack, 1, 1.0) != stored(pack, 2, 2.0)
    assert pack.address == before


@pytest.mark.parametrize(
    ("params", "value", "expected"),
    [
        ("int n", np.int64(5), np.int32(5)),
        ("int n", True, np.int32(1)),
        ("int n", np.bool_(True), np.int32(1)),
        ("unsigned n", 2**32 - 1, np.uint32(2**32 - 1)),
        ("long long n", -(2**63), np.int64(-(2**63))),
        ("size_t n", 2**64 - 1, np.uint64(2**64 - 1)),
        ("float x", 3, np.float32(3)),
        ("float x", np.float64(0.1), np.float32(0.1)),
        ("float x", float("inf"), np.float32("inf")),
        ("double x", np.float32(0.1), np.float64(np.float32(0.1))),
        ("bool b", np.bool_(False), np.bool_(False)),
        ("bool b", 1, np.bool_(True)),
        ("__half h", 0.333, np.float16(0.333)),
        ("__nv_bfloat16 h", 1.0, np.uint16(0x3F80)),
        ("__nv_bfloat16 h", 1.00390625, np.uint16(0x3F80)),  # a tie goes to the even neighbour
        ("__nv_bfloat16 h", 1.01171875, np.uint16(0x3F82)),
        ("__nv_bfloat16 h", float("nan"), np.uint16(0x7FC0)),
        ("__nv_bfloat16 h", float("-inf"), np.uint16(0xFF80)),
        ("float* p", 0, np.uint64(0)),
        ("float* p", np.uint64(4096), np.uint64(4096)),
        ("float* p", driver.CUdeviceptr(4096), np.uint64(4096)),
        ("float* p", tensor(4096, np.float32), np.uint64(4096)),
        ("const float4* p", tensor(4096, np.float32), np.uint64(4096)),
        ("void* p", tensor(4096, np.float64), np.uint64(4096)),
        ("float* p", SimpleNamespace(address=4096), np.uint64(4096)),
    ],
)
def test_accepted(tmp_path: Path, params: str, value: Any, expected: Any) -> None:
    assert stored(pack_of(tmp_path, params), value) == [expected.tobytes()]


@pytest.mark.parametrize(
    ("params", "value", "wanted", "given"),
    [
        ("int v", 1.0, "int", "float 1.0"),
        ("int v", 2**31, "int", "int 2147483648"),
        ("int v", -(2**31) - 1, "int", "int -2147483649"),
        ("int v", None, "int", "NoneType None"),
        ("unsigned v", -1, "unsigned", "int -1"),
        ("unsigned char v", 256, "unsigned char", "int 256"),
        ("long long v", 2**63, "long long", "int"),
        ("float v", "1", "float", "str '1'"),
        ("float v", 1e300, "float", "float 1e+300"),
        ("float v", None, "float", "NoneType"),
        ("float v", 1j, "float", "complex"),
        ("float v", np.zeros(2, np.float32), "float", "ndarray array([0., 0.]"),
        ("int v", np.zeros(2, np.int32), "int", "ndarray array([0, 0]"),
        ("__half v", np.zeros(2, np.float16), "__half", "ndarray array([0., 0.]"),
        ("__nv_bfloat16 v", np.zeros(2), "__nv_bfloat16", "ndarray array([0., 0.])"),
        ("__half v", 1e6, "__half", "float 1000000.0"),
        ("__nv_bfloat16 v", "x", "__nv_bfloat16", "str 'x'"),
        ("bool v", 2, "bool", "int 2"),
        ("bool v", 0.0, "bool", "float 0.0"),
        ("float* v", -8, "float*", "int -8"),
        ("float* v", 2**64, "float*", "int"),
        ("float* v", True, "float*", "bool True"),
        ("float* v", None, "0 for null", "NoneType None"),
        ("float* v", 1.0, "float*", "float 1.0"),
        ("float* v", np.zeros(2, np.float32), "float*", "NumPy array of float32: upload it"),
        ("float* v", tensor(4096, np.float64), "float32 elements", "of float64 ('x')"),
        ("int* v", tensor(4096, np.uint32), "int32 elements", "of uint32 ('x')"),
        ("__half* v", tensor(4096, np.float32), "float16 elements", "of float32 ('x')"),
    ],
)
def test_misfit_names_kernel_argument_wanted_given(
    tmp_path: Path, params: str, value: Any, wanted: str, given: str
) -> None:
    pack = pack_of(tmp_path, f"float* before, {params}, int after")
    with pytest.raises(ArgTypeError) as caught:
        stored(pack, 4096, value, 3)
    error = caught.value
    assert (error.kernel, error.argument) == ("scale", "v")
    assert wanted in error.wanted
    assert given in error.given
    assert str(error).startswith("scale: v wants ")
    assert isinstance(error, LowgraphError)


@pytest.mark.parametrize("args", [(), (1,), (1, 2, 3)])
def test_count_is_checked(tmp_path: Path, args: tuple[int, ...]) -> None:
    with pytest.raises(ArgTypeError, match=rf"scale.*2 arguments \(n, x\), given {len(args)}"):
        stored(pack_of(tmp_path, "int n, float x"), *args)


def test_no_parameters(tmp_path: Path) -> None:
    assert stored(pack_of(tmp_path, "")) == []
