"""`python -m lowgraph info`: the device that `auto` takes here, and the versions it meets.

Nothing is built and no device is opened: a GPU is looked for in a process of its own.
"""

from __future__ import annotations

import argparse
import platform
from importlib import metadata
from typing import Any

from lowgraph._version import VERSION
from lowgraph.driver import compiler, selection
from lowgraph.errors import BuildError
from lowgraph.hostdev import cachedir, settings, toolchain
from lowgraph.train.arguments_out import non_empty_path
from lowgraph.train.result import write_json

__all__ = ["SUMMARY", "add_arguments", "collect", "run"]

SUMMARY = "show the device, driver, packages, compilers and caches found here"

_PACKAGES = {
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "cuda_python": ("cuda-python", "cuda-bindings"),
    "nvmath": ("nvmath-python",),
    "numpy": ("numpy",),
}
_OPTIONAL = ("cupy", "nvmath", "nvrtc")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write the same to this file"
    )


def run(given: argparse.Namespace) -> None:
    """Print what `collect` found, one line a fact; write it as JSON if asked."""
    found = collect()
    for name, value in found.items():
        missing = "not installed" + (" (optional)" if name in _OPTIONAL else "")
        print(f"{name:12} {missing if value is None else value}")
    if given.json is not None:
        write_json(given.json, found)


def collect() -> dict[str, Any]:
    """The facts by name; None for what is not installed."""
    reason = selection.probe()
    facts: dict[str, Any] = {
        "device": "cuda:0" if reason is None else "host",
        "driver": "a CUDA driver answers" if reason is None else f"host device: {reason}",
    }
    facts.update({name: _version(names) for name, names in _PACKAGES.items()})
    facts["compiler"] = _cxx()
    facts["nvrtc"] = _nvrtc()
    facts["host_shuffle"] = settings.shuffle() or "off"
    facts["host_debug"] = "on" if settings.is_debug() else "off"
    facts["cache_dir"] = str(cachedir.cache_dir())
    facts["python"] = platform.python_version()
    facts["lowgraph"] = VERSION
    return facts


def _version(names: tuple[str, ...]) -> str | None:
    """The first installed distribution of these, with its version."""
    for name in names:
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return None


def _cxx() -> str | None:
    try:
        compiler_found = toolchain.find_compiler()
    except BuildError as error:
        return f"none: {error}"
    return f"{' '.join(compiler_found.command)}: {compiler_found.version}"


def _nvrtc() -> str | None:
    try:
        major, minor = compiler.version()
    except BuildError:
        return None
    return f"{major}.{minor}"
