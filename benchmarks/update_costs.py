"""Update against set-params against a fresh executable: python benchmarks/update_costs.py.

For a chain of N kernels: recording it, instantiating it, cuGraphExecUpdate to another recording,
setting every node of the executable, and what lowgraph adds to each: `recapture` is the whole of a
GraphStep.recapture() (priming pass, window, census, update), and `set_params` goes through our own
record. Host time in microseconds, of the whole chain and a node.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from measure import CHAIN, options, report, spread, timed

from lowgraph import driver
from lowgraph.capture import GraphStep
from lowgraph.driver import graph
from lowgraph.driver.node import set_kernel_params
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice


class Setting:
    """A chain of `nodes` kernels, recorded twice with other arguments."""

    def __init__(self, device: driver.Device, nodes: int) -> None:
        self.nodes = nodes
        self.stream = driver.stream.create()
        self.pool = PersistentPool(device)
        library = Library(device)
        self.put = library.kernel(CHAIN, "put")
        library.make_resident()
        self.x, self.y = self.pool.take("x", 1), self.pool.take("y", 1)
        self.recordings = [self.record(self.x), self.record(self.y)]
        self.executable = graph.instantiate(self.recordings[0])
        self.params = [graph.kernel_params(node) for node in graph.nodes(self.recordings[1])]
        self.places = graph.nodes(self.recordings[0])
        self.turn = 0
        self.step = GraphStep(
            lambda stream: self.chain(stream, self.x),
            device=device,
            pool=self.pool,
            stream=self.stream,
            library=library,
        )
        for _ in range(3):
            self.step()

    def chain(self, stream: int, to: Slice) -> None:
        """The body."""
        for _ in range(self.nodes):
            self.put(stream, 1, 1, to, 1.0)

    def record(self, to: Slice) -> int:
        """Capture the chain by bare calls."""
        driver.stream.begin_capture(self.stream)
        self.chain(self.stream, to)
        return driver.stream.end_capture(self.stream)

    # ---- what is timed ----

    def capture(self) -> None:
        """Record, and destroy what was recorded."""
        graph.destroy(self.record(self.x))

    def instantiate(self) -> None:
        """A fresh executable, uploaded and destroyed."""
        fresh = graph.instantiate(self.recordings[0])
        graph.upload(fresh, self.stream)
        graph.exec_destroy(fresh)

    def update(self) -> None:
        """The other recording's arguments for all nodes."""
        self.turn ^= 1
        answer = graph.update(self.executable, self.recordings[self.turn])
        assert answer.ok, answer

    def set_each(self) -> None:
        """Every node by a call of its own."""
        for node, params in zip(self.places, self.params, strict=True):
            set_kernel_params(self.executable, node, params)

    def set_params(self) -> None:
        """The same through CapturedGraph, which keeps its own record."""
        live = self.step.graph
        assert live is not None
        for index in range(self.nodes):
            live.set_params(index, {"x": self.y})

    def launch(self) -> None:
        """One launch and its end: what was set before has to reach the device."""
        graph.launch(self.executable, self.stream)
        driver.stream.synchronize(self.stream)

    def recapture(self) -> None:
        """A whole recapture that ends in an update."""
        assert self.step.recapture(), self.step.report().last_rejection

    def close(self) -> None:
        """Give everything back."""
        self.step.close()
        graph.exec_destroy(self.executable)
        for recording in self.recordings:
            graph.destroy(recording)
        self.pool.close()
        driver.stream.destroy(self.stream)


ACTS: dict[str, Callable[[Setting], None]] = {
    "capture": Setting.capture,
    "instantiate": Setting.instantiate,
    "update": Setting.update,
    "set each node": Setting.set_each,
    "launch": Setting.launch,
    "set_params": Setting.set_params,
    "recapture": Setting.recapture,
}


def rows_of(device: driver.Device, nodes: int, repeats: int) -> list[dict[str, Any]]:
    """All figures of one size; large sizes are repeated less."""
    setting = Setting(device, nodes)
    times = max(3, min(repeats, repeats * 1000 // nodes))
    rows = []
    for name, act in ACTS.items():
        figures = spread(timed(lambda act=act: act(setting), times))  # type: ignore[misc]
        per_node = round(figures["median"] / nodes, 4)
        rows.append({"nodes": nodes, "what": name, "us": figures, "us_per_node": per_node})
    setting.close()
    return rows


def main() -> int:
    """Run the command line."""
    parser = options(__doc__ or "")
    sizes = [10, 100, 1000, 20000]
    parser.add_argument("--nodes", type=int, nargs="+", default=sizes, metavar="N")
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    device = driver.open_device(given.device)
    rows = [row for nodes in given.nodes for row in rows_of(device, nodes, given.repeats)]
    report(device, rows, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
