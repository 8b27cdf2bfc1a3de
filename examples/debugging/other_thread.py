"""A watchdog thread synchronises the context while the step is recorded.

The mistake: it does so past lowgraph, as a library of somebody else's would. The mended watchdog
asks an event, in relaxed mode: that disturbs no capture.
"""

from __future__ import annotations

import threading

from cuda.bindings import driver as bindings
from shared import BLOCK, GRID, Case, N, run

from lowgraph import driver


def case(c: Case, fixed: bool) -> None:
    descend = c.kernel("descend")
    w, g = c.filled("w", 1.0), c.filled("g", 1.0)
    event = driver.event.create()
    driver.event.record(event, c.stream)

    def watch() -> None:
        c.device.make_current()
        with driver.stream.relaxed():
            driver.event.is_done(event)
        if not fixed:
            bindings.cuCtxSynchronize()

    def body(stream: int) -> None:
        watchdog = threading.Thread(target=watch, name="watchdog")
        watchdog.start()
        watchdog.join()  # so that it is in the window in every run of this script
        descend(stream, GRID, BLOCK, w, g, 0.1, N)

    with c.step(body, label="train") as step:
        for _ in range(3):
            step()
        c.show(step, w)


if __name__ == "__main__":
    run(case)
