"""Launches beyond what their kernel, the grid or the device takes, by every way to make one."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario

# (name, the launch); what is taken stands beside what is not.
_LAUNCHES = (
    ("as many threads as the kernel's bounds", "kernel=bounded block=64"),
    ("one thread more than the kernel's bounds", "kernel=bounded block=65"),
    ("twice the threads of the kernel's bounds", "kernel=bounded block=128"),
    ("more than the kernel's bounds along y", "kernel=bounded block=32 blocky=3"),
    ("the device's threads, the kernel's bounds lower", "kernel=bounded block=1024"),
    ("more than the device's threads and the kernel's bounds", "kernel=bounded block=2048"),
    ("beyond the kernel's bounds with too much shared memory",
     "kernel=bounded block=128 shared=300000"),
    ("the device's threads", "block=1024"),
    ("one thread more than the device's", "block=1025"),
    ("more than the device's threads along x and y", "block=64 blocky=32"),
    ("a block's longest y", "block=1 blocky=1024"),
    ("a block's y too long", "block=1 blocky=1025"),
    ("a block's longest z", "block=1 blockz=64"),
    ("a block's z too long", "block=1 blockz=65"),
    ("a block without a y", "blocky=0"),
    ("a block without a z", "blockz=0"),
    ("a block without an x", "block=0"),
    ("a grid's longest y", "block=1 gridy=65535"),
    ("a grid's y too long", "block=1 gridy=65536"),
    ("a grid's longest z", "block=1 gridz=65535"),
    ("a grid's z too long", "block=1 gridz=65536"),
    ("a grid's x too long", "block=1 grid=2147483648"),
    ("a grid without a y", "gridy=0"),
    ("a grid without a z", "gridz=0"),
    ("the shared memory that no kernel asks for", "shared=49152"),
    ("more shared memory than was asked for", "shared=49153"),
    ("shared memory beside what the kernel declares", "kernel=declared shared=48128"),
    ("more shared memory beside what the kernel declares", "kernel=declared shared=48129"),
)  # fmt: skip
_SET = "graph_create k; add_launch n k; instantiate k x"
_RUN = "graph_launch x s; sync s"

_ASKED = (
    ("the most shared memory", "allow_shared noop 232448; launch s shared=232448; "
     "launch s shared=232449; begin s; launch s shared=232449; end s g; sync u"),
    ("more than the most shared memory", "allow_shared noop 232449; allow_shared noop 300000; "
     "allow_shared noop -1; launch s shared=49153; sync s"),
    ("less shared memory than without asking", "allow_shared noop 1024; launch s shared=1024; "
     "launch s shared=1025; launch s shared=49152; launch s shared=49153; sync s"),
    ("the most beside what the kernel declares", "allow_shared declared 231424; "
     "launch s kernel=declared shared=231424; launch s kernel=declared shared=231425; "
     "allow_shared declared 231425; sync s"),
    ("in a graph, the most shared memory", "graph_create k; add_launch n k shared=65536; "
     "allow_shared noop 65536; add_launch n k shared=65536; instantiate k x; " + _RUN),
    ("in a graph, asked for less after the node was made", "allow_shared noop 65536; "
     "graph_create k; add_launch n k shared=65536; allow_shared noop 1024; instantiate k x; "
     + _RUN),
    ("the kernel's bounds as its attribute", "function_attribute bounded MAX_THREADS_PER_BLOCK; "
     "function_attribute declared SHARED_SIZE_BYTES; function_attribute bounded SHARED_SIZE_BYTES; "
     "function_attribute declared MAX_DYNAMIC_SHARED_SIZE_BYTES"),
    ("occupancy beyond the kernel's bounds", "occupancy bounded 64; occupancy bounded 65; "
     "occupancy bounded 1024; occupancy bounded 1025; occupancy noop 1025; occupancy noop 0; "
     "occupancy declared 64 48128; occupancy declared 64 48129; occupancy noop 64 300000"),
    ("cooperative, beyond the kernel's bounds", "launch s kernel=bounded block=64 cooperative=1; "
     "launch s kernel=bounded block=128 cooperative=1; launch s block=1025 cooperative=1; sync s"),
    ("an executable updated beyond the kernel's bounds", f"{_SET}; graph_create g; "
     "add_launch m g kernel=bounded block=64; node_set kernel g m kernel=bounded block=128; "
     f"update x g; {_RUN}"),
)  # fmt: skip


def _scenarios(name: str, launch: str) -> tuple[Scenario, ...]:
    load = "bounds_load"
    return (
        Scenario(f"launch of {name}", f"{load}; launch s {launch}; sync s; launch s; sync s"),
        Scenario(f"cuLaunchKernel of {name}", f"{load}; launch_plain s {launch}; sync s"),
        Scenario(f"launch of {name}, in a capture", f"{load}; begin s; launch s; "
                 f"launch s {launch}; launch s; end s g", EVERY_MODE),
        Scenario(f"launch of {name}, in a blocking capture", f"{load}; begin b; launch b; "
                 f"launch_plain b {launch}; launch b; end b g", EVERY_MODE),
        Scenario(f"launch of {name}, in a capture by another thread", f"{load}; begin s; "
                 f"launch s; @launch s {launch}; launch s; end s g", EVERY_MODE),
        Scenario(f"launch of {name}, beside a capture", f"{load}; begin s; launch s; "
                 f"launch t {launch}; launch s; end s g; sync t", EVERY_MODE),
        Scenario(f"launch of {name}, as a node", f"{load}; graph_create k; "
                 f"add_launch n k {launch}; shape k; instantiate k x; {_RUN}"),
        Scenario(f"launch of {name}, set in a graph", f"{load}; {_SET}; "
                 f"node_set kernel k n {launch}; node_get kernel k n; instantiate k y; update x k; "
                 f"{_RUN}"),
        Scenario(f"launch of {name}, set in an executable", f"{load}; {_SET}; "
                 f"exec_set kernel x k n {launch}; {_RUN}"),
    )  # fmt: skip


SCENARIOS = (
    *(found for name, launch in _LAUNCHES for found in _scenarios(name, launch)),
    *(Scenario(f"launch bounds: {name}", f"bounds_load; {text}") for name, text in _ASKED),
)  # fmt: skip
