"""Fills in what only a finished kernel image tells: the bytes of each kernel's `__shared__`.

A `__shared__` variable is a thread-local one here, so the symbol table has its size, under a name
that begins with the mangled name of the function it is declared in. Also here: what an image says
of itself, which src/module.cpp and lowgraph.driver.images read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lowgraph.errors import BuildError

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SYMBOL_TABLE = 2  # sh_type
_THREAD_LOCAL = 6  # symbol type
_STATIC_SHARED_AT = 48  # offset of KernelEntry::static_shared, include/cuda_on_host/abi.h


@dataclass(frozen=True)
class _Section:
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class _Symbol:
    name: str
    kind: int
    section: int
    value: int
    size: int


def facts_text(source: Path, checks: bool) -> str:
    """Return the C++ text by which an image says what it was compiled from, and whether for checks.

    The path stands behind the words "lowgraph source", so that it is found in the file's bytes too.
    """
    export = 'extern "C" __attribute__((visibility("default"))) const char'
    path = "".join(f"\\{byte:03o}" for byte in os.fsencode(source))
    text = f'{export} lowgraph_image_source[] = "lowgraph source {path}";\n'
    return text + (f"{export} lowgraph_image_checks[] = {{1}};\n" if checks else "")


def fill_static_shared(image: bytes, kernels: Sequence[str]) -> bytes:
    """Writes each kernel's static shared bytes into its table entry; the changed image.

    Counted are the variables declared in the kernel itself, not those of functions it calls.
    Raises BuildError if the image is no ELF file or lacks an entry.
    """
    if not image.startswith(_ELF64_LITTLE):
        raise BuildError("the compiler did not write a 64-bit ELF image")
    sections = _sections(image)
    symbols = list(_symbols(image, sections))
    entries = {symbol.name: symbol for symbol in symbols}
    changed = bytearray(image)
    for kernel in kernels:
        entry = entries.get(f"lowgraph_kernel_{kernel}")
        if entry is None:
            raise BuildError(f"the image has no entry for kernel {kernel!r}")
        home = sections[entry.section]
        place = home.offset + entry.value - home.address + _STATIC_SHARED_AT
        struct.pack_into("<I", changed, place, _shared_bytes(symbols, kernel))
    return bytes(changed)


def _shared_bytes(symbols: Sequence[_Symbol], kernel: str) -> int:
    inside = f"_ZZ{len(kernel)}{kernel}E"
    return sum(s.size for s in symbols if s.kind == _THREAD_LOCAL and s.name.startswith(inside))


def _sections(image: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    sections = []
    for i in range(count):
        fields = struct.unpack_from("<IIQQQQI", image, start + i * size)
        sections.append(_Section(fields[1], fields[3], fields[4], fields[5], fields[6]))
    return sections


def _symbols(image: bytes, sections: Sequence[_Section]) -> Iterator[_Symbol]:
    for table in sections:
        if table.kind != _SYMBOL_TABLE:
            continue
        names = sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", image, at)
            end = image.index(b"\0", names + name)
            text = image[names + name : end].decode()
            yield _Symbol(text, info & 15, section, value, size)
