"""The folder that everything built on first use goes to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lowgraph.errors import BuildError

__all__ = ["cache_dir", "check_private", "make_private"]

_REMEDY = "free space there, or name another folder in $LOWGRAPH_CACHE_DIR"


def cache_dir() -> Path:
    """Return `$LOWGRAPH_CACHE_DIR`, else `~/.cache/lowgraph`; made (0700) if it is not there.

    Raises BuildError if it cannot be made, or if someone else could put files there: what lies in
    it is loaded into the process.
    """
    named = os.environ.get("LOWGRAPH_CACHE_DIR")
    folder = Path(named).expanduser() if named else Path.home() / ".cache" / "lowgraph"
    return make_private(folder)


def make_private(folder: Path) -> Path:
    """Make a folder (0700, with its parents) unless it is there, and check it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"cannot make the build cache {folder}: {error.strerror or error}; {_REMEDY}"
        ) from error
    check_private(folder)
    return folder


def check_private(path: Path) -> None:
    """Raise BuildError unless only this user may write to a file or folder."""
    try:
        facts = path.stat()
    except OSError as error:
        raise BuildError(f"cannot read {path}: {error.strerror or error}; {_REMEDY}") from error
    if facts.st_uid != os.geteuid():
        raise BuildError(
            f"the build cache {path} belongs to user {facts.st_uid}, not to you: nothing is loaded "
            "from there; name a folder of your own in $LOWGRAPH_CACHE_DIR"
        )
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BuildError(
            f"others may write to the build cache {path}: nothing is loaded from there; "
            f"run `chmod go-w {path}`, or name another folder in $LOWGRAPH_CACHE_DIR"
        )
