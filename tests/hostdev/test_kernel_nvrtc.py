"""The kernels of these tests compile for a GPU, with no GPU here: both branches of every twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowgraph.driver import compiler
from lowgraph.kernels import source
from tests.hostdev.warp_programs import Generator
from tests.hostdev.warp_source import source_of

KERNELS = Path(__file__).parent / "kernels"
# The toolkit's own headers make groups.cu the slowest by far: it is compiled once.
QUICK = ("atomics", "bits", "half", "language", "shared_memory", "twins", "warp_types")
HEAVY = ("groups", "math")


def _compiles(path: Path, arch: str) -> bool:
    return compiler.compile_cubin(path, arch, source.include_dirs(path), {}).startswith(b"\x7fELF")


@pytest.mark.host
@pytest.mark.parametrize("name", QUICK)
def test_kernels_compile_with_nvrtc(name: str) -> None:
    # The oldest architecture: what it lacks, a kernel must not use.
    assert _compiles(KERNELS / f"{name}.cu", "sm_80")


@pytest.mark.host
@pytest.mark.exhaustive
def test_every_kernel_compiles_for_a_newer_architecture(tmp_path: Path) -> None:
    programs = Generator(np.random.default_rng(0))
    (tmp_path / "programs.cu").write_text(source_of([programs.program() for _ in range(9)]))
    paths = [KERNELS / f"{name}.cu" for name in (*QUICK, *HEAVY)]
    assert all(_compiles(path, "sm_90") for path in (*paths, tmp_path / "programs.cu"))
