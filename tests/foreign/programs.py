"""Builds the C programs of these tests with the system's C compiler, and runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lowgraph.cli import compile as compile_command
from lowgraph.cli.host_library import flags
from lowgraph.driver import Device
from lowgraph.hostdev.toolchain import cuda_include_dirs
from tests.support.process import ROOT

EXAMPLE = ROOT / "examples" / "c" / "capture.c"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pthread")


def c_compiler() -> str:
    """The system's C compiler; skips where there is none (a C++ one is all that lowgraph needs)."""
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return path
    pytest.skip("no C compiler (cc, gcc or clang) here")


def driver_flags(device: Device) -> list[str]:
    """Headers and library: of the host device by the command's own flags, else of the GPU."""
    if device.spec == "host":
        return flags()
    maps = Path("/proc/self/maps").read_text().splitlines()
    driver = next(line.split()[-1] for line in maps if "/libcuda.so" in line)
    return [*(f"-I{folder}" for folder in cuda_include_dirs()), driver]


def build(device: Device, source: Path, program: Path, *more: str) -> Path:
    """Compile and link one C file; fails with the compiler's words."""
    command = [c_compiler(), *STRICT, *more, str(source), *driver_flags(device), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return program


def run_program(program: Path, *arguments: Path) -> subprocess.CompletedProcess[str]:
    """Run it; it has to find its library by itself."""
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def image_of(device: Device, source: Path) -> bytes:
    """The module image of a .cu file for the device, as `python -m lowgraph compile` makes it."""
    arch = "host" if device.spec == "host" else device.arch
    return compile_command.compile_image(source, arch, {})


def python_first(folder: Path) -> dict[str, str]:
    """An environment in which `python` is this one, with this checkout."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python").chmod(0o755)
    paths = {"PATH": tools, "PYTHONPATH": ROOT}
    before = ((name, first, os.environ.get(name)) for name, first in paths.items())
    joined = {name: os.pathsep.join(map(str, filter(None, both))) for name, *both in before}
    return {**os.environ, **joined}
