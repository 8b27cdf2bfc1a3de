"""Graphs built node by node: what is checked, in which order, and what memory nodes forbid.

Left out everywhere: a graph added as a child of itself. Driver 580.159 takes it and then ends the
process (in each of the 99 random sequences that it did not survive).
"""

from __future__ import annotations

from tests.traces.scenario import Scenario

_TWO = "graph_create g; graph_create h; add_kernel a g; add_kernel b h"
_ALLOC = f"{_TWO}; add_alloc m g p a"
_CHAIN = "graph_create g; add_kernel a g; add_kernel b g a; add_kernel c g b"
_FREED = f"{_ALLOC}; add_free f g p m"
_ADDS = (
    ("a kernel", "add_kernel n g {}"), ("a memset", "add_fill n g {}"),
    ("a memcpy", "add_copy n g {}"), ("a host function", "add_host n g {}"),
    ("an empty node", "add_empty n g {}"), ("a child graph", "add_child n g h {}"),
    ("an event record", "add_record n g e1 {}"), ("an event wait", "add_wait n g e1 {}"),
    ("an allocation", "add_alloc n g q {}"), ("a free", "add_alloc m g p; add_free n g p m {}"),
)  # fmt: skip

_RULES = (
    ("an edge that is there", f"{_CHAIN}; edge g a b; shape g"),
    ("an edge to the node itself", f"{_CHAIN}; edge g a a; shape g"),
    ("an edge to another graph's node", f"{_TWO}; edge g a b; edge h a b; shape g"),
    ("an edge, asked of the wrong graph", f"{_CHAIN}; graph_create h; edge h a c; shape g"),
    ("an edge that closes a cycle", f"{_CHAIN}; edge g c a; shape g; instantiate g x; "
     "instantiate_with g y 0"),
    ("an edge removed", f"{_CHAIN}; edge_remove g a b; shape g; instantiate g x; graph_launch x s; "
     "sync s"),
    ("an edge removed that is not there", f"{_CHAIN}; edge_remove g a c; edge_remove g b a"),
    ("an edge removed, asked of the wrong graph", f"{_CHAIN}; graph_create h; edge_remove h a b; "
     "shape g"),
    ("an edge removed of a graph with memory nodes", f"{_ALLOC}; edge_remove g a m; "
     "edge_remove g m m; edge_remove g b b; shape g"),
    ("an edge added to a graph with memory nodes", f"{_ALLOC}; add_kernel c g; edge g m c; "
     "edge g c m; shape g; instantiate g x"),
    ("a node destroyed", f"{_CHAIN}; node_destroy b; shape g; instantiate g x; graph_launch x s; "
     "sync s"),
    ("a node destroyed of a graph with memory nodes", f"{_ALLOC}; node_destroy a; node_destroy m; "
     "shape g"),
    ("a node destroyed after the instantiation", f"{_CHAIN}; instantiate g x; node_destroy c; "
     "update x g; graph_launch x s; sync s; node_set kernel g 0 grid=2; update x g"),
    ("a node that took a destroyed one's place, set in the executable",
     "graph_create g; add_kernel a g; instantiate g x; node_destroy a; add_kernel a g; update x g; "
     "exec_set kernel x g 0 grid=2; node_enabled x g 0; node_set_enabled x g 0 0"),
    ("a node added after the instantiation, set in the executable",
     f"{_CHAIN}; instantiate g x; add_kernel d g c; exec_set kernel x g d grid=2; "
     "exec_set kernel x g c grid=2; update x g"),
    ("the roots", f"{_CHAIN}; add_kernel d g; roots g; edge g d a; roots g"),
    ("the dependents", f"{_CHAIN}; add_kernel d g a; dependents g a; dependents g c"),
    ("an empty graph", "graph_create g; shape g; roots g; graph_clone g h; instantiate g x; "
     "graph_launch x s; sync s; upload x s"),
    ("two roots and one leaf", "graph_create g; add_kernel a g; add_kernel b g; "
     "add_kernel c g a b; shape g; instantiate g x; graph_launch x s; sync s"),
    ("written as a picture", f"{_CHAIN}; dot g"),
    ("the graph destroyed, then the executable launched", f"{_CHAIN}; instantiate g x; "
     "graph_destroy g; graph_launch x s; sync s"),
)  # fmt: skip

