"""Sizes that every launcher needs: launch grids, chunks of rows, and checked arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from lowgraph.errors import ConfigError

__all__ = [
    "Chunks",
    "Fork",
    "HasAddress",
    "Pointer",
    "Stream",
    "behind",
    "ceil_div",
    "check_sizes",
    "quads",
    "row_chunks",
]


class HasAddress(Protocol):
    """Anything with a device address in bytes: a pool slice, a part of one."""

    @property
    def address(self) -> int:
        """Device address."""


Pointer = int | HasAddress
"""A device address, or an object that has one; a dtype it declares must fit the kernel's."""

Stream = int
"""A stream handle (CUstream as an integer)."""

Fork = Callable[[], Stream]
"""Gives a stream whose next work comes behind all that the launcher's stream has so far.

A launcher calls it for a launch that nothing else there waits for: the caller joins that stream
before it reads the result, and lets what the launch reads be until then.
"""

_LEAST_CHUNK_ROWS = 32
_MOST_CHUNKS = 64
_LARGEST_INT = 2**31 - 1


class Chunks(NamedTuple):
    """Rows cut into `chunks` chunks of `rows` rows each, the last one shorter."""

    chunks: int
    rows: int


def ceil_div(a: int, b: int) -> int:
    """Return a / b rounded up; a >= 0, b >= 1."""
    return -(-a // b)


def behind(stream: Stream, side: Fork | None) -> Stream:
    """Return the stream for a launch that may leave `stream`: that one where there is no fork."""
    return stream if side is None else side()


def quads(columns: int) -> int:
    """Return how many threads cover a row when each owns four columns."""
    return ceil_div(columns, 4)


def row_chunks(rows: int) -> Chunks:
    """Return how a sum over `rows` rows is cut up: first each chunk's sum, then over the chunks.

    At least 32 rows a chunk and at most 64 chunks, so that both stages are short. A function of
    `rows` alone: the order of addition, and so the bits, do not depend on the device.
    """
    rows_each = max(_LEAST_CHUNK_ROWS, ceil_div(rows, _MOST_CHUNKS))
    return Chunks(max(1, ceil_div(rows, rows_each)), rows_each)


def check_sizes(layer: str, *, least: int = 0, **sizes: int) -> None:
    """Raise ConfigError naming the first size that is below `least` or does not fit an int."""
    for name, size in sizes.items():
        if not least <= size <= _LARGEST_INT:
            raise ConfigError(f"{layer}: {name} must be {least} to {_LARGEST_INT}, got {size}")
