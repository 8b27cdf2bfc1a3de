"""What step() costs above a bare cuGraphLaunch: python benchmarks/step_overhead.py [--nodes N].

Each row is the host's time of one call, in microseconds. `bare` is the bindings' cuGraphLaunch with
handles converted beforehand; `extra` is the median of the differences from it, round by round. The
rounds alternate between the rows, so that a clock or a neighbour hits all of them.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu
from measure import CHAIN, options, report, spread

from lowgraph import counters, driver
from lowgraph.capture import GraphStep
from lowgraph.capture.pins import Input
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool

Act = Callable[[], Any]


class Setting:
    """A step of `nodes` kernels, live, with and without a declared input."""

    def __init__(self, device: driver.Device, nodes: int) -> None:
        self.stream = driver.stream.create()
        self.pool = PersistentPool(device)
        library = Library(device)
        put = library.kernel(CHAIN, "put")
        x = self.pool.take("x", 1)

        def body(stream: int) -> None:
            for _ in range(nodes):
                put(stream, 1, 1, x, 1.0)

        given = {"device": device, "pool": self.pool, "stream": self.stream, "library": library}
        self.step = GraphStep(body, **given)
        self.pinned = GraphStep(body, label="with an input", inputs=[Input("x", x)], **given)
        for _ in range(3):
            self.step()
            self.pinned()

    def rows(self) -> dict[str, Act]:
        """What is timed, the bare launch first."""
        graph = self.step.graph
        assert graph is not None, self.step.report().text()
        assert graph._handles is not None
        handles = cu.CUgraphExec(graph._handles.executable), cu.CUstream(self.stream)
        bare = cu.cuGraphLaunch
        return {
            "bare": lambda: bare(*handles),
            "graph.launch()": graph.launch,
            "step()": self.step,
            "step() with an input": self.pinned,
            "step() in a counting scope": self._counted(self.step),
        }

    def _counted(self, step: GraphStep) -> Act:
        def run() -> None:
            with counters.scope():
                step()

        return run

    def close(self) -> None:
        """Give everything back."""
        self.step.close()
        self.pinned.close()
        self.pool.close()
        driver.stream.destroy(self.stream)


def measure(setting: Setting, rounds: int, calls: int) -> dict[str, list[float]]:
    """Seconds a call of each row, one figure a round; the queue is drained between them."""
    found: dict[str, list[float]] = {name: [] for name in setting.rows()}
    acts = setting.rows()
    for turn in range(rounds + 1):
        for name, act in acts.items():
            begin = time.perf_counter()
            for _ in range(calls):
                act()
            took = (time.perf_counter() - begin) / calls
            driver.stream.synchronize(setting.stream)
            if turn:  # the first round warms up
                found[name].append(took)
    return found


def main() -> int:
    """Run the command line."""
    parser = options(__doc__ or "")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000], metavar="N")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=10, help="calls a round (default 10)")
    given = parser.parse_args()
    device = driver.open_device(given.device)
    rows = []
    for nodes in given.nodes:
        setting = Setting(device, nodes)
        found = measure(setting, given.rounds, given.calls)
        for name, seconds in found.items():
            pairs = zip(seconds, found["bare"], strict=True)
            extra = statistics.median(took - bare for took, bare in pairs)
            row = {"nodes": nodes, "what": name, "us": spread(seconds)}
            rows.append({**row, "extra_us": round(extra * 1e6, 4)})
        setting.close()
    report(device, rows, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