_CLONES = (
    ("of a chain", f"{_CHAIN}; graph_clone g h; find_in_clone a h; find_in_clone c h"),
    ("a node that the clone lacks", f"{_CHAIN}; graph_clone g h; add_kernel d g; "
     "find_in_clone d h"),
    ("a node of another graph", f"{_CHAIN}; graph_clone g h; graph_create k; add_kernel d k; "
     "find_in_clone d h"),
    ("in the graph itself", f"{_CHAIN}; find_in_clone a g"),
    ("in a clone of the clone", f"{_CHAIN}; graph_clone g h; graph_clone h k; find_in_clone a k"),
    ("of a graph with a child graph", f"{_TWO}; add_child n g h a; graph_clone g k; "
     "find_in_clone n k; child_shape k 0"),
    ("of a graph with memory nodes", f"{_ALLOC}; graph_clone g k"),
    ("of a graph with event nodes", f"{_TWO}; add_record r g e1 a; add_wait w g e2 r; "
     "graph_clone g k; find_in_clone w k"),
    ("the original destroyed", f"{_CHAIN}; graph_clone g h; graph_destroy g; instantiate h x; "
     "graph_launch x s; sync s"),
    ("an executable of the original updated by the clone", f"{_CHAIN}; graph_clone g h; "
     "instantiate g x; node_set kernel h 0 grid=3; update x h; graph_launch x s; sync s"),
    ("set in an executable of the original by the clone's node", f"{_CHAIN}; graph_clone g h; "
     "instantiate g x; exec_set kernel x h 0 grid=3; node_set_enabled x h 0 0"),
    ("a node of the original destroyed", f"{_CHAIN}; graph_clone g h; node_destroy b; "
     "shape g; shape h; find_in_clone c h"),
)  # fmt: skip

