"""Kernel source files: where they are, which headers they include, what decides their image.

lowgraph's own kernels lie in `lowgraph/kernels_cu` of an installed package and in `kernels_cu`
beside the package in a checkout; a user's are given by path. A bare name is never looked up in the
current folder: a file there must not take the place of a kernel of lowgraph's by its name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from lowgraph.errors import KernelSourceError

_PACKAGE = Path(__file__).resolve().parent.parent

# <...> that is in none of the folders is the toolkit's, which the compiler key stands for.
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


@cache
def kernels_folder() -> Path:
    """Return the folder of lowgraph's own .cu files. Raises KernelSourceError if there is none."""
    for folder in (_PACKAGE / "kernels_cu", _PACKAGE.parent / "kernels_cu"):
        if folder.is_dir():
            return folder
    raise KernelSourceError(
        f"kernels_cu not found in {_PACKAGE} nor beside it: lowgraph is not installed completely"
    )


def find(file: str | Path) -> Path:
    """Return the absolute path of a source; raises KernelSourceError when it is not there.

    A str without a folder names one of lowgraph's own kernels. A Path, or a str with a folder in
    it, is the user's file: relative ones start at the current folder.
    """
    if isinstance(file, str) and os.path.basename(file) == file:
        path = kernels_folder() / file
        if not path.is_file():
            own = f"a kernel of your own: pass a Path, e.g. Path({file!r})"
            raise KernelSourceError(
                f"{file!r} is no kernel source of lowgraph's{_neighbours(path)}; {own}"
            )
    else:
        path = Path(file).absolute()
        if not path.is_file():
            state = "is no file" if path.exists() else "does not exist"
            raise KernelSourceError(f"kernel source {path} {state}{_neighbours(path)}")
    return path.resolve()


def is_own(path: Path) -> bool:
    """Whether a path that `find` returned is of lowgraph's own kernels."""
    return path.parent == kernels_folder().resolve()


def _neighbours(path: Path) -> str:
    names = sorted(other.name for other in path.parent.glob("*.cu"))
    return f"; there are {', '.join(names)}" if names else ""


def include_dirs(path: Path, given: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Return the folders for -I: the source's own, those given, then lowgraph's kernels."""
    return tuple(dict.fromkeys((path.parent, *given, kernels_folder().resolve())))


def includes(path: Path, folders: Sequence[Path]) -> list[Path]:
    """Return the files of the folders that `path` includes, theirs too, each once, sorted.

    Conditional inclusion is not evaluated: one file too many in the key costs a compile at most. A
    file that is not found is the compiler's to report.
    """
    found: set[Path] = set()
    pending = [path]
    while pending:
        for header in _included_by(pending.pop(), folders):
            if header not in found and header != path:
                found.add(header)
                pending.append(header)
    return sorted(found)


def _included_by(path: Path, folders: Sequence[Path]) -> Iterator[Path]:
    for name in _INCLUDE.findall(path.read_bytes()):
        for folder in (path.parent, *folders):
            header = folder / os.fsdecode(name)
            if header.is_file():
                yield header.resolve()
                break


def content_hash(
    path: Path, defines: Mapping[str, str], compiler_key: str, folders: Sequence[Path] = ()
) -> str:
    """Return the hash of all that decides the image of `path`. folders: given for includes.

    Over the source and every file it includes, the defines, and the compiler's key (version, flags,
    arch). Paths do not count, so that a moved checkout finds its cache again.
    """
    digest = hashlib.sha256()
    for file in (path, *includes(path, include_dirs(path, folders))):
        _add(digest, file.name.encode(), file.read_bytes())
    for name, value in sorted(defines.items()):
        _add(digest, name.encode(), value.encode())
    _add(digest, compiler_key.encode())
    return digest.hexdigest()


def _add(digest: hashlib._Hash, *parts: bytes) -> None:
    for part in parts:
        # The length first: otherwise ("ab", "c") and ("a", "bc") would be one key.
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
