"""Two steps of one label, as all are that are given none; each follows memory that moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from parts import BLOCK, GRID, N, add, step, stream

from lowgraph import driver
from lowgraph.capture import ForeignMemory, Rebind
from lowgraph.driver import stream as streams


def taken() -> ForeignMemory:
    """Zeros of the driver's."""
    address = driver.memory.alloc(4 * N)
    driver.memory.memset_d8_async(address, 0, 4 * N, stream)
    return ForeignMemory(address, 4 * N, None, (N,), np.dtype(np.float32))


def follows(places: list[ForeignMemory]) -> Any:
    """A step that adds to where the first of the places is."""
    pin = Rebind("x", lambda: places[0])
    return step(lambda on: add(on, GRID, BLOCK, pin, 1.0, N), "step", pins=[pin])


moving = [taken(), taken()], [taken(), taken()]
twins = [follows(places) for places in moving]
for turn in range(4):
    for made, places in zip(twins, moving, strict=True):
        if turn == 3:
            places.reverse()
        made()
streams.synchronize(stream)
print(*[made.report().replays for made in twins])
twins[1].close()  # the other one lives at the end
