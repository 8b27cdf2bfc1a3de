"""A step over an input whose producer returns another array each time, and its eager twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.capture import CopyIn, GraphStep, Phase, Rebind, Table
from lowgraph.memory import PersistentPool, Slice, download, fill_zero, upload
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "pins.cu"
N = 1000
BLOCKS = -(-N // 128)
KINDS = [CopyIn, Rebind, Table]
WALK = [1, 0, 2, 2, 1, 0, 0, 2]  # places of x, and what y gains on that way
GAIN = sum(2 * 10.0**place for place in WALK)


class Moving:
    """y += 2 x with x at one of three places, filled with 1, 10 and 100; `at` picks it.

    x is declared by the pin that `step` is given; the body hands that to the launch.
    """

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.stream = rig.stream
        self.pool = PersistentPool(rig.device)
        self.add, self.add_table, self.number, self.busy = (
            rig.library.kernel(SOURCE, name)
            for name in ("add_twice", "add_twice_of_table", "add_number", "busy")
        )
        self.y = self.pool.take("y", N)
        self.slow = self.pool.take("slow", 1)
        self.places = [self.pool.take(f"x{number}", N) for number in range(3)]
        for number, piece in enumerate(self.places):
            upload(piece, np.full(N, 10.0**number, np.float32), self.stream)
        fill_zero(self.y, self.stream)
        fill_zero(self.slow, self.stream)
        self.at = 0
        self.steps: list[GraphStep] = []

    def source(self) -> Slice:
        """Where x is now."""
        return self.places[self.at]

    def step(self, *pins: Any, inputs: Any = (), body: Any = None, **options: Any) -> GraphStep:
        """A step of y += 2 x over the one pin given, or over `body`."""
        declared = [*pins, *inputs]

        def add(stream: int) -> None:
            self.add(stream, BLOCKS, 128, self.y, declared[0], N)

        made = GraphStep(body or add, device=self.rig.device, pool=self.pool, stream=self.stream,
                         library=self.rig.library, say=lambda text: None, pins=pins, inputs=inputs,
                         **options)  # fmt: skip
        self.steps.append(made)
        return made

    def ready(self, kind: Any, **options: Any) -> tuple[Any, GraphStep]:
        """A pin of that kind over `source`, and its step, recorded and replayed once."""
        pin = kind("x", self.source)
        kernel = self.add_table if kind is Table else self.add

        def body(stream: int) -> None:
            kernel(stream, BLOCKS, 128, self.y, pin, N)

        step = self.step(pin, body=body, **options)
        step()
        step()
        assert step.phase is Phase.READY or "graph" in options, step.report().text()
        return pin, step

    def run(self, step: GraphStep, places: list[int]) -> float:
        """A step at each of the places; returns what y has gained."""
        before = self.value()
        for place in places:
            self.at = place
            step()
        return self.value() - before

    def value(self) -> float:
        """The one value that all of y has."""
        values = download(self.y, self.stream)
        assert (values == values[0]).all()
        return float(values[0])

    def close(self) -> None:
        for step in self.steps:
            step.close()
        self.pool.close()
