"""A step takes more memory when it is recorded than it did when it was primed.

The mistake: scratch memory of the size of this step's batch. The mended program takes it once, of
the size of the longest batch.
"""

from __future__ import annotations

from itertools import cycle

from shared import BLOCK, GRID, Case, N, run


def case(c: Case, fixed: bool) -> None:
    descend, scale = c.kernel("descend"), c.kernel("scale")
    w, g = c.filled("w", 1.0), c.filled("g", 1.0)
    longest = c.pool.take("scratch", 2 * N) if fixed else None
    lengths = cycle([N, 2 * N])

    def body(stream: int) -> None:
        scratch = longest or c.pool.take("scratch", next(lengths))
        scale(stream, GRID, BLOCK, scratch, g, 0.5, N)
        descend(stream, GRID, BLOCK, w, scratch, 0.1, N)

    with c.step(body, label="documents") as step:
        for _ in range(3):
            step()
        c.show(step, w)


if __name__ == "__main__":
    run(case)
