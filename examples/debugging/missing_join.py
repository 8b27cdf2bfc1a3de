"""Work on a second stream is forked into the capture and never joined.

The mistake: the host waits for the second stream behind the step, and so no event joins it to the
first one. The mended program records an event behind that work, and the body's stream waits for it.
"""

from __future__ import annotations

from shared import BLOCK, GRID, Case, N, run

from lowgraph import driver


def case(c: Case, fixed: bool) -> None:
    descend, scale = c.kernel("descend"), c.kernel("scale")
    w, g, doubled = c.filled("w", 1.0), c.filled("g", 1.0), c.filled("doubled", 0.0)
    side = driver.stream.create()
    forked, joined = driver.event.create(), driver.event.create()

    def body(stream: int) -> None:
        driver.event.record(forked, stream)
        driver.stream.wait_event(side, forked)
        scale(side, GRID, BLOCK, doubled, g, 2.0, N)
        descend(stream, GRID, BLOCK, w, g, 0.1, N)
        if fixed:
            driver.event.record(joined, side)
            driver.stream.wait_event(stream, joined)

    with c.step(body, label="two streams") as step:
        for _ in range(3):
            step()
            driver.stream.synchronize(side)
        c.show(step, doubled)


if __name__ == "__main__":
    run(case)
