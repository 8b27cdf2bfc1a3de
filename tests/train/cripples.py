"""Training steps with one thing wrong, for the gates to find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.capture import GraphStep
from lowgraph.capture.pins import Pin
from lowgraph.memory import fill_zero, open_window
from lowgraph.train.step import TrainingStep

__all__ = [
    "Addition",
    "Chatty",
    "Forgetful",
    "Reading",
    "Scribbling",
    "Sloppy",
    "Waiting",
    "extra_calls",
]

KERNELS = Path(__file__).parents[1] / "capture" / "step.cu"


class Addition(TrainingStep):
    """Adds a part of itself to the last parameter: base of the wrong steps. rate: [1]."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        pool, library = given["pool"], given["library"]
        self.counter = pool.take("counter", 1, np.int64)
        self.rate = pool.take("rate", 1)
        self.advance = library.kernel(KERNELS, "advance")
        self.update = library.kernel(KERNELS, "update")

    def add(self, stream: int) -> None:
        self.advance(stream, 1, 1, self.counter, self.rate)
        last = list(self.model.parameters.values())[-1]
        self.update(stream, 1, 128, last, last, self.rate, last.elements)


class Forgetful(Addition):
    """Reads a counter that no snapshot holds: no two runs are alike."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.cleared = False

    def __call__(self, stream: int) -> None:
        if not self.cleared:
            fill_zero(self.counter, stream)
            self.cleared = True
        super().__call__(stream)
        self.add(stream)


class Sloppy(Addition):
    """Does something in plain steps that it leaves out of the recording."""

    def __call__(self, stream: int) -> None:
        super().__call__(stream)
        if open_window.mine() is None:
            fill_zero(self.counter, stream)
            self.add(stream)


class Reading(Addition):
    """Reads `pin`, four elements, into a slice of its own: nothing is wrong with it."""

    pin: Pin

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.read = given["pool"].take("read", 4)

    def __call__(self, stream: int) -> None:
        super().__call__(stream)
        self.update(stream, 1, 128, self.read, type(self).pin, self.rate, 4)


class Scribbling(TrainingStep):
    """Writes over all gradients and what lies between them, after the backward."""

    def __call__(self, stream: int) -> None:
        super().__call__(stream)
        fill_zero(self.model.gradients.flat, stream)


class Waiting(TrainingStep):
    """Waits for the device, so that it cannot be recorded."""

    def __call__(self, stream: int) -> None:
        super().__call__(stream)
        driver.stream.synchronize(stream)


class Chatty(GraphStep):
    """Calls the driver once more in each step."""

    extra: Callable[[int], None]

    def __call__(self) -> None:
        super().__call__()
        type(self).extra(self.stream)


class Doubling(GraphStep):
    """Launches its graph once more in each step."""

    def __call__(self) -> None:
        super().__call__()
        if self.graph is not None:
            self.graph.launch()


def extra_calls(scratch: int, launch: Callable[[int], None]) -> dict[str, Callable[[int], None]]:
    """Driver calls that a replayed step may not make. scratch: 256 bytes of the device."""
    return {
        "launch": launch,
        "fill": lambda stream: driver.memory.memset_d8_async(scratch, 0, 256, stream),
        "sync": driver.stream.synchronize,
        "allocation": lambda stream: driver.memory.free(driver.memory.alloc(256)),
    }
