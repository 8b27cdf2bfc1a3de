"""lowgraph.h by itself: strict C and C++, several files of one library, what it cannot find."""

from __future__ import annotations

import ctypes
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lowgraph
from lowgraph.capture.c_calls import noted
from lowgraph.cli.include import flags
from lowgraph.driver import Device
from tests.foreign.programs import c_compiler
from tests.support.process import ROOT

pytestmark = pytest.mark.both

FIRST = """
#include "lowgraph.h"
int sized(void) {
    size_t free_bytes, all;
    LG_CALL(cuMemGetInfo, &free_bytes, &all);
    return free_bytes <= all ? 0 : 1;
}
int bad(int device) {
    CUdevice found;
    LG_CALL(cuDeviceGet, &found, device);
    return 0;
}
"""
SECOND = """
#include "lowgraph.h"
int also_bad(int device) {
    CUdevice found;
    LG_CALL(cuDeviceGet,
            &found,
            device);
    return 0;
}
CUresult cuNeverWas(int);
int missing(void) {
    LG_CALL(cuNeverWas, 1);
    return 0;
}
int versions(void) {
    int version = 0;
    return LG_DRIVER(cuDriverGetVersion)(&version) == CUDA_SUCCESS ? version : -1;
}
"""
C = ("-std=c99", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror")
CPP = ("-std=c++11", "-Wall", "-Wextra", "-Werror")


def build(folder: Path, compiler: str, suffix: str, *more: str) -> ctypes.CDLL:
    texts = {"first": FIRST, "second": SECOND}
    if suffix == ".cpp":
        texts = {name: f'extern "C" {{\n{text}}}\n' for name, text in texts.items()}
    for name, text in texts.items():
        (folder / f"{name}{suffix}").write_text(text)
    sources = [str(folder / f"{name}{suffix}") for name in texts]
    target = str(folder / "library.so")
    command = [compiler, *more, "-shared", "-fPIC", *sources, *flags(), "-o", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(target)


@pytest.mark.parametrize("suffix", [".c", ".cpp"])
@pytest.mark.parametrize("define", [(), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",)])
def test_notes_of_a_library_of_two_files(
    device: Device, tmp_path: Path, suffix: str, define: tuple[str, ...]
) -> None:
    compiler = c_compiler() if suffix == ".c" else shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    library = build(tmp_path, compiler, suffix, *(C if suffix == ".c" else CPP), *define)
    with noted(library) as failure:
        assert library.sized() == 0
    assert str(failure) == "" and failure.op == ""
    with noted(library) as failure:
        assert library.also_bad(77) == library.bad(78) == 101
    expected = f"cuDeviceGet(&found, device) at second{suffix}:"
    assert str(failure).startswith(expected), "the first one, on one line"
    assert str(failure).endswith(" answered 101 CUDA_ERROR_INVALID_DEVICE")
    with noted(library) as failure:
        assert library.missing() == 500
    assert failure.op == "cuNeverWas" and "500 CUDA_ERROR_NOT_FOUND" in str(failure)
    assert library.versions() == device.driver_version


def test_the_command_prints_the_flags() -> None:
    command = [sys.executable, "-m", "lowgraph", "include"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = shlex.split(done.stdout)
    assert told == flags()
    assert told[0] == f"-I{lowgraph.include_dir()}" and told[-1] == "-ldl"
    assert (lowgraph.include_dir() / "lowgraph.h").is_file()
