"""Nodes of an executable: set, switched off, and what an update makes of that."""

from __future__ import annotations

from tests.traces.scenario import Scenario

_CHAIN = "launch s; launch s; launch s"
_READY = f"begin s; {_CHAIN}; end s g; instantiate g x"
_AGAIN = f"begin s; {_CHAIN}; end s h"
_RUN = "graph_launch x s; sync s"
_FORK = "launch s; record e1 s; wait t e1; {}; {}; record e2 t; wait s e2; launch s"

SCENARIOS = (
    Scenario("node: parameters set, by the first graph and by another", f"{_READY}; {_AGAIN}; "
             f"node_set_params x g 1; {_RUN}; node_set_params x h 1; {_RUN}"),
    Scenario("node: parameters set after an update", f"{_READY}; {_AGAIN}; update x h; "
             f"node_set_params x g 1; {_RUN}; node_set_params x h 1; {_RUN}"),
    Scenario("node: parameters set, then updated", f"{_READY}; {_AGAIN}; node_set_params x g 1; "
             f"update x h; {_RUN}"),
    Scenario("node: parameters set in flight", "begin s; launch s kernel=hold; launch s; end s g; "
             "instantiate g x; graph_launch x s; node_set_params x g 1; query s; release; sync s; "
             f"{_RUN}"),
    Scenario("node: a kernel switched off and on", f"{_READY}; node_enabled x g 1; "
             f"node_set_enabled x g 1 0; node_enabled x g 1; {_RUN}; node_set_enabled x g 1 1; "
             f"node_enabled x g 1; {_RUN}"),
    Scenario("node: parameters set while switched off", f"{_READY}; node_set_enabled x g 1 0; "
             f"node_set_params x g 1; node_enabled x g 1; {_RUN}"),
    Scenario("node: switched off, then updated", f"{_READY}; {_AGAIN}; node_set_enabled x g 1 0; "
             f"update x h; node_enabled x g 1; node_enabled x h 1; {_RUN}"),
    Scenario("node: switched off, then an update that is refused", f"{_READY}; begin s; launch s; "
             "end s h; node_set_enabled x g 1 0; update x h; node_enabled x g 1; " + _RUN),
    Scenario("node: a memset, a memcpy and a host function switched off", "begin s; "
             "memset_async s; copy_htod_async s; host_function s; end s g; instantiate g x; "
             "node_set_enabled x g 0 0; node_set_enabled x g 1 0; node_set_enabled x g 2 0; "
             f"node_enabled x g 0; node_enabled x g 1; node_enabled x g 2; {_RUN}"),
    *(Scenario(f"node: what a join waits for, {name}",
               f"begin s; {_FORK.format(first, second)}; end s g; node_waits g 3")
      for name, first, second in (("side first", "launch t", "launch s"),
                                  ("main first", "launch s", "launch t"))),
)  # fmt: skip
