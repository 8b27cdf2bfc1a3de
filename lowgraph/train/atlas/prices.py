"""What a launch costs by itself, measured with a chain of empty kernels.

The kernel is `fill` told to fill nothing: one block that returns at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from lowgraph import driver
from lowgraph.train.atlas.clock import step_clock
from lowgraph.train.atlas.subject import Subject

__all__ = ["CHAIN", "Prices", "measure_prices"]

CHAIN = 500  # kernels: what the chain costs beside them is shared by so many
_ROUNDS = 7  # of which the median is taken

Chain = Callable[[int], None]


@dataclass(frozen=True)
class Prices:
    """Microseconds of an empty kernel: launched from Python; as a node of a graph."""

    launch_us: float
    node_us: float


def measure_prices(subject: Subject, graph: bool = True) -> Prices:
    """Run the chain, eager and as a graph, on the subject's stream. graph: False: no node, 0."""
    empty = subject.library.kernel("fill.cu", "fill")
    out = subject.pool.take("empty kernel's", 1)

    def chain(stream: int) -> None:
        for _ in range(CHAIN):
            empty(stream, 1, 32, out, 0.0, 0)

    try:
        _eager_us(subject.stream, chain)
        eager = median(_eager_us(subject.stream, chain) for _ in range(_ROUNDS))
        replay = _replay_us(subject, chain) if graph else 0.0
    finally:
        driver.stream.synchronize(subject.stream)
        subject.pool.give_back(out)
    return Prices(eager / CHAIN, replay / CHAIN)


def _eager_us(stream: int, chain: Chain) -> float:
    begin = time.perf_counter()
    chain(stream)
    driver.stream.synchronize(stream)
    return 1e6 * (time.perf_counter() - begin)


def _replay_us(subject: Subject, chain: Chain) -> float:
    with (
        step_clock(subject.stream) as clock,
        subject.graph_step(chain, "chain of empty kernels") as step,
    ):
        step()
        step()
        return median(clock(step) for _ in range(_ROUNDS))
