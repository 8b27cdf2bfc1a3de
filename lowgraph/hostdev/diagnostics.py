"""Puts the user's own line first in a compile error that the compiler places in our headers."""

from __future__ import annotations

import re

from lowgraph.errors import BuildError
from lowgraph.hostdev.toolchain import INCLUDE_DIR, cuda_include_dirs

# g++: "k.cu:4:12:   required from here"; clang++: "k.cu:4:12: note: in instantiation of ...".
_INSTANTIATED = re.compile(
    r"^(\S[^:\n]*):(\d+):\d+:\s+(?:required from|note: in instantiation of)", re.MULTILINE
)
_PLACE = re.compile(r"(/[^:\s]+):(\d+):")


def at_users_line(error: BuildError) -> BuildError:
    """Return the error with the line that asked for the template in front, if it stands elsewhere.

    Unchanged when the compiler's own place is in a file of the user's, or nothing else is named.
    """
    place = _PLACE.search(error.message)
    if place is None or not _is_foreign(place[1]):
        return error
    for file, line in _INSTANTIATED.findall(error.log):
        if not _is_foreign(file):
            return BuildError(f"{file}:{line}: {error.message}", error.log)
    return error


def _is_foreign(file: str) -> bool:
    roots = (str(INCLUDE_DIR), *map(str, cuda_include_dirs()), "/usr/include", "/usr/lib")
    return file.startswith(roots)
