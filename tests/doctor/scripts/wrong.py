"""One step for each thing that is found in lowgraph's own graphs; argv[2:] are their names."""

from __future__ import annotations

import sys

from parts import BLOCK, GRID, N, add, pool, step, stream, x, y

import lowgraph
from lowgraph import driver
from lowgraph.capture import ForeignMemory, Input
from lowgraph.driver import event
from lowgraph.driver import stream as streams

own = driver.memory.alloc(4 * N)
driver.memory.memset_d8_async(own, 0, 4 * N, stream)
side = streams.create()
z = pool.take("z", N)
events = [event.create() for _ in range(2)]
count = 0


def unowned(on: int) -> None:
    """Memory of the driver's, which nobody declared."""
    with lowgraph.stage("forward"):
        add(on, GRID, BLOCK, x, 1.0, N)
    add(on, GRID, BLOCK, own, 1.0, N)  # UNOWNED


def declared(on: int) -> None:
    """The same memory, declared."""
    add(on, GRID, BLOCK, own, 1.0, N)


def stale(on: int) -> None:
    """A slice that is given back while the graph lives."""
    for _ in range(3):
        add(on, GRID, BLOCK, y, 1.0, N)


def closed(on: int) -> None:
    """The same of a graph that is closed before the end."""
    add(on, GRID, BLOCK, z, 1.0, N)


def frozen(on: int) -> None:
    """A rate by value."""
    global count
    count += 1
    add(on, GRID, BLOCK, x, 1.0 / count, N)  # FROZEN


def plateau(on: int) -> None:
    """A rate that changes after the capture only."""
    global count
    count += 1
    add(on, GRID, BLOCK, x, 1.0 if count < 3 else 2.0, N)  # PLATEAU


def allocates(on: int) -> None:
    """Memory in the window that no priming pass took."""
    global count
    count += 1
    for number in range(count):
        pool.take(f"more {number}", 1 << 16)  # TAKES
    add(on, GRID, BLOCK, x, 1.0, N)


def races(on: int) -> None:
    """Two branches that write the same slice."""
    event.record(events[0], on)
    streams.wait_event(side, events[0])
    add(on, GRID, BLOCK, x, 1.0, N)
    add(side, GRID, BLOCK, x, 1.0, N)
    event.record(events[1], side)
    streams.wait_event(on, events[1])


def clean(on: int) -> None:
    """Nothing wrong."""
    with lowgraph.stage("forward"):
        add(on, GRID, BLOCK, x, 1.0, N)


memory = ForeignMemory(own, 4 * N, own)
options = {"declared": {"inputs": [Input("own", memory)]}}
kept = []  # a graph that is dropped without close() is not audited
for name in sys.argv[2:]:
    if name == "exits":
        sys.exit(3)
    count = 0
    made = step(globals()[name], name, **options.get(name, {}))
    kept.append(made)
    for _ in range(4):
        made()
    if name == "plateau":
        made.recapture()
    if name == "stale":
        pool.give_back(y)  # GIVEN BACK
    streams.synchronize(stream)
    print(name, made.report().replays)
    if name == "closed":
        pool.give_back(z)  # BEFORE THE END
    if name in ("clean", "closed"):
        made.close()  # the others are open when the script ends
