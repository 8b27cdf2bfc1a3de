"""`python -m lowgraph include`: compiler flags for C code that uses lowgraph.h."""

from __future__ import annotations

import argparse
import shlex

from lowgraph.capture import include_dir
from lowgraph.hostdev.toolchain import cuda_include_dirs

__all__ = ["SUMMARY", "add_arguments", "flags", "run"]

SUMMARY = "print a C compiler's flags for code that includes lowgraph.h, on either device"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no flags."""


def run(given: argparse.Namespace) -> None:
    """Print one line."""
    print(" ".join(map(shlex.quote, flags())))


def flags() -> list[str]:
    """Folders of lowgraph.h and cuda.h, and libdl, which has to stand behind the sources.

    Raises BuildError where there is no cuda.h.
    """
    return [*(f"-I{folder}" for folder in (include_dir(), *cuda_include_dirs())), "-ldl"]
