"""`python -m lowgraph cache`: what the build cache holds, and emptying it."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from lowgraph.errors import BuildError
from lowgraph.hostdev import cachedir
from lowgraph.memory import counted, readable

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "show the build cache, or empty it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("--clear", action="store_true", help="delete everything in it")


def run(given: argparse.Namespace) -> None:
    """Print the cache's folder and what each part of it holds; with --clear, delete that."""
    folder = cachedir.cache_dir()
    print(f"cache: {folder}")
    for entry in sorted(folder.iterdir()):
        files, nbytes = _size(entry)
        print(f"  {entry.name}: {counted(files, 'file')}, {readable(nbytes)}")
        if given.clear:
            _delete(entry)
    if given.clear:
        print("cleared; the next run builds afresh")


def _size(entry: Path) -> tuple[int, int]:
    """Number of files and bytes of a file or below a folder."""
    files = [path for path in (entry, *entry.rglob("*")) if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


def _delete(entry: Path) -> None:
    try:
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    except OSError as error:
        raise BuildError(f"cannot delete {entry}: {error.strerror or error}") from error
