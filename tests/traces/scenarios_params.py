"""Parameters of single nodes, kind by kind: read, set in the graph, set in an executable."""

from __future__ import annotations

from tests.traces.scenario import Scenario

# One node of each kind, and a child graph of a kernel and a memset.
_ALL = (
    "graph_create k; add_kernel ka k; add_fill kb k ka; graph_create g; add_kernel a g; "
    "add_fill b g a; add_copy c g b; add_host d g c; add_record e g e1 d; add_wait f g e2 e; "
    "add_child h g k f"
)
_READY = f"{_ALL}; instantiate g x"
_RUN = "graph_launch x s; sync s"
_NODES = {
    "kernel": "a", "memset": "b", "memcpy": "c", "host": "d", "record": "e", "wait": "f",
    "child": "h",
}  # fmt: skip

_CHANGES = (
    ("kernel: the grid", "kernel", "grid=5"),
    ("kernel: the block", "kernel", "block=96"),
    ("kernel: an illegal block", "kernel", "block=4096"),
    ("kernel: an empty grid", "kernel", "grid=0"),
    ("kernel: shared memory", "kernel", "shared=1024"),
    ("kernel: too much shared memory", "kernel", "shared=300000"),
    ("kernel: the arguments", "kernel", "args=swapped"),
    ("kernel: the function", "kernel", "kernel=noop2"),
    ("memset: the value", "memset", "value=9"),
    ("memset: the address", "memset", "to=1"),
    ("memset: the width", "memset", "width=128"),
    ("memset: the element's size", "memset", "element=4 width=16"),
    ("memset: an element of three bytes", "memset", "element=3 width=16"),
    ("memset: two rows", "memset", "height=2 pitch=256"),
    ("memset: rows wider than the pitch", "memset", "height=2 pitch=16"),
    ("memset: no width", "memset", "width=0"),
    ("memset: no height", "memset", "height=0"),
    ("memcpy: the size", "memcpy", "width=128"),
    ("memcpy: from the host", "memcpy", "kind=htod"),
    ("memcpy: two rows", "memcpy", "height=2 pitch=256"),
    ("memcpy: no width", "memcpy", "width=0"),
    ("memcpy: rows wider than the pitch", "memcpy", "height=2 pitch=16"),
    ("host: a function", "host", ""),
    ("record: another event", "record", "event=e3"),
    ("record: an event with times", "record", "event=t1"),
    ("wait: another event", "wait", "event=e3"),
)  # fmt: skip

# Not launched: where nothing refuses it, it would write into what lies behind.
_PAST = (
    ("memset: past the end of its memory", "memset", "width=100000"),
    ("memcpy: past the end of its memory", "memcpy", "width=100000"),
)  # fmt: skip

# A setter of one kind given a node of another.
_WRONG = (
    ("kernel", "b"), ("kernel", "h"), ("memset", "a"), ("memset", "c"), ("memcpy", "b"),
    ("memcpy", "a"), ("host", "a"), ("host", "b"), ("record", "f event=e3"),
    ("record", "a event=e3"),
    ("wait", "e event=e3"), ("wait", "a event=e3"),
)  # fmt: skip

_CHILD = (
    ("the same graph", "exec_set child x g h graph=k"),
    ("a clone with another grid", "graph_clone k l; node_set kernel l 0 grid=3; "
     "exec_set child x g h graph=l"),
    ("one node more", "graph_clone k l; add_kernel la l; exec_set child x g h graph=l"),
    ("one node fewer", "graph_create l; add_kernel la l; exec_set child x g h graph=l"),
    ("other types", "graph_create l; add_fill la l; add_kernel lb l la; "
     "exec_set child x g h graph=l"),
    ("an empty graph", "graph_create l; exec_set child x g h graph=l"),
    ("its own graph", "exec_set child x g h graph=g"),
    ("to a node that is no child", "exec_set child x g a graph=k"),
    ("a kernel inside", "exec_set_inner x g h 0 grid=3"),
    ("a memset inside taken for a kernel", "exec_set_inner x g h 1 grid=3"),
    ("a kernel inside, in the graph", "node_set_inner g h 0 grid=3; update x g"),
    ("a kernel inside switched off", "enable_inner x g h 0 0"),
    ("a memset inside switched off", "enable_inner x g h 1 0"),
    ("what it holds", "child_shape g h"),
    ("the first graph changed afterwards", "add_kernel kc k; child_shape g h; update x g"),
    ("the first graph destroyed", "graph_destroy k; child_shape g h"),
)  # fmt: skip

_READS = tuple(
    (kind, name)
    for kind in ("kernel", "memset", "memcpy", "host", "record", "wait")
    for name in ("a", "b", "c", "d", "e", "f")
)

