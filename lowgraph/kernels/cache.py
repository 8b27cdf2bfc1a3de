"""The on-disk cache of module images: one file an image, named by its content hash.

Safe for several processes: an entry is written beside and renamed, so a reader sees all of it or
none. An entry whose own checksum does not fit (torn by a crash, edited) counts as absent and is
built again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from lowgraph.errors import BuildError

# First bytes of an entry; the number changes with the format, which empties old caches.
_MAGIC = b"lowgraph image 1\n"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size


class ImageCache:
    """Images in one folder, which the caller has checked to be this user's alone."""

    def __init__(self, folder: Path) -> None:
        """Keep entries in `folder`; it is made (0700) when an entry is written and it is gone."""
        self.folder = folder

    def read(self, name: str) -> bytes | None:
        """Return the image, None when there is no sound entry of that name."""
        try:
            entry = (self.folder / name).read_bytes()
        except OSError:
            return None
        image = entry[_HEADER:]
        sound = entry[:_HEADER] == _MAGIC + hashlib.sha256(image).digest()
        return image if sound else None

    def write(self, name: str, image: bytes) -> None:
        """Store an image. Raises BuildError, in one line, when the disk is full or not writable."""
        try:
            self._write(name, _MAGIC + hashlib.sha256(image).digest() + image)
        except OSError as error:
            raise BuildError(
                f"cannot write the build cache {self.folder}: {error.strerror or error}; "
                "free space there or set LOWGRAPH_CACHE_DIR"
            ) from error

    def _write(self, name: str, entry: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes the file 0600, whatever the umask.
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(entry)
            os.replace(temporary, self.folder / name)
        except BaseException:
            os.unlink(temporary)
            raise
