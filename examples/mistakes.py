"""Five common mistakes in a step's body, and what lowgraph says to each of them.

    python examples/mistakes.py [DEVICE]

Each body works eagerly; recorded, it would fail or, worse, silently compute something else. Each
refusal says where, what, why, and what to do instead; the run goes on without a graph.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lowgraph import GraphStep, Library, PersistentPool, driver, open_device
from lowgraph.capture import Input
from lowgraph.cli import exit_code
from lowgraph.errors import InputMoved
from lowgraph.memory import upload

N, GRID, BLOCK = 1000, 4, 256


class Mistakes:
    """A weight, a gradient, and one body for each mistake."""

    def __init__(self, spec: str) -> None:
        self.device = open_device(spec)
        self.library, self.pool = Library(self.device), PersistentPool(self.device)
        self.stream = driver.stream.create()
        self.descend = self.library.kernel(Path(__file__).with_name("mistakes.cu"), "descend")
        self.w, self.g = self.pool.take("w", N), self.pool.take("g", N)
        self.fed = self.g
        self.batch = Input("batch", lambda: self.fed)
        self.steps = 0
        for piece in (self.w, self.g):
            upload(piece, np.ones(N, np.float32), self.stream)

    def allocate(self, stream: int) -> None:
        """Memory of the driver inside the body."""
        scratch = driver.memory.alloc(4 * N)  # instead: self.pool.take("scratch", N)
        driver.memory.memset_d8_async(scratch, 0, 4 * N, stream)
        self.descend(stream, GRID, BLOCK, scratch, self.g, 0.1, N)
        driver.memory.free(scratch)

    def synchronize(self, stream: int) -> None:
        """A wait inside the body, where nothing runs."""
        self.descend(stream, GRID, BLOCK, self.w, self.g, 0.1, N)
        driver.stream.synchronize(stream)  # instead: after step(), and only when a result is read

    def wrong_stream(self, stream: int) -> None:
        """A launch that is not on the body's stream."""
        self.descend(stream, GRID, BLOCK, self.w, self.g, 0.1, N)
        self.descend(0, GRID, BLOCK, self.w, self.g, 0.1, N)  # instead: on `stream`

    def baked_rate(self, stream: int) -> None:
        """A rate by value, which every replay would repeat."""
        self.steps += 1
        rate = 0.1 / self.steps  # instead: computed on the device, from a counter there
        self.descend(stream, GRID, BLOCK, self.w, self.g, rate, N)

    def good(self, stream: int) -> None:
        """Nothing wrong: it reads a declared input."""
        self.descend(stream, GRID, BLOCK, self.w, self.batch, 0.1, N)

    def step(self, name: str, **options: object) -> GraphStep:
        """A step over the body of that name; it prints each refusal once."""
        return GraphStep(
            getattr(self, name), device=self.device, pool=self.pool, library=self.library,
            stream=self.stream, label=name, say=print, **options,
        )  # fmt: skip

    def show(self, name: str) -> None:
        """Run three steps of a body; the second is where it would be recorded."""
        with self.step(name) as step:
            for _ in range(3):
                step()
            report = step.report()
            print(f"  {report.eager_steps} steps ran without a graph, {report.replays} with\n")

    def moved_input(self) -> None:
        """The body is good; the caller hands the graph a new array, as it would a function."""
        with self.step("good", inputs=[self.batch]) as step:
            for _ in range(3):
                step()
            self.fed = self.pool.take("next", N)  # instead: upload(self.g, ...), or a CopyIn pin
            try:
                step()
            except InputMoved as error:
                print(f"lowgraph: good: no replay: InputMoved: {error}")


def main(spec: str = "auto") -> None:
    mistakes = Mistakes(spec)
    print(f"device: {mistakes.device.spec}, {mistakes.device.title}")
    for name in ("allocate", "synchronize", "wrong_stream", "baked_rate"):
        mistakes.show(name)
    mistakes.moved_input()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(*sys.argv[1:2])))
