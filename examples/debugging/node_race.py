"""Two branches of a graph write the same memory, and no edge says which is first.

The mistake: the side stream adds to the gradient that the main stream adds to. The mended program
gives the side stream memory of its own, and adds that behind the join.
"""

from __future__ import annotations

from shared import BLOCK, GRID, Case, N, run, say

from lowgraph import debug, driver


def case(c: Case, fixed: bool) -> None:
    add, scale = c.kernel("add"), c.kernel("scale")
    gradient, own = c.filled("gradient", 0.0), c.filled("own", 0.0)
    left, right = c.filled("left", 1.0), c.filled("right", 2.0)
    side = driver.stream.create()
    forked, joined = driver.event.create(), driver.event.create()

    def body(stream: int) -> None:
        driver.event.record(forked, stream)
        driver.stream.wait_event(side, forked)
        if fixed:
            scale(side, GRID, BLOCK, own, right, 1.0, N)
        else:
            add(side, GRID, BLOCK, gradient, right, N)
        add(stream, GRID, BLOCK, gradient, left, N)
        driver.event.record(joined, side)
        driver.stream.wait_event(stream, joined)
        if fixed:
            add(stream, GRID, BLOCK, gradient, own, N)

    with c.step(body, label="backward") as step:
        step()
        step()
        report = debug.Audit.of(step).report()
        say(f"findings: {len(report.findings)}")
        say("\n".join(report.findings))
        c.show(step, gradient if fixed else None)


if __name__ == "__main__":
    run(case)
