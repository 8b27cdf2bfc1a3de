"""A learning rate that changes from step to step is passed by value.

The mistake: a graph holds the rate of the step that was recorded. The mended program keeps the rate
on the device and changes it there, by a kernel of the step.
"""

from __future__ import annotations

import numpy as np
from shared import BLOCK, GRID, Case, N, run

from lowgraph.memory import upload


def case(c: Case, fixed: bool) -> None:
    descend, descend_at, decay = c.kernel("descend"), c.kernel("descend_at"), c.kernel("decay")
    w, g, rate = c.filled("w", 1.0), c.filled("g", 1.0), c.pool.take("rate", 1)
    upload(rate, np.full(1, 0.1, np.float32), c.stream)
    by_value = 0.1

    def body(stream: int) -> None:
        nonlocal by_value
        if fixed:
            descend_at(stream, GRID, BLOCK, w, g, rate, N)
            decay(stream, 1, 1, rate, 0.5)
        else:
            descend(stream, GRID, BLOCK, w, g, by_value, N)
            by_value *= 0.5

    with c.step(body, label="train") as step:
        for _ in range(4):
            step()
        c.show(step, w)


if __name__ == "__main__":
    run(case)