_ATTRIBUTES = (
    ("priority", "attribute_get g 0 priority; attribute_set g 0 priority -1; "
     "attribute_get g 0 priority"),
    ("priority, in an executable", "instantiate g x; attribute_set g 0 priority -1; update x g"),
    ("cooperative", "attribute_set g 0 cooperative 1; attribute_get g 0 cooperative; "
     "instantiate g x"),
    ("cooperative, in an executable", "instantiate g x; attribute_set g 0 cooperative 1; "
     "update x g; instantiate g y; graph_launch y s; sync s"),
    ("cluster",
     "attribute_set g 0 cluster 2; attribute_get g 0 cluster; node_set kernel g 0 grid=8; "
     "attribute_get g 0 cluster; instantiate g x; graph_launch x s; sync s"),
    ("cluster that does not divide the grid", "attribute_set g 0 cluster 2; "
     "node_set kernel g 0 grid=3; instantiate g x; graph_launch x s; sync s"),
    ("cluster too large",
     "attribute_set g 0 cluster 64; attribute_get g 0 cluster; instantiate g x"),
    ("copied", "attribute_set g 0 priority -1; attributes_copy g 0 1; attribute_get g 1 priority"),
    ("of a memset", "attribute_get g 3 priority; attributes_copy g 0 3"),
    ("kept by new parameters", "attribute_set g 0 priority -2; node_set kernel g 0 grid=2; "
     "attribute_get g 0 priority"),
    ("kept by a clone",
     "attribute_set g 0 priority -2; graph_clone g h; attribute_get h 0 priority"),
)  # fmt: skip
_KERNELS = "graph_create g; add_fill f g; add_kernel a g f; add_kernel b g a"

_ENABLED = tuple(
    (kind, f"node_enabled x g {place}; node_set_enabled x g {place} 0; node_enabled x g {place}; "
     f"{_RUN}; node_set_enabled x g {place} 1; node_enabled x g {place}; {_RUN}")
    for kind, place in zip(_NODES, range(7), strict=True)
)  # fmt: skip

SCENARIOS = (
    *(Scenario(f"set in a graph, {name}", f"{_ALL}; node_set {kind} g {_NODES[kind]} {settings}; "
               f"instantiate g x; {_RUN}") for name, kind, settings in _CHANGES),
    *(Scenario(f"set in an executable, {name}", f"{_READY}; "
               f"exec_set {kind} x g {_NODES[kind]} {settings}; {_RUN}; update x g")
      for name, kind, settings in _CHANGES),
    *(Scenario(f"set, {name}", f"{_READY}; node_set {kind} g {_NODES[kind]} {settings}; "
               f"exec_set {kind} x g {_NODES[kind]} {settings}") for name, kind, settings in _PAST),
    Scenario("set in a graph, a node of another kind",
             "; ".join([_ALL, *(f"node_set {kind} g {rest}" for kind, rest in _WRONG)])),
    Scenario("set in an executable, a node of another kind",
             "; ".join([_READY, *(f"exec_set {kind} x g {rest}" for kind, rest in _WRONG), _RUN])),
    Scenario("read, every kind as every kind",
             "; ".join([_ALL, *(f"node_get {kind} g {name}" for kind, name in _READS)])),
    Scenario("read, after it was set", f"{_ALL}; node_set kernel g a grid=5 block=64 shared=256; "
             "node_get kernel g a; node_set memset g b value=3 width=8 element=4; "
             "node_get memset g b; node_set memcpy g c width=32; node_get memcpy g c; "
             "node_set record g e event=t1; node_get record g e; node_set wait g f event=t2; "
             "node_get wait g f"),
    *(Scenario(f"child graph of an executable: {name}", f"{_READY}; {call}; {_RUN}")
      for name, call in _CHILD),
    *(Scenario(f"attribute: {name}", f"{_KERNELS}; {call}") for name, call in _ATTRIBUTES),
    *(Scenario(f"attribute: a captured kernel's priority is its stream's, {rank}",
               f"stream_ranked v {rank}; begin v; launch v; end v g; attribute_get g 0 priority; "
               "stream_destroy v") for rank in ("0", "-1", "-5")),
    Scenario("attribute: a captured kernel's priority, on a joined stream",
             "stream_ranked v -5; begin v; launch v; record e1 v; wait t e1; launch t; "
             "record e2 t; wait v e2; launch v; end v g; attribute_get g 0 priority; "
             "attribute_get g 1 priority; attribute_get g 2 priority; stream_destroy v"),
    *(Scenario(f"switched off and on: {kind}", f"{_READY}; {call}") for kind, call in _ENABLED),
    Scenario("switched off: a node of another graph", f"{_READY}; graph_clone g l; "
             "node_set_enabled x l 0 0; node_enabled x l 0"),
    Scenario("switched off: then set, then on", f"{_READY}; node_set_enabled x g 1 0; "
             f"exec_set memset x g b value=4; node_enabled x g 1; {_RUN}; "
             f"node_set_enabled x g 1 1; {_RUN}"),
    Scenario("set in an executable, from another thread", f"{_READY}; "
             f"@exec_set kernel x g a grid=2; @exec_set memset x g b value=4; {_RUN}"),
    Scenario("set in an executable, in flight", "begin s; launch s kernel=hold; memset_async s; "
             "end s g; instantiate g x; graph_launch x s; exec_set memset x g 0 value=4; query s; "
             f"release; sync s; {_RUN}"),
)  # fmt: skip
