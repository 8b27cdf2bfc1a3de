"""cuStreamBeginCaptureToGraph, cuStreamUpdateCaptureDependencies, and user objects of graphs."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario

_GRAPH = "graph_create g; add_kernel a g; add_kernel b g a"
_RUN = "instantiate g x; graph_launch x s; sync s"

_INTO = (
    ("an empty graph", "graph_create g; begin_to s g; launch s; launch s; end_to s g; shape g"),
    ("a graph with nodes, after one of them", f"{_GRAPH}; begin_to s g b; launch s; end_to s g; "
     f"shape g; {_RUN}"),
    ("a graph with nodes, after none", f"{_GRAPH}; begin_to s g; launch s; end_to s g; shape g; "
     f"{_RUN}"),
    ("a graph with nodes, after two", f"{_GRAPH}; begin_to s g a b; launch s; end_to s g; shape g"),
    ("after the same node twice", f"{_GRAPH}; begin_to s g a a; launch s; end_to s g; shape g"),
    ("after another graph's node", f"{_GRAPH}; graph_create h; add_kernel c h; begin_to s g c; "
     "launch s; end_to s g; shape g"),
    ("nothing recorded", f"{_GRAPH}; begin_to s g b; end_to s g; shape g"),
    ("on a blocking stream", f"{_GRAPH}; begin_to b g b; launch b; launch legacy; end_to b g; "
     "shape g"),
    ("on the per-thread stream", f"{_GRAPH}; begin_to per_thread g b; launch per_thread; "
     "end_to per_thread g; shape g"),
    ("on the legacy stream", f"{_GRAPH}; begin_to legacy g b"),
    ("with a fork and a join", f"{_GRAPH}; begin_to s g b; launch s; record e1 s; wait t e1; "
     f"launch t; record e2 t; wait s e2; launch s; end_to s g; shape g; {_RUN}"),
    ("with a fork that is not joined", f"{_GRAPH}; begin_to s g b; launch s; record e1 s; "
     "wait t e1; launch t; end_to s g; shape g"),
    ("invalidated", f"{_GRAPH}; begin_to s g b; launch s; ctx_sync; launch s; end_to s g; shape g; "
     f"{_RUN}"),
    ("ended by another thread", f"{_GRAPH}; begin_to s g b; launch s; @end_to s g; shape g; "
     "end_to s g"),
    ("begun by another thread", f"{_GRAPH}; @begin_to s g b; launch s; @end_to s g; shape g"),
    ("the graph instantiated meanwhile", f"{_GRAPH}; begin_to s g b; launch s; instantiate g x; "
     "launch s; end_to s g; shape g"),
    ("a node added meanwhile", f"{_GRAPH}; begin_to s g b; launch s; add_kernel c g b; launch s; "
     "end_to s g; shape g"),
    ("a node destroyed meanwhile", f"{_GRAPH}; begin_to s g b; launch s; node_destroy a; "
     "end_to s g; shape g"),
    ("the graph destroyed meanwhile", f"{_GRAPH}; begin_to s g b; launch s; graph_clone g k; "
     "shape g; end_to s g"),
    ("an edge removed meanwhile", f"{_GRAPH}; begin_to s g b; launch s; edge_remove g a b; "
     "end_to s g; shape g"),
    ("by two streams one after the other", f"{_GRAPH}; begin_to s g b; launch s; end_to s g; "
     "begin_to t g a; launch t; end_to t g; shape g"),
    ("by two streams at once", f"{_GRAPH}; begin_to s g b; begin_to t g a; launch s; launch t; "
     "end_to s g; end_to t g; shape g"),
    ("a capture's own graph", "begin s; launch s; end s g; begin_to s g; launch s; end_to s g; "
     f"shape g; {_RUN}"),
    ("a memory node", f"{_GRAPH}; begin_to s g b; alloc_async p s; free_async p s; end_to s g; "
     f"shape g; {_RUN}; instantiate g y"),
    ("a free of an allocation of the graph", f"{_GRAPH}; add_alloc m g p b; begin_to s g m; "
     f"free_async p s; end_to s g; shape g; {_RUN}"),
    ("a free of an allocation of the graph, instantiated before",
     f"{_GRAPH}; add_alloc m g p b; instantiate g x; begin_to s g m; free_async p s; end_to s g; "
     "shape g"),
    ("a free of an allocation of the graph, twice", f"{_GRAPH}; add_alloc m g p b; "
     "add_free f g p m; begin_to s g m; free_async p s; end_to s g; shape g"),
    ("a stream that captures already", f"{_GRAPH}; begin t; begin_to t g b; end t h; shape g"),
    ("a clone of the graph meanwhile", f"{_GRAPH}; begin_to s g b; launch s; graph_clone g h; "
     "launch s; end_to s g; shape h"),
    ("the graph as a child meanwhile", f"{_GRAPH}; begin_to s g b; launch s; graph_create h; "
     "add_child c h g; end_to s g; child_shape h 0"),
    ("an executable updated from it meanwhile", f"{_GRAPH}; instantiate g x; begin_to s g b; "
     "update x g; launch s; update x g; end_to s g"),
)  # fmt: skip

_DEPENDENCIES = (
    ("set to an earlier node", "begin s; launch s; tail a s; launch s; dependencies s set a; "
     "capture_info s; launch s; end s g"),
    ("added to", "begin s; launch s; tail a s; launch s; launch s; dependencies s add a; "
     "capture_info s; launch s; end s g"),
    ("added the node that is there", "begin s; launch s; tail a s; dependencies s add a; "
     "capture_info s; launch s; end s g"),
    ("set to the same node twice", "begin s; launch s; tail a s; dependencies s set a a; "
     "capture_info s; launch s; end s g"),
    ("set to none", "begin s; launch s; dependencies s set; capture_info s; launch s; end s g"),
    ("added none", "begin s; launch s; dependencies s add; capture_info s; launch s; end s g"),
    ("set to another graph's node", "graph_create h; add_kernel a h; begin s; launch s; "
     "dependencies s set a; capture_info s; launch s; end s g"),
    ("set to a node of another capture", "begin s; launch s; begin t; launch t; tail a t; "
     "dependencies s set a; launch s; end s g; end t h"),
    ("without a capture", "begin s; launch s; tail a s; end s g; dependencies s set a"),
    ("after an invalidation",
     "begin s; launch s; tail a s; ctx_sync; dependencies s set a; end s g"),
    ("on the legacy stream", "begin s; launch s; tail a s; dependencies legacy set a; launch s; "
     "end s g"),
    ("of a joined stream", "begin s; launch s; tail a s; launch s; record e1 s; wait t e1; "
     "dependencies t set a; launch t; record e2 t; wait s e2; launch s; end s g"),
    ("of a joined stream, to none, before its work", "begin s; launch s; record e1 s; wait t e1; "
     "dependencies t set; launch t; record e2 t; wait s e2; launch s; end s g"),
    ("set back, so that a node is not joined", "begin s; launch s; tail a s; launch s; "
     "dependencies s set a; end s g"),
    ("from another thread",
     "begin s; launch s; tail a s; launch s; @dependencies s set a; launch s; "
     "end s g"),
    ("set to a node added by hand", "graph_create g; begin_to s g; launch s; add_kernel a g; "
     "dependencies s add a; launch s; end_to s g; shape g"),
)  # fmt: skip

_OBJECTS = (
    ("kept and released", "object_create o; graph_retain g o; object_release o; graph_release g o"),
    ("moved to the graph",
     "object_create o; graph_retain g o 1 1; instantiate g x; graph_destroy g; "
     "graph_launch x s; sync s; exec_destroy x"),
    ("moved twice over", "object_create o 2; graph_retain g o 2 1; graph_release g o 2"),
    ("released more often than kept", "object_create o 2; graph_retain g o; graph_release g o 2"),
    ("released by a graph that has none", "object_create o; graph_release g o; object_release o"),
    ("kept by a clone", "object_create o; graph_retain g o 1 1; graph_clone g h; graph_destroy g; "
     "graph_release h o"),
    ("retained and released", "object_create o; object_retain o 2; object_release o 3"),
    ("a count of none",
     "object_create o 0; object_create q; object_retain q 0; object_release q 0; "
     "graph_retain g q 0; object_release q"),
    ("without the flag", "object_create o 1 0"),
    ("an unknown move", "object_create o; graph_retain g o 1 7; object_release o"),
    ("kept while a stream captures", "object_create o; begin s; launch s; graph_retain g o; "
     "launch s; end s h; graph_release g o; object_release o"),
    ("kept by an updated executable", "object_create o; instantiate g x; graph_clone g h; "
     "graph_retain h o 1 1; update x h; graph_destroy h; graph_launch x s; sync s; exec_destroy x"),
)  # fmt: skip

_FLAGS = (
    ("none", "instantiate_flags g x 0; exec_flags x; graph_launch x s; sync s"),
    ("auto-free", "instantiate_flags g x 1; exec_flags x; graph_launch x s; sync s"),
    ("upload", "instantiate_flags g x 2; exec_flags x"),
    ("upload, by the struct", "instantiate_with g x 2; exec_flags x; graph_launch x s; sync s"),
    ("node priority", "instantiate_flags g x 8; exec_flags x; graph_launch x s; sync s"),
    ("device launch", "instantiate_flags g x 4; instantiate_with g y 4"),
    ("unknown", "instantiate_flags g x 1024; instantiate_with g y 1024"),
    ("by the struct, none", "instantiate_with g x 0; exec_flags x"),
    ("by the struct, all that go together", "instantiate_with g x 11; exec_flags x"),
    ("by the struct, with an upload into a capture", "begin s; launch s; instantiate_with g x 2; "
     "end s h"),
)  # fmt: skip

SCENARIOS = (
    *(Scenario(f"capture into {name}", text, EVERY_MODE if place < 4 else ("THREAD_LOCAL",))
      for place, (name, text) in enumerate(_INTO)),
    *(Scenario(f"capture dependencies: {name}", text) for name, text in _DEPENDENCIES),
    *(Scenario(f"user object: {name}", f"{_GRAPH}; {text}") for name, text in _OBJECTS),
    *(Scenario(f"instantiate with flags: {name}", f"{_GRAPH}; {text}") for name, text in _FLAGS),
)  # fmt: skip
