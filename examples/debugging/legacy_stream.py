"""A helper launches on the legacy stream, and not on the stream that is recorded.

The mistake: a helper with a default of `stream=0`. The mended program passes the body's stream.
"""

from __future__ import annotations

from shared import BLOCK, GRID, Case, N, run


def case(c: Case, fixed: bool) -> None:
    descend, scale = c.kernel("descend"), c.kernel("scale")
    w, g, scaled = c.filled("w", 1.0), c.filled("g", 1.0), c.filled("scaled", 0.0)

    def halve(stream: int = 0) -> None:
        scale(stream, GRID, BLOCK, scaled, g, 0.5, N)

    def body(stream: int) -> None:
        if fixed:
            halve(stream)
        else:
            halve()
        descend(stream, GRID, BLOCK, w, scaled, 0.1, N)

    with c.step(body, label="train") as step:
        for _ in range(3):
            step()
        c.show(step, w if fixed else None)


if __name__ == "__main__":
    run(case)
