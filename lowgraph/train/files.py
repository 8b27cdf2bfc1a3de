"""Files written whole or not at all: beside the old one, flushed to the disk, renamed over it."""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["remove_leftovers", "replace_file"]


def replace_file(target: Path, content: bytes, keep_as: Path | None = None) -> None:
    """Write `content` to `target`; a reader sees the old file or the new one. Raises OSError.

    keep_as: the old file's name from then on, in the same folder. A kill between the two renames
    leaves the old file under that name alone, so a reader has to look there too.
    """
    if target.exists() and not target.is_file():
        target.write_bytes(content)  # a pipe or /dev/stdout: nothing to rename over
        return
    folder = target.absolute().parent
    handle, name = tempfile.mkstemp(dir=folder, prefix=_prefix(target))
    try:
        with os.fdopen(handle, "wb") as file:
            # Held until the renames are done: remove_leftovers tells a living writer by it.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())  # mkstemp makes 0600; this is an ordinary file
            if keep_as is not None and target.exists():
                os.replace(target, keep_as)
            os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):  # an interrupt may come behind the rename
            os.unlink(name)
        raise
    _flush_folder(folder)


def remove_leftovers(target: Path) -> list[str]:
    """Remove what killed writers of `target` left beside it; returns the names. Raises OSError.

    A file that a living process is still writing stays.
    """
    pattern = glob.escape(_prefix(target)) + "?" * 8  # as many as mkstemp adds
    folder = target.absolute().parent
    names = sorted(glob.glob(pattern, root_dir=folder))
    return [name for name in names if _remove_unless_locked(folder / name)]


def _remove_unless_locked(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    except (BlockingIOError, FileNotFoundError):  # being written; or renamed by its writer just now
        return False
    return True


def _prefix(target: Path) -> str:
    return f".{target.name}."


def _flush_folder(folder: Path) -> None:
    """A rename is in the folder, which has to reach the disk as the file did."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The process's mask; the system offers no way to read it but to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
