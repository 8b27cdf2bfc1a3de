"""The driver says that it updated an executable, and the kernel runs with the old cluster size.

The mistake: the driver's answer is taken for what happened. `diff` knows better. The mended program
leaves it to recapture(), which makes a fresh executable.
"""

from __future__ import annotations

from shared import BLOCK, GRID, Case, N, run, say

from lowgraph import debug, driver
from lowgraph.driver.launch import LaunchConfig


def case(c: Case, fixed: bool) -> None:
    scale = c.kernel("scale")
    x, y = c.filled("x", 1.0), c.filled("y", 0.0)
    size = 2

    def body(stream: int) -> None:
        scale.pack.store(scale.pack.values((y, x, 3.0, N)))
        config = LaunchConfig(stream, GRID, BLOCK, cluster=size)
        driver.launch.launch(config, scale.handle, scale.pack.address)

    def recorded() -> int:
        driver.stream.begin_capture(c.stream, "thread_local")
        body(c.stream)
        return driver.stream.end_capture(c.stream)

    if not fixed:
        before, size = recorded(), 4
        executable, now = driver.graph.instantiate(before), recorded()
        say(f"cuGraphExecUpdate accepted: {driver.graph.update(executable, now).ok}")
        forms = [debug.read_handle(graph, pool=c.pool) for graph in (before, now)]
        say("\n".join(debug.diff(*forms).lines()))
        driver.graph.exec_destroy(executable)
        for graph in (before, now):
            driver.graph.destroy(graph)
        return
    with c.step(body, label="clusters") as step:
        step()
        step()
        size = 4
        say(f"updated: {step.recapture()}\n{step.report().last_rejection}")
        c.show(step, y)


if __name__ == "__main__":
    run(case)
