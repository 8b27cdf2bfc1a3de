"""Kernels to cubin with NVRTC: never PTX, which the driver would compile at load, uncounted.

NVRTC needs no driver and no GPU. Beware: it opens libcuda.so.1 when it compiles; a libcuda that has
cuInit and not cuGetExportTable (the host device has it) makes it crash.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cuda.pathfinder import DynamicLibNotFoundError

from lowgraph.errors import BuildError

_FLAGS = ("--std=c++17", "--generate-line-info")

# `from cuda.bindings import nvrtc` costs 20 ms and only a compile needs it: imported in _nvrtc().


def compile_cubin(
    source: Path,
    arch: str,
    include_dirs: Sequence[Path],
    defines: Mapping[str, str],
    more: Sequence[str] = (),
) -> bytes:
    """Compile one .cu file for `arch` ("sm_90"); return the cubin. more: NVRTC's options.

    Raises BuildError with NVRTC's log (file:line) or naming what to install.
    """
    nvrtc = _nvrtc()
    text = source.read_bytes()
    program = _call(nvrtc.nvrtcCreateProgram, text, str(source).encode(), 0, None, None)
    try:
        options = [option.encode() for option in (*_options(arch, include_dirs, defines), *more)]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if code:
            log = _program_log(program)
            raise BuildError(f"{source}: NVRTC cannot compile it for {arch}", log)
        cubin = b" " * _call(nvrtc.nvrtcGetCUBINSize, program)
        _call(nvrtc.nvrtcGetCUBIN, program, cubin)
        return cubin
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def key(arch: str, defines: Mapping[str, str], more: Sequence[str] = ()) -> str:
    """Return what, besides the sources, decides the cubin: compiler, headers, flags, defines."""
    major, minor = version()
    headers = " ".join(str(path) for path in header_dirs())
    options = " ".join((*_options(arch, (), defines), *more))
    return f"nvrtc {major}.{minor}; {headers}; {options}"


@cache
def version() -> tuple[int, int]:
    """Return NVRTC's (major, minor). Raises BuildError when it is not installed."""
    major, minor = _call(_nvrtc().nvrtcVersion)
    return int(major), int(minor)


@cache
def header_dirs() -> tuple[Path, ...]:
    """Return the folders that hold cuda_fp16.h and nv/target, for -I; NVRTC itself knows neither.

    $CUDA_HOME first, then pip's packages, then /usr/local/cuda. Raises BuildError if none has.
    """
    for folders in (_cuda_home_dirs(), _pip_dirs(), [Path("/usr/local/cuda/include")]):
        if any((folder / "cuda_fp16.h").is_file() for folder in folders):
            # CUDA 13 keeps nv/target and what cooperative_groups.h includes below cccl/.
            inside = [folder / "cccl" for folder in folders]
            return (*folders, *(folder for folder in inside if folder.is_dir()))
    raise BuildError(
        "CUDA headers (cuda_fp16.h) not found: pip install 'lowgraph[nvrtc]' or set CUDA_HOME"
    )


def _cuda_home_dirs() -> list[Path]:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    return [Path(home) / "include"] if home else []


def _pip_dirs() -> list[Path]:
    """Header folders of pip's packages: cu13/ holds all, CUDA 12 has one folder a package."""
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or [])
    major = version()[0]
    names = [f"cu{major}"] if major >= 13 else []
    names += ["cuda_runtime", "cuda_cccl"]
    found = [Path(root) / name / "include" for root in roots for name in names]
    return [folder for folder in found if folder.is_dir()]


def _options(arch: str, include_dirs: Sequence[Path], defines: Mapping[str, str]) -> list[str]:
    folders = [*include_dirs, *header_dirs()]
    return [
        f"--gpu-architecture={arch}",
        *_FLAGS,
        *(f"--include-path={folder}" for folder in folders),
        *(f"--define-macro={name}={value}" for name, value in sorted(defines.items())),
    ]


def _nvrtc() -> Any:
    from cuda.bindings import nvrtc

    return nvrtc


def _program_log(program: Any) -> str:
    nvrtc = _nvrtc()
    log = b" " * _call(nvrtc.nvrtcGetProgramLogSize, program)
    _call(nvrtc.nvrtcGetProgramLog, program, log)
    return log.rstrip(b"\0 \n").decode(errors="replace")


def _call(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        code, *rest = fn(*args)
    except DynamicLibNotFoundError as error:
        raise BuildError(
            "NVRTC is not installed, kernels cannot be compiled for the GPU: "
            "pip install 'lowgraph[nvrtc]' (or [cuda12], [cuda13])"
        ) from error
    if code:
        raise BuildError(f"{fn.__name__} failed: {code.name}")
    return rest[0] if len(rest) == 1 else tuple(rest)
