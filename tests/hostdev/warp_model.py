"""The slow, obvious model of a warp: all its lanes go through a program together, as a set.

Each statement is run for the set of lanes that come to it; registers are Python integers in lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.hostdev.warp_programs import (
    ONES,
    STEP,
    Arithmetic,
    Branch,
    Leave,
    Loop,
    Operation,
    Refresh,
)


@dataclass
class Warp:
    """Registers of up to 32 lanes, and what each left behind: (x, y) pairs."""

    x: list[int]
    y: list[int]
    out: dict[int, tuple[int, int]] = field(default_factory=dict)

    def run(self, program: tuple[Any, ...]) -> list[tuple[int, int]]:
        lanes = list(range(len(self.x)))
        self._block(program, lanes)
        for lane in lanes:
            self.out.setdefault(lane, (self.x[lane], self.y[lane]))
        return [self.out[lane] for lane in lanes]

    def _present(self, lanes: list[int]) -> list[int]:
        return [lane for lane in lanes if lane not in self.out]

    def _block(self, block: tuple[Any, ...], lanes: list[int]) -> None:
        for statement in block:
            here = self._present(lanes)
            if here:
                self._statement(statement, here)

    def _statement(self, s: Any, lanes: list[int]) -> None:
        if isinstance(s, Operation):
            results = {lane: self._result(s, lane, lanes) for lane in lanes}
            for lane in lanes:
                self.x[lane] = (self.x[lane] * STEP + results[lane]) & ONES
        elif isinstance(s, Arithmetic):
            for lane in lanes:
                self.y[lane] = (self.y[lane] * s.a + (self.x[lane] >> s.b)) & ONES
        elif isinstance(s, Branch):
            taken = [lane for lane in lanes if self.x[lane] >> s.bit & 1]
            self._block(s.then, taken)
            self._block(s.otherwise, [lane for lane in lanes if lane not in taken])
        elif isinstance(s, Loop):
            rounds = {lane: self.y[lane] >> s.bit & 3 for lane in lanes}
            for k in range(3):
                self._block(s.body, [lane for lane in lanes if k < rounds[lane]])
        elif isinstance(s, Leave):
            for lane in lanes:
                if self.x[lane] >> s.bit & 7 == 5:
                    self.out[lane] = (self.x[lane], ~self.y[lane] & ONES)
        else:
            assert isinstance(s, Refresh)

    def _result(self, s: Operation, lane: int, lanes: list[int]) -> int:
        x, y = self.x[lane], self.y[lane]

        def lane_of(k: int) -> int:
            return lanes[(k & ONES) % len(lanes)]

        def neighbour(source: int) -> int:
            same_segment = 0 <= source < 32 and source // s.width == lane // s.width
            return source if same_segment and source in lanes else lane

        def bits(chosen: list[int]) -> int:
            return sum(1 << other for other in chosen)

        if s.kind in ("shfl", "memory"):
            return self.x[lane_of(y + s.a)]
        if s.kind == "shfl_ull":
            source = lane_of(x + s.a)
            return self.x[source] * 31 + self.y[source]
        if s.kind == "shfl_double":
            return self.x[lane_of(y * 3 + s.a)]
        if s.kind == "shfl_float":
            return self.x[lane_of(y + s.a)] & 0xFFFF
        if s.kind == "up":
            return self.x[neighbour(lane - s.b)]
        if s.kind == "down":
            return self.y[neighbour(lane + s.b)]
        if s.kind == "xor":
            return self.x[lane ^ s.b if lane ^ s.b in lanes else lane]
        if s.kind == "reduce_add":
            return sum(self.x[other] for other in lanes)
        if s.kind == "reduce_max":
            return max(self.y[other] for other in lanes)
        if s.kind == "reduce_xor":
            total = 0
            for other in lanes:
                total ^= self.x[other]
            return total
        return self._vote(s, lane, lanes, bits)

    def _vote(self, s: Operation, lane: int, lanes: list[int], bits: Any) -> int:
        if s.kind == "ballot":
            return int(bits([other for other in lanes if self.x[other] >> s.b & 1]))
        if s.kind == "any":
            return int(any(self.y[other] & 7 == s.b for other in lanes))
        if s.kind == "all":
            return int(all(self.x[other] & 15 != s.b for other in lanes))
        if s.kind == "match_any":
            return int(bits([other for other in lanes if (self.x[other] ^ self.x[lane]) & 3 == 0]))
        assert s.kind == "match_all"
        values = {self.y[other] > 0x08000000 for other in lanes}  # equal in half of all warps
        return int(bits(lanes)) * 2 + 1 if len(values) == 1 else 0
