"""Random programs of warp operations. warp_source writes them as CUDA C, warp_model runs them.

A program is a tree of statements over three registers of each thread: x, y, and m, the lanes that
it may still work with. Control flow diverges by data; every operation names exactly the lanes that
come to it, so that its result is defined on every device. Lanes that have left may still be named,
in operations for which CUDA allows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

ONES = 0xFFFFFFFF
STEP = 0x9E3779B1  # an odd multiplier: no value of a register is lost on the way

# Operations whose result needs every named lane, and votes, which do not. C texts: warp_source.
VALUES = (
    "shfl", "shfl_ull", "shfl_double", "shfl_float", "up", "down", "xor",
    "reduce_add", "reduce_max", "reduce_xor", "memory",
)  # fmt: skip
VOTES = ("ballot", "any", "all", "match_any", "match_all")


@dataclass(frozen=True)
class Operation:
    """x = x * STEP + result."""

    kind: str
    a: int
    b: int
    width: int


@dataclass(frozen=True)
class Arithmetic:
    """y = y * a + (x >> b)."""

    a: int
    b: int


@dataclass(frozen=True)
class Branch:
    """if (x >> bit & 1) then else otherwise, each with the mask of the lanes that take it."""

    bit: int
    then: tuple[Any, ...]
    otherwise: tuple[Any, ...]


@dataclass(frozen=True)
class Loop:
    """A body repeated (y >> bit) & 3 times, each round with the mask of the lanes still in it."""

    bit: int
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Leave:
    """Lanes with ((x >> bit) & 7) == 5 write their result and return; the others go on.

    refreshed: whether m is made anew; if not, it names lanes that have gone, and only votes follow
    until it is.
    """

    bit: int
    refreshed: bool


@dataclass(frozen=True)
class Refresh:
    """m = the lanes of m that have not left."""


@dataclass
class Generator:
    """Makes programs from a seed."""

    rng: np.random.Generator
    stale: bool = False
    size: int = 0
    loops: int = field(default=0)

    def program(self) -> tuple[Any, ...]:
        self.stale, self.size, self.loops = False, 0, 0
        return self._block(0, int(self.rng.integers(3, 7)))

    def _block(self, depth: int, count: int) -> tuple[Any, ...]:
        return tuple(self._statement(depth) for _ in range(count))

    def _statement(self, depth: int) -> Any:
        self.size += 1
        pick = self.rng.random()
        bit = int(self.rng.integers(0, 29))
        if self.stale and pick < 0.4:
            self.stale = False
            return Refresh()
        if pick < 0.12 and depth < 3 and not self.stale and self.size < 12:
            return self._branch(depth, bit)
        if pick < 0.2 and depth < 3 and not self.stale and self.size < 12 and self.loops < 2:
            self.loops += 1
            body = self._clean(self._block(depth + 1, 2))
            return Loop(bit, body)
        if pick < 0.27 and depth == 0:  # nested masks would go on naming the lanes that left
            refreshed = bool(self.rng.integers(0, 2))
            self.stale = not refreshed
            return Leave(bit, refreshed)
        if pick < 0.4:
            return Arithmetic(int(self.rng.integers(0, 1 << 31)) | 1, int(self.rng.integers(0, 16)))
        return self._operation()

    def _branch(self, depth: int, bit: int) -> Branch:
        then = self._clean(self._block(depth + 1, int(self.rng.integers(1, 4))))
        otherwise = self._clean(self._block(depth + 1, int(self.rng.integers(0, 3))))
        return Branch(bit, then, otherwise)

    def _clean(self, body: tuple[Any, ...]) -> tuple[Any, ...]:
        self.stale = False
        return body

    def _operation(self) -> Operation:
        kinds = VOTES if self.stale else (*VALUES, *VOTES)
        kind = str(self.rng.choice(kinds))
        a, b = int(self.rng.integers(0, 1 << 16)), int(self.rng.integers(0, 16))
        return Operation(kind, a, b, int(2 ** self.rng.integers(1, 6)))
