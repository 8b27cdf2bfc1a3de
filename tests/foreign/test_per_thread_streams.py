"""Programs with per-thread default streams: found by symbol and by cuGetProcAddress."""

from __future__ import annotations

import ctypes
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import Device
from lowgraph.hostdev import build
from lowgraph.hostdev.toolchain import cuda_include_dirs
from tests.foreign import programs

NOT_READY, PER_THREAD = 600, 2
PER_THREAD_FLAG = 2  # of cuGetProcAddress
HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture
def library(device: Device) -> Any:
    return ctypes.CDLL("libcuda.so.1")


def by_symbol(library: Any, name: str) -> Any:
    return getattr(library, f"{name}_ptsz")


def by_flag(library: Any, name: str) -> Any:
    found = ctypes.c_void_p()
    code = library.cuGetProcAddress_v2(
        name.encode(), ctypes.byref(found), 12000, ctypes.c_ulonglong(PER_THREAD_FLAG), None
    )
    assert code == 0
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(found.value or 0)


@pytest.mark.both
@pytest.mark.parametrize("find", [by_symbol, by_flag])
def test_stream_0_is_the_threads_own(library: Any, device: Device, find: Any) -> None:
    """One thread's is held by a host function; another's, and its wait, are free of it."""
    gate = threading.Event()
    hold = HostFunction(lambda _data: gate.wait() and None)
    assert library.cuLaunchHostFunc_ptsz(None, hold, None) == 0
    seen: list[int] = []

    def other() -> None:
        device.make_current()
        seen.append(find(library, "cuStreamSynchronize")(None))
        seen.append(find(library, "cuStreamQuery")(None))

    try:
        mine = find(library, "cuStreamQuery")(None)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(20)
    finally:
        gate.set()
    assert (mine, seen) == (NOT_READY, [0, 0])
    assert find(library, "cuStreamSynchronize")(None) == 0
    assert int(cu.cuStreamQuery(PER_THREAD)[0]) == 0, "and it is the stream of that handle"


@pytest.mark.both
def test_a_synchronous_copy_is_ordered_with_the_threads_own(library: Any, device: Device) -> None:
    """It does not wait for the stream of another thread, as one on the legacy stream would."""
    (_, memory), event = cu.cuMemAlloc(4), threading.Event()
    address, size = ctypes.c_uint64(int(memory)), ctypes.c_size_t(4)
    hold = HostFunction(lambda _data: event.wait() and None)
    values: list[int] = []

    def other() -> None:
        device.make_current()
        value = ctypes.c_uint32(0)
        assert library.cuMemsetD32Async_ptsz(address, 7, ctypes.c_size_t(1), None) == 0
        assert library.cuMemcpyDtoH_v2_ptds(ctypes.byref(value), address, size) == 0
        values.append(value.value)

    assert library.cuLaunchHostFunc_ptsz(None, hold, None) == 0
    try:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(20)
        assert values == [7], "while this thread's stream is held"
    finally:
        event.set()
        thread.join()
        library.cuStreamSynchronize_ptsz(None)
        cu.cuMemFree(memory)


OF_CUDA_13 = {"cuMemcpyBatchAsync_v2_ptsz", "cuMemPrefetchBatchAsync_ptsz"}
"""The header of 12.9 does not have them."""


@pytest.mark.host
def test_every_call_of_the_header_has_its_symbol(device: Device) -> None:
    """For each call that the library has and cuda.h gives a suffix, there is the suffixed one."""
    header = next(
        path for folder in cuda_include_dirs() if (path := Path(folder, "cuda.h")).is_file()
    )
    found = re.findall(r"__CUDA_API_PT(DS|SZ)\((cu\w+)\)", header.read_text(errors="replace"))
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", build.library()], check=True, capture_output=True, text=True
    )
    exported = set(re.findall(r" [Ti] (cu\w+)", listing.stdout))
    wanted = {f"{name}_pt{kind.lower()}" for kind, name in found if name in exported}
    assert len(wanted) > 50
    assert wanted - exported == set()
    assert {name for name in exported if "_pt" in name} - wanted <= OF_CUDA_13


SOURCE = """
#include <cuda.h>
#include <stdio.h>
int main(void) {
    CUdevice device;
    CUcontext context;
    CUstreamCaptureStatus status;
    unsigned long long mine = 0, named = 1;
    if (cuInit(0) || cuDeviceGet(&device, 0)) return 1;
    if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) return 2;
    if (cuStreamGetId(0, &mine) || cuStreamGetId(CU_STREAM_PER_THREAD, &named)) return 3;
    if (cuStreamIsCapturing(0, &status) || status != CU_STREAM_CAPTURE_STATUS_NONE) return 4;
    printf("%d\\n", mine == named);
    return 0;
}
"""


@pytest.mark.both
@pytest.mark.parametrize(
    ("define", "same"), [((), "0"), (("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), "1")]
)
def test_a_compiled_program_has_the_stream_that_it_asked_for(
    device: Device, tmp_path: Path, define: tuple[str, ...], same: str
) -> None:
    source = tmp_path / "program.c"
    source.write_text(SOURCE)
    program = programs.build(device, source, tmp_path / "program", *define)
    done = programs.run_program(program)
    assert (done.returncode, done.stdout) == (0, f"{same}\n")
