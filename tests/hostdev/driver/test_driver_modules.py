"""Modules and launches: what is loaded, what is refused, with the codes that an H200 gave."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.hostdev.driver.kit import (
    INVALID_HANDLE,
    INVALID_IMAGE,
    INVALID_VALUE,
    NO_BINARY,
    NOT_FOUND,
    SUCCESS,
    Kit,
    code_of,
    must,
    pointer,
)

pytestmark = pytest.mark.host

TOO_LARGE, BAD_CLUSTER = 720, 912
SHARED = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

# The first bytes of an ELF header with the machine number of CUDA (190).
CUBIN = b"\x7fELF\x02\x01\x01\x33" + bytes(8) + b"\x02\x00\xbe\x00" + bytes(200)
FAT_BINARY = bytes.fromhex("50ed55ba01001000") + bytes(200)
PTX = b"//\n// Generated\n//\n.version 8.8\n.target sm_90\n.address_size 64\n\0"
RELOCATABLE = b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x01\x00\x3e\x00" + bytes(200)


@pytest.mark.parametrize(
    ("image", "code"),
    [
        (CUBIN, NO_BINARY),
        (FAT_BINARY, NO_BINARY),
        (PTX, NO_BINARY),
        (RELOCATABLE, INVALID_IMAGE),
        (b"hello, this is not an image" + bytes(100), INVALID_IMAGE),
    ],
    ids=["cubin", "fat binary", "ptx", "relocatable", "garbage"],
)
def test_an_image_that_is_none_of_ours_is_refused(kit: Kit, image: bytes, code: int) -> None:
    assert code_of(cu.cuModuleLoadData(image)) == code


def test_names_that_are_not_there(kit: Kit) -> None:
    assert code_of(cu.cuModuleGetFunction(kit.module, b"nope")) == NOT_FOUND
    assert code_of(cu.cuModuleGetGlobal(kit.module, b"nope")) == NOT_FOUND
    assert code_of(cu.cuModuleGetFunction(kit.module, b"table")) == NOT_FOUND


def test_two_loads_of_an_image_are_two_modules(kit: Kit) -> None:
    other = must(cu.cuModuleLoadData(kit.image))
    first, size = must(cu.cuModuleGetGlobal(kit.module, b"table"))
    second, _ = must(cu.cuModuleGetGlobal(other, b"table"))
    assert size == 16
    assert int(first) != int(second)
    must(cu.cuMemsetD32(first, 0, 4))
    out = kit.put([9.0] * 4)
    assert kit.launch("read_table", pointer(out), block=4) == SUCCESS
    assert kit.get(out, 4) == [0.0] * 4
    assert kit.get(int(second), 4) == [1.0, 2.0, 3.0, 4.0]
    must(cu.cuModuleUnload(other))
    assert code_of(cu.cuMemsetD32(second, 0, 4)) == INVALID_VALUE


def test_an_unload_waits_for_the_kernels_and_ends_their_handles(kit: Kit) -> None:
    other, stream, x = must(cu.cuModuleLoadData(kit.image)), kit.stream(), kit.put([1.0])
    function = must(cu.cuModuleGetFunction(other, b"scale"))
    values = (pointer(x), pointer(x), ctypes.c_float(3.0), ctypes.c_int(1))
    params = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
    launch = (function, 1, 1, 1, 1, 1, 1, 0, stream, ctypes.addressof(params), 0)
    ran: list[int] = []
    kit.call_host(stream, lambda: ran.append(1))
    must(cu.cuLaunchKernel(*launch))
    must(cu.cuModuleUnload(other))
    assert ran == [1]
    assert kit.get(x, 1) == [3.0]
    assert code_of(cu.cuLaunchKernel(*launch)) == INVALID_HANDLE


def test_arguments_of_mixed_size_arrive(kit: Kit) -> None:
    out = kit.put([0.0])
    values = (ctypes.c_char(5), ctypes.c_double(0.25), ctypes.c_short(-2), pointer(out))
    assert kit.launch("mixed", *values) == SUCCESS
    assert kit.get(out, 1) == [3.25]
    function = kit.function("mixed")
    layout = [tuple(must(cu.cuFuncGetParamInfo(function, i))) for i in range(4)]
    assert layout == [(0, 1), (8, 8), (16, 2), (24, 8)]
    assert code_of(cu.cuFuncGetParamInfo(function, 4)) == INVALID_VALUE


def test_arguments_may_come_as_one_buffer(kit: Kit) -> None:
    """CU_LAUNCH_PARAM_BUFFER_POINTER: the packed bytes at the kernel's own offsets."""
    out = kit.put([0.0])

    class Packed(ctypes.Structure):
        _fields_ = (
            ("a", ctypes.c_char),
            ("b", ctypes.c_double),
            ("c", ctypes.c_short),
            ("d", ctypes.c_uint64),
        )

    packed, size = Packed(b"\x05", 0.25, -2, out), ctypes.c_size_t(ctypes.sizeof(Packed))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)
    function = kit.function("mixed")
    must(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, ctypes.addressof(extra)))
    assert kit.get(out, 1) == [3.25]


def launch_shape(
    kit: Kit, name: str, grid: tuple[int, ...], block: tuple[int, ...], shared: int
) -> int:
    out = pointer(kit.alloc(4096))
    params = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    function = kit.function(name)
    return code_of(
        cu.cuLaunchKernel(function, *grid, *block, shared, 0, ctypes.addressof(params), 0)
    )


