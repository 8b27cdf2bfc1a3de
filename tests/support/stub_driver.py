"""A libcuda.so.1 that answers cuInit and cuDeviceGetCount as told, to test the device choice."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lowgraph.hostdev.toolchain import find_compiler

_SOURCE = """
extern "C" int cuInit(unsigned) {{ return {init}; }}
extern "C" int cuDeviceGetCount(int* count) {{ *count = {devices}; return 0; }}
"""


def build_stub(folder: Path, init: int, devices: int) -> dict[str, str]:
    """Build the stub in `folder`; return the environment that makes the loader find it."""
    folder.mkdir(parents=True, exist_ok=True)
    code = folder / "stub.cpp"
    code.write_text(_SOURCE.format(init=init, devices=devices))
    library = folder / "libcuda.so.1"
    command = [*find_compiler().command, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*command, str(code), "-o", str(library)], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}
