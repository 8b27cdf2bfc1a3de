"""The scenarios by name: small host programs, each for one kernel or one chain of them.

A scenario takes the bench and the fault that it is to commit ("" for none), launches, and returns
what came out beside what should have: NumPy in float64, or exact integers.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.check.bugs.bench import Array, Bench, Check

Scenario = Callable[[Bench, str], list[Check]]

SCENARIOS: dict[str, Scenario] = {}

CLOSE = 1e-5
"""Sums of a few hundred float32 terms of size 1: some 30 roundings of 2**-24, of the largest."""


def scenario(program: Scenario) -> Scenario:
    """Enter a scenario under its function's name."""
    SCENARIOS[program.__name__] = program
    return program


def close(bench: Bench, **pairs: tuple[object, Array]) -> list[Check]:
    """Checks of float32 results: name=(buffer, reference)."""
    return [
        Check(name, bench.get(buffer), want, CLOSE)  # type: ignore[arg-type]
        for name, (buffer, want) in pairs.items()
    ]
