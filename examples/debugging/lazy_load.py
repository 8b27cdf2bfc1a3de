"""A kernel is asked for when it is first needed, and that is while the step is recorded.

The mistake: the first step has no average of the weights to update, so its kernel is looked up in
the second. The mended program asks for the kernel before the step, and updates from the first on.
"""

from __future__ import annotations

from shared import BLOCK, GRID, HERE, Case, N, run


def case(c: Case, fixed: bool) -> None:
    descend = c.kernel("descend")
    w, g, averaged = c.filled("w", 1.0), c.filled("g", 1.0), c.filled("averaged", 1.0)
    average = c.library.kernel(HERE / "average.cu", "average") if fixed else None

    def body(stream: int) -> None:
        nonlocal average
        descend(stream, GRID, BLOCK, w, g, 0.1, N)
        if average is None and step.report().eager_steps > 0:
            average = c.library.kernel(HERE / "average.cu", "average")
        if average is not None:
            average(stream, GRID, BLOCK, averaged, w, N)

    with c.step(body, label="with average") as step:
        for _ in range(3):
            step()
        c.show(step, averaged)


if __name__ == "__main__":
    run(case)
