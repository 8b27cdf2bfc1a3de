"""How programs find the calls: by name and version, as plain symbols, by the library's name."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import pytest

from lowgraph import hostdev
from lowgraph.driver import Device
from lowgraph.hostdev import build
from lowgraph.hostdev.toolchain import cuda_include_dirs, find_compiler
from tests.support.process import output_of

pytestmark = pytest.mark.host

SUCCESS, INVALID_VALUE = 0, 1
FOUND, NOT_FOUND, NOT_SUFFICIENT, UNTOUCHED = 0, 1, 2, -9


def ask(name: str, version: int, flags: int = 0) -> tuple[int, int, int]:
    """Code, status and address that cuGetProcAddress_v2 gives."""
    function, status = ctypes.c_void_p(), ctypes.c_int(UNTOUCHED)
    code = hostdev.load().cuGetProcAddress_v2(
        name.encode(),
        ctypes.byref(function),
        version,
        ctypes.c_ulonglong(flags),
        ctypes.byref(status),
    )
    return code, status.value, function.value or 0


def symbol(name: str) -> int:
    return ctypes.cast(getattr(hostdev.load(), name), ctypes.c_void_p).value or 0


# Recorded on an H200, driver 13.0.
@pytest.mark.parametrize(
    ("name", "version", "flags", "code", "status"),
    [
        ("cuMemAlloc", 3020, 0, SUCCESS, FOUND),
        ("cuMemAlloc", 13000, 0, SUCCESS, FOUND),
        ("cuMemAlloc", 1000, 0, SUCCESS, NOT_SUFFICIENT),
        ("cuMemAlloc", 13010, 0, INVALID_VALUE, UNTOUCHED),
        ("cuMemAlloc_v2", 12000, 0, SUCCESS, NOT_FOUND),
        ("cuNope", 12000, 0, SUCCESS, NOT_FOUND),
        ("", 12000, 0, SUCCESS, NOT_FOUND),
        ("cuGraphAddNode", 12010, 0, SUCCESS, NOT_SUFFICIENT),
        ("cuMemcpyHtoD", 12000, 2, SUCCESS, FOUND),
        ("cuLaunchKernel", 12000, 1, SUCCESS, FOUND),
        ("cuLaunchKernel", 12000, 3, SUCCESS, FOUND),
        ("cuLaunchKernel", 12000, 4, INVALID_VALUE, UNTOUCHED),
        ("cuLaunchKernel", 12000, 9, INVALID_VALUE, UNTOUCHED),
        ("cuLaunchKernel", 0, 0, SUCCESS, NOT_SUFFICIENT),
        ("cuLaunchKernel_ptsz", 12000, 0, SUCCESS, NOT_FOUND),
        ("culaunchkernel", 12000, 0, SUCCESS, NOT_FOUND),
        ("cuStreamCreate", 1000, 0, SUCCESS, NOT_SUFFICIENT),
        ("cuGraphInstantiate", 10000, 0, SUCCESS, FOUND),
        ("cuGraphInstantiate", 11000, 0, SUCCESS, FOUND),
        ("cuGraphAddKernelNode", 12000, 0, SUCCESS, FOUND),
        ("cuGraphGetId", 13000, 0, SUCCESS, NOT_FOUND),
        ("cuGraphGetId", 13010, 0, INVALID_VALUE, UNTOUCHED),
    ],
)
def test_a_name_and_a_version(
    device: Device, name: str, version: int, flags: int, code: int, status: int
) -> None:
    answer = ask(name, version, flags)
    assert answer[:2] == (code, status)
    assert (answer[2] != 0) == (status == FOUND)


@pytest.mark.parametrize(
    ("name", "version", "wanted"),
    [
        ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
        ("cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"),
        ("cuStreamGetCaptureInfo", 12020, "cuStreamGetCaptureInfo_v2"),
        ("cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"),
        ("cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"),
        ("cuCtxCreate", 11040, "cuCtxCreate_v3"),
        ("cuDeviceGetUuid", 9020, "cuDeviceGetUuid"),
        ("cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"),
    ],
)
def test_the_version_picks_the_abi(device: Device, name: str, version: int, wanted: str) -> None:
    assert ask(name, version)[2] == symbol(wanted)


def test_every_call_of_the_header_that_is_there_is_in_the_table(device: Device) -> None:
    """A call that is exported but cannot be asked for would be lost to cuda.bindings."""
    library = build.library()
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    )
    exported = set(re.findall(r" T (cu\w+)", listing.stdout))
    assert len(exported) > 200
    addresses = {symbol(name) for name in exported}
    versions = (
        2000,
        3020,
        4000,
        9020,
        10000,
        11000,
        11030,
        11040,
        12000,
        12020,
        12030,
        12050,
        12080,
        13000,
    )
    names = {re.sub(r"_v\d$", "", name) for name in exported}
    found = {ask(name, version)[2] for name in names for version in versions}
    lost = {name for name in exported if symbol(name) not in found}
    assert not lost
    assert addresses <= found


def test_there_are_no_export_tables_but_the_call_is_there(device: Device) -> None:
    table = ctypes.c_void_p(1)
    assert hostdev.load().cuGetExportTable(ctypes.byref(table), bytes(16)) == 500
    assert table.value is None


# NVRTC opens libcuda.so.1 by itself and jumps through its export table unchecked.
NVRTC = """
from lowgraph import hostdev
hostdev.load()
from cuda.bindings import nvrtc
text = b'extern "C" __global__ void k(float* x) { x[0] = 1.0f; }'
program = nvrtc.nvrtcCreateProgram(text, b"k.cu", 0, [], [])[1]
print(int(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])[0]))
"""


def test_nvrtc_compiles_beside_the_host_device(device: Device) -> None:
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    assert output_of(NVRTC).strip() == "0"


PROGRAM = r"""
#include <cuda.h>
#include <stdio.h>
int main(void) {
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    int version = 0;
    unsigned values[4] = {0, 0, 0, 0};
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDriverGetVersion(&version)) return 1;
    if (cuCtxCreate(&context, 0, device)) return 2;
    if (cuMemAlloc(&memory, sizeof values) || cuMemsetD32(memory, 7, 4)) return 3;
    if (cuMemcpyDtoH(values, memory, sizeof values) || cuMemFree(memory)) return 4;
    if (cuCtxDestroy(context)) return 5;
    printf("%d %u %u\n", version, values[0], values[3]);
    return 0;
}
"""


def test_a_c_program_links_and_runs(device: Device, tmp_path: Path) -> None:
    library = build.library()
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(PROGRAM)
    search = [f"-I{folder}" for folder in cuda_include_dirs()]
    command = [*find_compiler().command, *search, str(source), str(library), "-o", str(program)]
    subprocess.run(command, check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    done = subprocess.run(
        [program], env=env, check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "13000 7 7\n")


# A library of the same name that was loaded first stays the one that is found.
ANOTHER = """
import ctypes
ctypes.CDLL({other!r})
from lowgraph import hostdev
from lowgraph.errors import DeviceUnavailable
try:
    hostdev.load()
