"""A C program for graphs can be linked: what cuda.h declares for that is in the library.

cuda.h renames calls, to their newest form and, for programs with per-thread default streams, to
that variant: so it is asked through the preprocessor.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from lowgraph.driver import Device
from lowgraph.hostdev.toolchain import cuda_include_dirs
from tests.foreign import programs

pytestmark = pytest.mark.host

PER_THREAD = "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"
DECLARED = re.compile(r"\bCUresult\s+(cu[A-Z]\w+)\s*\(")
# Streams, events, graphs, launches, stream-ordered memory, modules and libraries of kernels; not
# what belongs to other processes and devices, to graphics, or to a linker of PTX.
NEEDED = re.compile(
    r"cu(Stream(?!GetGreenCtx)|Event(?!CreateFromEGL)|User|Graph(?!ics|\w*ExternalSem)|Thread"
    r"|Launch(Kernel|HostFunc|CooperativeKernel_|CooperativeKernel$)"
    r"|Mem(Alloc|Free|AllocFromPool|Prefetch|PrefetchBatch)Async|MemPool(?!Export|Import)|Memset"
    r"|Memcpy(?!AtoA|AtoD|AtoH|DtoA|HtoA|3DPeer|3DBatch)|Func(?!SetBlock|SetShared)|Kernel"
    r"|Occupancy"
    r"|Module(?!Get(Tex|Surf)Ref)|Library(?!GetManaged|GetUnified)|Get)"
)
FEWEST = 150


def declared(*defines: str) -> set[str]:
    """The functions that a C program is linked with."""
    header = next(
        folder / "cuda.h" for folder in cuda_include_dirs() if Path(folder, "cuda.h").is_file()
    )
    command = [programs.c_compiler(), "-E", "-P", "-x", "c", *defines, str(header)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    # With per-thread streams one of them is a function of the header's own.
    return set(DECLARED.findall(re.sub(r"static\s+(inline\s+)?CUresult\s+\w+", "", text)))


@pytest.mark.parametrize("defines", [(), (PER_THREAD,)], ids=["plain", "per-thread"])
def test_every_call_for_graphs_is_a_symbol(device: Device, defines: tuple[str, ...]) -> None:
    library = ctypes.CDLL("libcuda.so.1")
    wanted = {name for name in declared(*defines) if NEEDED.match(name)}
    assert len(wanted) >= FEWEST
    assert sorted(name for name in wanted if not hasattr(library, name)) == []


def test_the_two_ways_differ() -> None:
    """Else both rows above would ask for the same."""
    assert {"cuGraphLaunch", "cuStreamSetAttribute"} <= declared()
    assert {"cuGraphLaunch_ptsz", "cuStreamSetAttribute_ptsz"} <= declared(PER_THREAD)
