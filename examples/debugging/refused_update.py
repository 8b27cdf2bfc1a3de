"""A second recording has one node more, and the driver refuses to update the executable.

The mistake: a part of the step that comes and goes with a setting. The mended program always
launches it, and what it does depends on a number that is recorded: an update can change that.
"""

from __future__ import annotations

from shared import BLOCK, GRID, Case, N, run, say

from lowgraph import debug


def case(c: Case, fixed: bool) -> None:
    descend, scale = c.kernel("descend"), c.kernel("scale")
    w, g = c.filled("w", 1.0), c.filled("g", 1.0)
    decay = 1.0

    def body(stream: int) -> None:
        if fixed or decay != 1.0:
            scale(stream, GRID, BLOCK, w, w, decay, N)
        descend(stream, GRID, BLOCK, w, g, 0.1, N)

    with c.step(body, label="train") as step:
        step()
        step()
        before = debug.read(step)
        decay = 0.5
        updated = step.recapture()
        say(f"updated: {updated}\n{step.report().last_rejection}")
        for line in debug.diff(before, debug.read(step)).lines():
            say(line)
        step()
        c.show(step, w)


if __name__ == "__main__":
    run(case)
