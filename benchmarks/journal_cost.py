"""What the journal adds to a launch that is recorded: python benchmarks/journal_cost.py.

The same chain of launches is recorded by bare calls of the driver layer (`bare`: no guard, no
journal), in a window with a light journal and in one with a full one, and in one that is bisected
(`capture.bisecting`), after its ops alone or after its lines too. CPU time of the calling thread
for one launch, in microseconds: a capture waits for nothing, and neighbours do not count.
`extra_us` is the median of the differences from bare, round by round. Nothing runs on the device.
The rounds alternate between the rows, so that a change of the clock hits all of them.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from measure import CHAIN, options, report, spread

from lowgraph import driver
from lowgraph.capture import Window, bisecting
from lowgraph.capture.journal import DETAILS
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool

BISECTED = (("full, bisected by ops", False), ("full, bisected by lines", True))


class Setting:
    """A stream, a kernel, and `launches` launches of it."""

    def __init__(self, device: driver.Device, launches: int) -> None:
        self.launches = launches
        self.stream = driver.stream.create()
        self.pool = PersistentPool(device)
        library = Library(device)
        self.put = library.kernel(CHAIN, "put")
        library.make_resident()
        self.x = self.pool.take("x", 1)

    def body(self) -> float:
        """Issue the chain; seconds of one launch."""
        put, stream, x = self.put, self.stream, self.x
        begin = time.thread_time()
        for _ in range(self.launches):
            put(stream, 1, 1, x, 1.0)
        return (time.thread_time() - begin) / self.launches

    def bare(self) -> float:
        """Record it with nothing of ours listening."""
        driver.stream.begin_capture(self.stream)
        seconds = self.body()
        driver.graph.destroy(driver.stream.end_capture(self.stream))
        return seconds

    def in_window(self, detail: str) -> float:
        """Record it in a window."""
        window = Window(self.stream, pool=self.pool, label=detail, journal=detail)
        with window:
            seconds = self.body()
        window.discard()
        return seconds

    def bisected(self, lines: bool) -> float:
        """Record it in a window whose capture is asked for its status all the while."""
        with bisecting(lines):
            return self.in_window("full")

    def rows(self) -> dict[str, Callable[[], float]]:
        """What is timed, the bare capture first."""
        windows = {d: (lambda d=d: self.in_window(d)) for d in reversed(DETAILS)}
        bisected = {name: (lambda lines=lines: self.bisected(lines)) for name, lines in BISECTED}
        return {"bare": self.bare, **windows, **bisected}


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = options(__doc__ or "")
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    device = driver.open_device(given.device)
    setting = Setting(device, given.launches)
    acts = setting.rows()
    found: dict[str, list[float]] = {name: [] for name in acts}
    for act in acts.values():
        act()  # once uncounted
    for _ in range(given.rounds):
        for name, act in acts.items():
            found[name].append(act())
    rows = []
    for name, seconds in found.items():
        extra = statistics.median(
            own - bare for own, bare in zip(seconds, found["bare"], strict=True)
        )
        rows.append({"what": name, "launches": given.launches, "us": spread(seconds),
                     "extra_us": round(1e6 * extra, 4)})  # fmt: skip
    report(device, rows, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