@pytest.mark.parametrize(
    ("name", "grid", "block", "shared", "code"),
    [
        ("bounded", (1, 1, 1), (64, 1, 1), 0, SUCCESS),
        ("bounded", (1, 1, 1), (128, 1, 1), 0, INVALID_VALUE),
        ("dynamic_shared", (1, 1, 1), (2048, 1, 1), 0, INVALID_VALUE),
        ("dynamic_shared", (1, 1, 1), (32, 64, 1), 0, INVALID_VALUE),
        ("dynamic_shared", (1, 1, 1), (1, 1, 128), 0, INVALID_VALUE),
        ("dynamic_shared", (0, 1, 1), (1, 1, 1), 0, INVALID_VALUE),
        ("dynamic_shared", (1, 1, 1), (0, 1, 1), 0, INVALID_VALUE),
        ("dynamic_shared", (1, 70000, 1), (1, 1, 1), 0, INVALID_VALUE),
        ("dynamic_shared", (1, 1, 1), (1, 1, 1), 49152, SUCCESS),
        ("dynamic_shared", (1, 1, 1), (1, 1, 1), 49153, INVALID_VALUE),
        ("large_shared", (1, 1, 1), (2, 1, 1), 9000, SUCCESS),
        ("large_shared", (1, 1, 1), (2, 1, 1), 9500, INVALID_VALUE),
    ],
)
def test_launch_limits(
    kit: Kit, name: str, grid: tuple[int, ...], block: tuple[int, ...], shared: int, code: int
) -> None:
    assert launch_shape(kit, name, grid, block, shared) == code


def test_more_shared_memory_must_be_asked_for(kit: Kit) -> None:
    function = kit.function("dynamic_shared")

    def with_limit(limit: int, shared: int) -> tuple[int, int]:
        answer = code_of(cu.cuFuncSetAttribute(function, SHARED, limit))
        return answer, launch_shape(kit, "dynamic_shared", (1, 1, 1), (1, 1, 1), shared)

    assert with_limit(232448, 232448) == (SUCCESS, SUCCESS)
    assert with_limit(232449, 232449) == (INVALID_VALUE, INVALID_VALUE)
    assert with_limit(1000, 2000) == (SUCCESS, INVALID_VALUE)
    assert with_limit(-5, 1000) == (INVALID_VALUE, SUCCESS)
    assert code_of(cu.cuFuncSetAttribute(kit.function("large_shared"), SHARED, 232448)) == 1


def test_function_attributes(kit: Kit) -> None:
    ask = cu.CUfunction_attribute
    bounded, static = kit.function("bounded"), kit.function("large_shared")
    assert must(cu.cuFuncGetAttribute(ask.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded)) == 64
    assert must(cu.cuFuncGetAttribute(ask.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, static)) == 40000
    assert must(cu.cuFuncGetAttribute(SHARED, bounded)) == 49152
    assert must(cu.cuFuncGetName(bounded)) == b"bounded"
    assert int(must(cu.cuFuncGetModule(bounded))) == int(kit.module)


def test_a_function_is_loaded_when_it_is_asked_to_be(kit: Kit) -> None:
    module = must(cu.cuModuleLoadData(kit.image))
    function = must(cu.cuModuleGetFunction(module, b"poke"))
    assert int(must(cu.cuFuncIsLoaded(function))) == 0
    must(cu.cuFuncLoad(function))
    assert int(must(cu.cuFuncIsLoaded(function))) == 1
    must(cu.cuModuleUnload(module))


def launch_with(kit: Kit, grid: int, attribute: Any) -> int:
    config = cu.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1
    config.hStream = cu.CUstream(0)
    config.attrs, config.numAttrs = [attribute], 1
    out = pointer(kit.alloc(4096))
    params = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    return code_of(
        cu.cuLaunchKernelEx(config, kit.function("bounded"), ctypes.addressof(params), 0)
    )


@pytest.mark.parametrize(
    ("grid", "cluster", "code"),
    [
        (4, 2, SUCCESS),
        (16, 8, SUCCESS),
        (3, 2, BAD_CLUSTER),
        (16, 16, BAD_CLUSTER),
        (4, 0, BAD_CLUSTER),
    ],
)
def test_clusters(kit: Kit, grid: int, cluster: int, code: int) -> None:
    attribute = cu.CUlaunchAttribute()
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    size = attribute.value.clusterDim
    size.x, size.y, size.z = cluster, 1, 1
    assert launch_with(kit, grid, attribute) == code


def test_a_cooperative_grid_must_fit_at_once(kit: Kit) -> None:
    attribute = cu.CUlaunchAttribute()
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    attribute.value.cooperative = 1
    assert launch_with(kit, 10, attribute) == SUCCESS
    assert launch_with(kit, 1000000, attribute) == TOO_LARGE


def test_a_library_is_a_module_without_a_context(kit: Kit) -> None:
    library = must(cu.cuLibraryLoadData(kit.image, [], [], 0, [], [], 0))
    kernel = must(cu.cuLibraryGetKernel(library, b"poke"))
    assert must(cu.cuKernelGetName(kernel)) == b"poke"
    assert must(cu.cuLibraryGetKernelCount(library)) == 10
    function = must(cu.cuKernelGetFunction(kernel))
    assert tuple(must(cu.cuFuncGetParamInfo(function, 1))) == (8, 8)
    must(cu.cuLibraryUnload(library))
    assert code_of(cu.cuKernelGetFunction(kernel)) == INVALID_HANDLE
