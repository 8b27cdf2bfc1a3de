"""`python -m lowgraph host-library`: where the host device's libcuda lies, for other programs."""

from __future__ import annotations

import argparse
import shlex

from lowgraph.hostdev import build
from lowgraph.hostdev.toolchain import cuda_include_dirs

__all__ = ["SUMMARY", "add_arguments", "flags", "run"]

SUMMARY = "build the host device's libcuda if need be, and print the folder that it lies in"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--flags",
        action="store_true",
        help="print a compiler's flags instead: headers, library, and where to find it at run time",
    )


def run(given: argparse.Namespace) -> None:
    """Print one line: the folder, or the flags."""
    print(" ".join(map(shlex.quote, flags())) if given.flags else build.link_folder())


def flags() -> list[str]:
    """What cc or c++ needs to build a program of cuda.h that runs on the host device.

    Raises BuildError: no compiler or headers, or a library that cannot be built.
    """
    folder = build.link_folder()
    search = [f"-I{path}" for path in cuda_include_dirs()]
    # New tags: LD_LIBRARY_PATH comes before the run path, so that a later build can be named.
    return [*search, f"-L{folder}", "-lcuda", f"-Wl,--enable-new-dtags,-rpath,{folder}"]
