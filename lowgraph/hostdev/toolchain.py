"""The C++ compiler and the CUDA headers that the host device is built with."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lowgraph.errors import BuildError

INCLUDE_DIR = Path(__file__).parent / "include"
_SYSTEM_CUDA = "/usr/local/cuda"

_NO_COMPILER = (
    "no C++ compiler found: the host device compiles kernels for the CPU. Install g++ "
    "(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or clang++, or name one in "
    "$LOWGRAPH_CXX"
)
_CPP20 = 201709  # g++ 11's __cplusplus with -std=c++20; clang++ and later g++ say 202002
_NO_HEADERS = (
    "CUDA headers (vector_types.h) not found: run `pip install nvidia-cuda-runtime-cu12`, or "
    "name a CUDA toolkit in $CUDA_HOME"
)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command to call and the first line of its `--version`."""

    command: tuple[str, ...]
    version: str

    @property
    def is_clang(self) -> bool:
        """True for clang++, which lacks a few of g++'s flags."""
        return "clang" in self.version.lower()


def find_compiler() -> Compiler:
    """The compiler named in $LOWGRAPH_CXX, else g++, else clang++.

    Raises BuildError if there is none, or if the named one cannot be run or is no C++ compiler.
    """
    named = os.environ.get("LOWGRAPH_CXX", "").split()
    if named:
        if shutil.which(named[0]) is None:
            raise BuildError(f"$LOWGRAPH_CXX names {named[0]!r}, which cannot be found")
        return _identify(tuple(named))
    for name in ("g++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            return _identify((path,))
    raise BuildError(_NO_COMPILER)


@lru_cache
def _identify(command: tuple[str, ...]) -> Compiler:
    try:
        answer = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(
            f"the C++ compiler {' '.join(command)} does not run: {error}; name g++ or "
            "clang++ in $LOWGRAPH_CXX"
        ) from error
    _check_compiles(command)
    return Compiler(command, (answer.stdout.splitlines() or ["unknown"])[0])


def _check_compiles(command: tuple[str, ...]) -> None:
    """Refuse a program that runs and is no C++20 compiler: `true` would "build" everything."""
    probe = [*command, "-std=c++20", "-E", "-P", "-x", "c++", "-"]
    asked = subprocess.run(
        probe, input="lowgraph __cplusplus", capture_output=True, text=True, check=False
    )
    said = asked.stdout.split()
    is_number = len(said) == 2 and said[0] == "lowgraph" and said[1].rstrip("L").isdecimal()
    if not is_number or int(said[1].rstrip("L")) < _CPP20:
        raise BuildError(
            f"{' '.join(command)} is not a C++20 compiler: asked to preprocess a line, it ended "
            f"with {asked.returncode} and wrote {asked.stdout[:40]!r}; name g++ 11 or clang++ 14 "
            "or later in $LOWGRAPH_CXX"
        )


def cuda_include_dirs() -> list[Path]:
    """Folders with CUDA's headers: from pip's packages, else $CUDA_HOME, else /usr/local/cuda.

    Raises BuildError if vector_types.h is in none of them.
    """
    found = _pip_include_dirs()
    if not _has_runtime(found):
        homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _SYSTEM_CUDA]
        roots = [Path(home) / "include" for home in homes if home]
        found += [root for root in roots if (root / "vector_types.h").is_file()][:1]
    if not _has_runtime(found):
        raise BuildError(_NO_HEADERS)
    return found


def _has_runtime(folders: list[Path]) -> bool:
    return any((folder / "vector_types.h").is_file() for folder in folders)


def _pip_include_dirs() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
    parts = ("cuda_runtime", "cuda_cccl", "cu13")
    folders = [root / part / "include" for root in roots for part in parts]
    return [folder for folder in folders if folder.is_dir()]


@lru_cache
def cpu_key() -> str:
    """A short name of this CPU's instruction set: code built with -march=native fits no other.

    The hexadecimal hash of model and feature flags, as /proc/cpuinfo gives them for one core.
    """
    wanted = ("vendor_id", "cpu family", "model", "flags")
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        label, _, value = line.partition(":")
        if label.strip() in wanted:
            facts.setdefault(label.strip(), value.strip())
    return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:12]


def run_compiler(arguments: list[str], what: str) -> str:
    """Runs the compiler and gives its standard output; `what` names the job in a BuildError.

    The error's first line is the first diagnostic, with the file and line the compiler names.
    """
    compiler = find_compiler()
    try:
        done = subprocess.run(
            [*compiler.command, *arguments],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise BuildError(f"{what}: cannot run {compiler.command[0]}: {error}") from error
    if done.returncode == 0:
        return done.stdout
    lines = done.stderr.splitlines()
    first = next((line for line in lines if "error:" in line.lower()), f"exit {done.returncode}")
    raise BuildError(f"{what}: {first}", "\n".join(lines[:40]))
