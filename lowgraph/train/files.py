"""Files written whole or not at all: beside the old one, flushed, renamed over it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(target: Path, content: bytes) -> None:
    """Write `content` to `target`; a reader sees the old file or the new one. Raises OSError."""
    if target.exists() and not target.is_file():
        target.write_bytes(content)  # a pipe or /dev/stdout: nothing to rename over
        return
    handle, name = tempfile.mkstemp(dir=target.absolute().parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes 0600; this is an ordinary file
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """The process's mask; the system offers no way to read it but to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
