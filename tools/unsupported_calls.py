"""Driver calls that cuda-bindings asks for and the host device has not, by group, with the reason.

    python tools/unsupported_calls.py            for people
    python tools/unsupported_calls.py --page     the section of the documentation

The bindings ask once for the address of every call they know, by name and CUDA version; a stand-in
libcuda writes the questions down, and the host device is asked the same. Calls newer than the
recorded driver are only counted: that driver does not have them either. Exit code 1: a call in no
group, which somebody has to implement or to give a reason for.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lowgraph import hostdev
from lowgraph.hostdev.toolchain import find_compiler

# What the bindings look for first; each answer is "not found", which makes their call fail.
_STAND_IN = r"""
#include <cstdio>
extern "C" int cuGetProcAddress_v2(const char* name, void** out, int version, unsigned long long,
                                   int* status) {
    std::printf("%s %d\n", name, version);
    *out = nullptr;
    if (status != nullptr) *status = 1;
    return 0;
}
"""
_ASK = """
import ctypes
ctypes.CDLL({library!r})
from cuda.bindings import driver
try:
    driver.cuInit(0)
except (RuntimeError, NotImplementedError):
    pass
"""


@dataclass(frozen=True)
class Group:
    """Calls that are missing for one reason; `pattern` matches their names."""

    title: str
    pattern: str
    reason: str


GROUPS = (
    Group(
        "Arrays, textures, surfaces, tensor maps",
        r"cuArray|cuMipmapped|cuTex|cuSurf|cuTensorMap|cuMemcpy(Ato|DtoA|HtoA)|cuMemMapArray"
        r"|cuModuleGet(Tex|Surf)Ref|cuParamSetTexRef|cuDeviceGetTexture",
        "kernels of the host device read and write plain memory; the device reports 0 for every "
        "texture limit",
    ),
    Group(
        "Graphics and video",
        r"cuGL|cuEGL|cuGraphics|cuVDPAU|cuEventCreateFromEGLSync|cuDeviceGetLuid",
        "there is no display beside a host device",
    ),
    Group(
        "Other processes and other devices",
        r"cuIpc|cuMemPool(Ex|Im)port|cuMem(Ex|Im)port|cuMulticast"
        r"|cuDeviceGetP2P|cuMemcpy3DPeer|cuImportExternal|cuExternalMemory|cuDestroyExternal"
        r"|cu(Signal|Wait)External|cuGraph\w*ExternalSemaphores|cuDeviceGetNvSciSync"
        r"|cuFlushGPUDirectRDMA|cuDeviceGetHostAtomic|cuLaunchCooperativeKernelMultiDevice"
        r"|cuMemGetHandleForAddressRange",
        "one device, one process; a step that talks to others is tested on its GPUs",
    ),
    Group(
        "Contents of memory",
        r"cuMemDiscard|cuMemRangeGetAttributes|cuLibraryGetManaged|cuMemBatchDecompress",
        "a discard only saves a transfer, which there is none of; a managed range tells of one "
        "attribute a call; kernels have no managed variables; nothing is compressed",
    ),
    Group(
        "Many copies in one call",
        r"cuMemcpy3DBatchAsync",
        "a copy each does the same, and is a node of its own in a graph; rows without pitch have "
        "cuMemcpyBatchAsync",
    ),
    Group(
        "Linking PTX",
        r"cuLink|cuLibraryGetUnifiedFunction",
        "a module image is compiled as a whole: `python -m lowgraph compile`",
    ),
    Group(
        "Parts of a device",
        r"cuGreenCtx|cuDevResource|cuDevSmResource|cuDeviceGetDevResource|cuCtxFromGreenCtx"
        r"|cuCtxGetDevResource|cuStreamGetGreenCtx|cuCtx(Record|Wait)Event|cuCtxGetExecAffinity"
        r"|cuDeviceGetExecAffinity",
        "the host device's executors are not divided among contexts",
    ),
    Group(
        "Debugging and checkpoints",
        r"cuCoredump|cuCheckpoint|cuLogs|cuDevice(Unr|R)egisterAsyncNotification"
        r"|cuProfilerInitialize",
        "a fault is told with kernel, block and thread instead; a debugger sees the kernels",
    ),
    Group(
        "Hints for caches and scheduling",
        r"cuCtxResetPersistingL2Cache|cu(Ctx|Func)(Get|Set)SharedMemConfig",
        "a CPU has nothing to do with them",
    ),
    Group(
        "Calls that CUDA itself has replaced",
        r"cuLaunch(Grid|GridAsync)?$|cuParamSet|cuFuncSet(BlockShape|SharedSize)|cuCtx(At|De)tach"
        r"|cuDeviceGetProperties",
        "cuLaunchKernel, cuDeviceGetAttribute",
    ),
)


def asked() -> set[tuple[str, int]]:
    """Names and CUDA versions (12030) that the installed cuda-bindings ask a driver for."""
    with tempfile.TemporaryDirectory(prefix="lowgraph-") as folder:
        source, library = Path(folder, "asked.cpp"), Path(folder, "libcuda.so.1")
        source.write_text(_STAND_IN)
        flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library)]
        subprocess.run([*find_compiler().command, str(source), *flags], check=True)
        command = [sys.executable, "-c", _ASK.format(library=str(library))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    pairs = (line.split() for line in done.stdout.splitlines())
    return {(pair[0], int(pair[1])) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def has(name: str, version: int) -> bool:
    """Whether the host device gives an address for a call of that version."""
    out = ctypes.c_void_p()
    hostdev.load().cuGetProcAddress_v2(
        name.encode(), ctypes.byref(out), version, ctypes.c_ulonglong(0), None
    )
    return bool(out.value)


def driver_version() -> int:
    """The CUDA version that the host device reports, 13000."""
    version = ctypes.c_int()
    hostdev.load().cuDriverGetVersion(ctypes.byref(version))
    return version.value


def missing(pairs: set[tuple[str, int]]) -> list[str]:
    """Names that the host device lacks and a driver of its version has, sorted."""
    newest = driver_version()
    return sorted({name for name, version in pairs if version <= newest and not has(name, version)})


def by_group(names: Sequence[str]) -> tuple[dict[Group, list[str]], list[str]]:
    """The names of each group, and those of none. A name belongs to the first that matches."""
    found: dict[Group, list[str]] = {group: [] for group in GROUPS}
    rest = []
    for name in names:
        group = next((group for group in GROUPS if re.match(group.pattern, name)), None)
        found[group].append(name) if group else rest.append(name)
    return found, rest


def page(found: dict[Group, list[str]]) -> str:
    """The documentation's section: a paragraph a group, every name in it."""
    parts = [
        f"**{group.title}** ({len(names)}): {group.reason}.\n\n"
        + ", ".join(f"`{name}`" for name in names)
        for group, names in found.items()
        if names
    ]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the list or the section; 1 if a call has no group."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--page", action="store_true", help="print the documentation's section")
    given = parser.parse_args(arguments)
    pairs = asked()
    found, rest = by_group(missing(pairs))
    if given.page:
        print(page(found))
    else:
        newer = {name for name, version in pairs if version > driver_version()}
        for group, names in found.items():
            print(f"{group.title} ({len(names)}): {group.reason}\n  {' '.join(names)}")
        print(f"newer than the recorded driver: {len(newer)} of {len(pairs)} asked for")
    if rest:
        print(f"in no group: {' '.join(rest)}", file=sys.stderr)
    return 1 if rest else 0


if __name__ == "__main__":
    sys.exit(main())
