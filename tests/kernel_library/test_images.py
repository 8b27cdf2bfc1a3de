"""What a module image is, by its bytes; no device."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from lowgraph.driver import compiler
from lowgraph.driver.images import describe

SOURCE = Path(__file__).parents[2] / "examples" / "own_kernel.cu"
PTX = b"//\n// made by hand\n.version 8.0\n.target sm_90a\n.address_size 64\n"


def fat_binary(*entries: tuple[int, int, bytes]) -> bytes:
    """A fat binary of (kind: 1 PTX, 2 cubin; architecture; content)."""
    inside = b"".join(
        struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(content), 0, 0, 0, 0, arch)
        + bytes(32) + content
        for kind, arch, content in entries
    )  # fmt: skip
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(inside)) + inside


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100"])
def test_a_cubin_tells_its_architecture(arch: str) -> None:
    facts = describe(compiler.compile_cubin(SOURCE, arch, (), {}))
    assert (facts.kind, facts.archs) == ("cubin", (arch,))
    assert str(facts) == f"a cubin for {arch}"


def test_ptx_and_fat_binaries_tell_theirs() -> None:
    assert str(describe(PTX)) == "PTX for compute_90a"
    fat = fat_binary((2, 80, b"elf"), (2, 86, b"another"), (1, 86, PTX))
    assert str(describe(fat)) == "a fat binary for sm_80, sm_86, compute_86"


@pytest.mark.parametrize(
    "image",
    [b"", b"hello", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(60), fat_binary()[:10]],
)
def test_anything_else_is_unknown(image: bytes) -> None:
    assert describe(image).kind == "unknown"


def test_a_fat_binary_that_is_cut_short_tells_what_it_has() -> None:
    whole = fat_binary((2, 80, b"elf"), (2, 90, b""))
    assert describe(whole[:-33]).archs == ("sm_80",)


def test_a_damaged_fat_binary_ends() -> None:
    header = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 40)
    entry = struct.pack("<HHIQIIHHI", 2, 0x101, 0, 0, 0, 0, 0, 0, 90) + bytes(200)
    assert describe(header + entry).archs == ("sm_90",)
