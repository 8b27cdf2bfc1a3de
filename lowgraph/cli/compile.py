"""`python -m lowgraph compile`: a .cu file into a file that a driver loads as a module.

For programs that are not lowgraph's: cuModuleLoad, cuModuleLoadData and cuLibraryLoadFromFile take
the result, on the host device or on a GPU, by what it was compiled for.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from lowgraph.driver import compiler
from lowgraph.errors import ConfigError, KernelSourceError
from lowgraph.hostdev import check, kernel_build
from lowgraph.kernels import source
from lowgraph.train.arguments_out import non_empty_path
from lowgraph.train.files import replace_file

__all__ = ["SUMMARY", "add_arguments", "compile_image", "run"]

SUMMARY = "compile a .cu file into an image for cuModuleLoad"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("file", type=Path, metavar="FILE.cu", help="the kernels' source")
    parser.add_argument(
        "-o", "--output", type=non_empty_path, metavar="F", required=True, help="the image to write"
    )
    parser.add_argument(
        "--arch",
        default="host",
        help="host (default): for the host device on this machine; sm_90 and the like: a cubin",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="with checks, for a program that is run by python -m lowgraph check",
    )
    parser.add_argument(
        "-D",
        dest="defines",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a macro for the compiler; may be repeated",
    )


def run(given: argparse.Namespace) -> None:
    """Compile, write the image, say what was written."""
    defines = dict(_define(text) for text in given.defines)
    checks = given.check or check.enabled()
    if given.check and given.arch != "host":
        raise ConfigError(f"--check: kernels for {given.arch} are not checked; leave out --arch")
    image = compile_image(given.file, given.arch, defines, checks)
    try:
        replace_file(given.output, image)
    except OSError as error:
        raise ConfigError(
            f"cannot write {given.output}: {error.strerror or error}; name a file in a folder of "
            "yours with -o"
        ) from error
    told = ", with checks" if checks and given.arch == "host" else ""
    print(f"{given.output}: {len(image)} bytes for {given.arch}{told}")


def compile_image(
    file: Path, arch: str, defines: dict[str, str], checks: bool | None = None
) -> bytes:
    """Return the module image of a source for "host" or a GPU's "sm_NN".

    checks: whether one for the host is for the check build; None: if this process checks. Included
    files are looked for beside the source and among lowgraph's kernels. Raises ConfigError for
    another arch and for a file that is not there, BuildError when it cannot be compiled.
    """
    if not re.fullmatch(r"host|sm_\d{2,3}[af]?", arch):
        raise ConfigError(f"--arch {arch}: must be host, or a GPU's such as sm_80 or sm_90")
    try:
        path = source.find(file)
    except KernelSourceError as error:
        raise ConfigError(str(error)) from error
    folders = source.include_dirs(path)
    if arch == "host":
        return bytes(kernel_build.compile(path, folders, defines, checks=checks))
    return compiler.compile_cubin(path, arch, folders, defines)


def _define(text: str) -> tuple[str, str]:
    """NAME=VALUE as a pair; a NAME alone is 1, as for a C compiler."""
    name, equals, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ConfigError(f"-D {text}: must be NAME=VALUE, with a macro's name")
    return name, value if equals else "1"
