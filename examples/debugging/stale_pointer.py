"""A buffer is replaced by a larger one, and the graph still reads the old one's memory.

The mistake: the step is not told. The audit names the pointer before any replay has used it. The
mended program records the step anew, with the buffer that is there now.
"""

from __future__ import annotations

import numpy as np
from shared import BLOCK, GRID, Case, N, run

from lowgraph import debug
from lowgraph.memory import upload


def case(c: Case, fixed: bool) -> None:
    descend = c.kernel("descend")
    w, batch = c.filled("w", 1.0), c.filled("batch", 1.0)

    def body(stream: int) -> None:
        descend(stream, GRID, BLOCK, w, batch, 0.1, N)

    with c.step(body, label="train") as step:
        step()
        step()
        audit = debug.Audit.of(step)
        c.pool.give_back(batch)
        batch = c.pool.take("larger batch", 4 * N)
        upload(batch, np.full(4 * N, 2.0, np.float32), c.stream)
        if fixed:
            step.recapture()
        audit.require()
        step()
        c.show(step, w)


if __name__ == "__main__":
    run(case)
