"""One's own kernel as a graph: primed once, recorded once, then one graph launch a step."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lowgraph import GraphStep, Library, PersistentPool, open_device
from lowgraph.cli import exit_code
from lowgraph.driver import stream as streams
from lowgraph.memory import download, upload


def main(spec: str = "auto") -> None:
    device = open_device(spec)
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    leaky_sum = library.kernel(Path(__file__).with_name("own_kernel.cu"), "leaky_sum")
    x, y = pool.take("x", (1000,)), pool.take("y", (1000,))
    upload(x, np.ones(1000, np.float32), stream)
    upload(y, np.zeros(1000, np.float32), stream)
    with GraphStep(
        lambda s: leaky_sum(s, 4, 256, y, x, 0.5, 1000),
        device=device, pool=pool, library=library, stream=stream, label="own kernel",
    ) as step:  # fmt: skip
        for _ in range(10):
            step()
        print(step.report().text())
    check(download(y, stream))


def check(y: np.ndarray) -> None:
    expected = 2.0 - 2.0**-9  # 1 + 1/2 + ... + 1/2^9
    assert np.array_equal(y, np.full(1000, expected, np.float32))
    print(f"y[0] = {y[0]}")


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(*sys.argv[1:2])))