except DeviceUnavailable as error:
    print(error)
"""


def test_another_driver_in_the_process_is_refused(device: Device, tmp_path: Path) -> None:
    source, other = tmp_path / "other.cpp", tmp_path / "libcuda.so.1"
    source.write_text('extern "C" int cuInit(unsigned) { return 0; }\n')
    flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*find_compiler().command, *flags, str(source), "-o", str(other)], check=True)
    message = output_of(ANOTHER.format(other=str(other)))
    assert "loaded another CUDA driver" in message
    assert str(other) in message


PER_THREAD = """
from lowgraph import hostdev
hostdev.load()
from cuda.bindings import driver as cu
import ctypes, threading, time
cu.cuInit(0); cu.cuCtxSetCurrent(cu.cuDevicePrimaryCtxRetain(0)[1])
gate = threading.Event()
wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait())
stream = cu.cuStreamCreate(1)[1]
hostdev.load().cuLaunchHostFunc(ctypes.c_void_p(2), wait, None)
mine = int(cu.cuStreamQuery(0)[0])
theirs = []
def other():
    cu.cuCtxSetCurrent(cu.cuDevicePrimaryCtxRetain(0)[1])
    theirs.append(int(cu.cuStreamQuery(0)[0]))
thread = threading.Thread(target=other)
thread.start(); thread.join()
gate.set()
cu.cuCtxSynchronize()  # Python ends a thread that comes out of a callback too late, in mid-frame
print(mine, theirs)
"""


def test_per_thread_default_streams(device: Device) -> None:
    env = {"CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}
    assert output_of(PER_THREAD, env).strip() == "600 [0]"
