"""The image cache on disk: whole entries or none, private, and clear when it cannot be written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from lowgraph.errors import BuildError
from lowgraph.kernels.cache import ImageCache

IMAGE = bytes(range(256)) * 8


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return ImageCache(tmp_path / "kernels")


def test_absent_then_present(cache: ImageCache) -> None:
    assert cache.read("a.image") is None
    cache.write("a.image", IMAGE)
    assert cache.read("a.image") == IMAGE
    assert cache.read("b.image") is None


def test_entries_are_private(cache: ImageCache) -> None:
    old = os.umask(0)
    try:
        cache.write("a.image", IMAGE)
    finally:
        os.umask(old)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((cache.folder / "a.image").stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "header", "foreign"])
def test_damaged_entry_counts_as_absent(cache: ImageCache, damage: str) -> None:
    cache.write("a.image", IMAGE)
    path = cache.folder / "a.image"
    entry = bytearray(path.read_bytes())
    if damage == "flip":
        entry[-1] ^= 1
    elif damage == "header":
        entry[0] ^= 1
    sizes = {"truncate": len(entry) - 7, "empty": 0}
    path.write_bytes(IMAGE if damage == "foreign" else entry[: sizes.get(damage, len(entry))])
    assert cache.read("a.image") is None
    cache.write("a.image", IMAGE)
    assert cache.read("a.image") == IMAGE


def test_full_disk_is_one_line_and_leaves_nothing(
    cache: ImageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BuildError, match="No space left on device; free space") as caught:
        cache.write("a.image", IMAGE)
    assert "\n" not in str(caught.value)
    assert list(cache.folder.iterdir()) == []


def test_unwritable_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"cannot write the build cache .*LOWGRAPH_CACHE_DIR"):
        ImageCache(tmp_path / "file" / "kernels").write("a.image", IMAGE)
