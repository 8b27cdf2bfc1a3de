"""What a module image is and what it was compiled for, read from its bytes: no driver call."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["REFUSED", "ImageFacts", "describe"]

REFUSED = frozenset({200, 209, 218, 222})
"""Codes by which a load refuses the image itself: unknown or damaged, for another device, PTX that
the driver's compiler rejects or that is newer than it."""

_ELF64 = b"\x7fELF\x02\x01"
_MACHINE_CUDA, _MACHINE_X86 = 190, 62
_ACCELERATED = 0x800  # in the flags of ABI 7: code of sm_90a and the like, for that one GPU
_FAT_MAGIC = 0xBA55ED50
_FAT_HEADER = struct.Struct("<IHHQ")  # magic, version, size of this header, bytes behind it
# Kind, attributes, size of this header, bytes behind it, compressed bytes, two sizes, minor and
# major version, architecture.
_FAT_ENTRY = struct.Struct("<HHIQIIHHI")
_FAT_KINDS = {1: "compute_", 2: "sm_"}  # PTX, cubin
# hostdev/image.py writes them.
_SOURCE = re.compile(rb"lowgraph source (/[^\0]+)\0")
_CHECKS = b"lowgraph_image_checks"
_PTX_TARGET = re.compile(rb"^\s*\.target\s+(sm_\w+)", re.MULTILINE)


@dataclass(frozen=True)
class ImageFacts:
    """What was found. kind: "ptx", "cubin", "fatbin", "host" or "unknown".

    archs: "sm_90" for a GPU's code, "compute_90" for PTX, in the order of the image; those that
    cannot be read are left out. Of an image for the host: checks, whether it is for the check
    build; source, the file that it was compiled from, None where it does not say.
    """

    kind: str
    archs: tuple[str, ...] = ()
    checks: bool = False
    source: Path | None = None

    def __str__(self) -> str:
        """Return "a cubin for sm_90"."""
        told = f" for {', '.join(self.archs)}" if self.archs else ""
        return f"{_TITLES[self.kind]}{told}"


_TITLES = {
    "ptx": "PTX",
    "cubin": "a cubin",
    "fatbin": "a fat binary",
    "host": "an image of the host device",
    "unknown": "neither PTX, nor a cubin, a fat binary or an image of the host device",
}


def describe(image: bytes) -> ImageFacts:
    """Say what an image is; of any bytes."""
    if image.startswith(_ELF64) and len(image) >= 52:
        return _describe_elf(image)
    if len(image) >= _FAT_HEADER.size and _FAT_HEADER.unpack_from(image)[0] == _FAT_MAGIC:
        return ImageFacts("fatbin", tuple(_fat_archs(image)))
    target = _PTX_TARGET.search(image)
    if target is not None:
        return ImageFacts("ptx", (target[1].decode().replace("sm_", "compute_"),))
    return ImageFacts("unknown")


def _describe_elf(image: bytes) -> ImageFacts:
    (machine,) = struct.unpack_from("<H", image, 18)
    if machine == _MACHINE_X86:
        return _describe_host(image) if b"lowgraph_kernel_" in image else ImageFacts("unknown")
    if machine != _MACHINE_CUDA:
        return ImageFacts("unknown")
    (flags,) = struct.unpack_from("<I", image, 48)
    # The place of the architecture changed with the ABI that CUDA 12.8 began for sm_100.
    if image[8] >= 8:
        return ImageFacts("cubin", (f"sm_{flags >> 8 & 0xFF}",))
    return ImageFacts("cubin", (f"sm_{flags & 0xFF}{'a' if flags & _ACCELERATED else ''}",))


def _describe_host(image: bytes) -> ImageFacts:
    found = _SOURCE.search(image)
    source = None if found is None else Path(os.fsdecode(found[1]))
    return ImageFacts("host", checks=_CHECKS in image, source=source)


def _fat_archs(image: bytes) -> Iterator[str]:
    _, _, place, nbytes = _FAT_HEADER.unpack_from(image)
    end = min(place + nbytes, len(image))
    while place + _FAT_ENTRY.size <= end:
        kind, _, header, behind, *_, arch = _FAT_ENTRY.unpack_from(image, place)
        if kind in _FAT_KINDS:
            yield f"{_FAT_KINDS[kind]}{arch}"
        if header < _FAT_ENTRY.size:  # damaged
            return
        place += header + behind