_MEMORY = (
    ("an update to a graph whose memory another executable has", "graph_create g; "
     "add_kernel a g; instantiate g x; add_alloc b g m a; instantiate g y; update x g; update y g"),
    ("a cycle, and an executable has the memory", "graph_create g; add_kernel a g; "
     "add_alloc b g m a; instantiate g x; add_kernel c g a; add_kernel d g c; edge g d c; "
     "instantiate g y; exec_destroy x; instantiate g y"),
    ("a refused free of memory whose graph is gone", "graph_create g; graph_create h; "
     "add_kernel a g; add_alloc b h m; graph_destroy h; add_free c g m a; node_destroy a"),
    ("a graph that an executable has, without them then",
     "graph_create g; add_kernel a g; instantiate g x; add_alloc m g p a; instantiate g y; "
     "instantiate g z"),
    ("the first executable destroyed, then another", f"{_ALLOC}; instantiate g x; instantiate g y; "
     "exec_destroy x; instantiate g y; graph_launch y s; sync s"),
    ("auto-free, then without", f"{_ALLOC}; instantiate g x auto_free; instantiate g y"),
    ("a free after the executable was made", f"{_ALLOC}; instantiate g x; add_free f g p m; "
     "shape g"),
    ("a free after the executable was destroyed", f"{_ALLOC}; instantiate g x; exec_destroy x; "
     "add_free f g p m; shape g; instantiate g y"),
    ("a free in another graph", f"{_ALLOC}; add_free f h p b; shape h; instantiate h y; "
     "instantiate g x; graph_launch x s; graph_launch y s; sync s"),
    ("a free in another graph, the executable made before", f"{_ALLOC}; instantiate g x; "
     "add_free f h p b; instantiate h y; graph_launch x s; graph_launch y s; graph_launch x s; "
     "sync s"),
    ("a free in another graph, launched alone", f"{_ALLOC}; add_free f h p b; instantiate h y; "
     "graph_launch y s; sync s"),
    ("freed twice in its graph", f"{_FREED}; add_free k g p f"),
    ("freed in its graph, then in another", f"{_FREED}; add_free k h p b"),
    ("freed in another graph, then in its own", f"{_ALLOC}; add_free f h p b; add_free k g p m"),
    ("freed twice in another graph", f"{_ALLOC}; add_free f h p b; add_free k h p f"),
    ("freed in two other graphs", f"{_ALLOC}; graph_create k; add_free f h p b; add_free d k p"),
    ("a refused free, then a clone and two executables", f"{_FREED}; "
     "graph_create k; add_kernel d k; add_free k k p d; graph_clone k l; "
     "instantiate k x; instantiate k y"),
    ("a refused free in a capture, then a clone and two executables",
     "alloc_async p t; sync t; begin s; launch s; free_async p s; end s g; graph_clone g h; "
     "instantiate g x; instantiate g y"),
    ("a refused free in an empty capture, then two executables",
     "alloc_async p t; sync t; begin s; free_async p s; end s g; instantiate g x; "
     "instantiate g y"),
    ("a free before its allocation", f"{_ALLOC}; add_free f g p; shape g; instantiate g x"),
    ("allocated, launched twice", f"{_ALLOC}; instantiate g x; graph_launch x s; "
     "graph_launch x s; sync s"),
    ("allocated and freed, launched twice", f"{_FREED}; instantiate g x; graph_launch x s; "
     "graph_launch x s; sync s"),
    ("allocated, auto-free, launched three times", f"{_ALLOC}; instantiate g x auto_free; "
     "graph_launch x s; graph_launch x s; graph_launch x t; sync s; sync t"),
    ("allocated, launched, freed on another stream, launched", f"{_ALLOC}; instantiate g x; "
     "graph_launch x s; sync s; free_async p t; sync t; graph_launch x s; sync s"),
    ("allocated, launched, freed by cuMemFree", f"{_ALLOC}; instantiate g x; graph_launch x s; "
     "sync s; free_graph p; graph_launch x s; sync s"),
    ("freed before any launch", f"{_ALLOC}; free_async p s; instantiate g x; graph_launch x s; "
     "sync s"),
    ("the graph destroyed before the launch", f"{_ALLOC}; instantiate g x; graph_destroy g; "
     "graph_launch x s; sync s; free_async p s; sync s"),
    ("the executable destroyed while the memory is in use", f"{_ALLOC}; instantiate g x; "
     "graph_launch x s; exec_destroy x; sync s; free_async p s; sync s"),
    ("the graph and the executable destroyed while the memory is in use",
     f"{_ALLOC}; instantiate g x; graph_launch x s; exec_destroy x; graph_destroy g; sync s; "
     "free_async p s; sync s"),
    ("a child graph with them", f"{_ALLOC}; add_child n h g b; shape h"),
    ("a child graph with them, other faults too", f"{_ALLOC}; add_child n h g a; "
     "add_child n h g b b"),
    ("a child graph with them, for an executable", f"{_ALLOC}; graph_create k; add_kernel c k; "
     "graph_create l; add_kernel d l; add_child e k l c; instantiate k x; exec_set child x k e "
     "graph=g; exec_set child x k c graph=g"),
    ("an allocation added to a graph that is a child elsewhere", f"{_TWO}; add_child n g h a; "
     "add_alloc m h p b; shape g; instantiate g x"),
    ("of two sizes, the executable updated", "begin s; alloc_async p s; launch s; end s g; "
     "instantiate g x; begin s; alloc_async q s; launch s; end s h; update x h; instantiate h y; "
     "graph_launch x s; graph_launch y s; sync s"),
    ("an update, then another executable of the first graph",
     "begin s; alloc_async p s; end s g; instantiate g x; begin s; alloc_async q s; end s h; "
     "update x h; instantiate g y; instantiate h z"),
    ("an update without memory nodes, then with",
     "graph_create g; add_kernel a g; instantiate g x; "
     "graph_create h; add_alloc m h p; update x h; instantiate h y; update y h; update y g"),
    ("upload and launch of allocation and free", f"{_FREED}; instantiate g x; upload x s; "
     "graph_launch x s; sync s"),
    ("what they tell of themselves", f"{_FREED}; node_get mem_alloc g m; node_get mem_free g f; "
     "node_get mem_alloc g a; node_get mem_free g m"),
    ("enabled and disabled", f"{_FREED}; instantiate g x; node_set_enabled x g 1 0; "
     "node_enabled x g 1; node_set_enabled x g 2 0"),
)  # fmt: skip

SCENARIOS = (
    *(Scenario(f"build: {name} after two nodes", f"{_TWO}; add_kernel c g; {call.format('a c')}; "
               "shape g") for name, call in _ADDS),
    *(Scenario(f"build: {name} after the same node twice", f"{_TWO}; {call.format('a a')}; shape g")
      for name, call in _ADDS),
    *(Scenario(f"build: {name} after another graph's node", f"{_TWO}; {call.format('b')}; shape g")
      for name, call in _ADDS),
    *(Scenario(f"build: {name}", text) for name, text in _RULES),
    *(Scenario(f"clone: {name}", text) for name, text in _CLONES),
    *(Scenario(f"memory nodes: {name}", text) for name, text in _MEMORY),
)  # fmt: skip
