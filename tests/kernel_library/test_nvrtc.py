"""NVRTC compiles kernels to cubins with no driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lowgraph.driver import compiler
from lowgraph.errors import BuildError
from tests.support.process import ROOT, output_of


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The tool in a process of its own: there no libcuda is loaded, as on a machine without one."""
    command = [sys.executable, "tools/compile_kernels.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_tool_compiles_for_both_architectures() -> None:
    # Two small files; CI gives the tool all of them.
    done = run_tool("kernels_cu/fill.cu", "kernels_cu/residual.cu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 files compile for sm_80,sm_90" in done.stdout


@pytest.mark.parametrize("text", ["int x;", 'extern "C" __global__ void k(int n) { oops; }'])
def test_tool_fails_on_a_file_without_kernels_and_on_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.cu"
    path.write_text(text)
    assert run_tool("--arch", "sm_90", str(path)).returncode == 1


def test_cubin_not_ptx(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
        'extern "C" __global__ void k(__half* y, float x) { *y = __float2half(x * SCALE); }\n'
    )
    image = compiler.compile_cubin(path, "sm_90", (), {"SCALE": "2.0f"})
    assert image.startswith(b"\x7fELF")
    assert int.from_bytes(image[18:20], "little") == 190  # e_machine: EM_CUDA


def test_compile_error_has_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.cu"
    path.write_text('\n\nextern "C" __global__ void k(float* y) { y = nonsense; }\n')
    with pytest.raises(BuildError, match=r"cannot compile it for sm_90\n.*broken\.cu\(3\): error"):
        compiler.compile_cubin(path, "sm_90", (), {})


def test_key_tells_arch_and_defines_apart() -> None:
    keys = {
        compiler.key("sm_80", {}),
        compiler.key("sm_90", {}),
        compiler.key("sm_90", {"A": "1"}),
        compiler.key("sm_90", {"A": "2"}),
    }
    assert len(keys) == 4


def test_missing_nvrtc_names_the_extra() -> None:
    code = """
from cuda.bindings import nvrtc
from cuda.pathfinder import DynamicLibNotFoundError
def nvrtcVersion():
    raise DynamicLibNotFoundError("nvrtc")
nvrtc.nvrtcVersion = nvrtcVersion
from lowgraph.driver import compiler
from lowgraph.errors import BuildError
try:
    compiler.version()
except BuildError as error:
    print(error)
"""
    assert "pip install 'lowgraph[nvrtc]'" in output_of(code)


@pytest.mark.host
def test_nvrtc_lives_beside_the_host_devices_libcuda() -> None:
    # NVRTC opens libcuda.so.1 and crashes on one that has cuInit and not cuGetExportTable.
    code = """
from lowgraph import driver
from lowgraph.driver import compiler
from lowgraph.kernels import source
driver.open_device("host")
print(compiler.compile_cubin(source.find("fill.cu"), "sm_90", (), {})[:4])
"""
    assert output_of(code).strip() == repr(b"\x7fELF")
