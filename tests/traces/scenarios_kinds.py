"""cuGraphExecUpdate of every kind of node, and what an executable keeps of the graph before."""

from __future__ import annotations

from tests.traces.scenario import Scenario

_CHILD = "graph_create k; add_kernel ka k; add_fill kb k ka"
_WITH_CHILD = f"{_CHILD}; graph_create g; add_kernel a g; add_child b g k a; instantiate g x"
_RUN = "graph_launch x s; sync s"

# (name, nodes of the first graph, nodes of the second), the graph being g and then h.
_BUILT = (
    ("empty node to empty node", "add_empty a {}", "add_empty a {}"),
    ("empty node to kernel", "add_empty a {}", "add_kernel a {}"),
    ("kernel to empty node", "add_kernel a {}", "add_empty a {}"),
    ("host function to kernel", "add_host a {}", "add_kernel a {}"),
    ("record, the same event", "add_record a {} e1", "add_record a {} e1"),
    ("record, another event", "add_record a {} e1", "add_record a {} e2"),
    ("record to wait", "add_record a {} e1", "add_wait a {} e1"),
    ("wait, another event", "add_wait a {} e1", "add_wait a {} e2"),
    ("wait to kernel", "add_wait a {} e1", "add_kernel a {}"),
    ("memset, two rows", "add_fill a {}", "add_fill a {}; node_set memset {} a height=2 pitch=256"),
    ("memset, two rows both, another value",
     "add_fill a {}; node_set memset {} a height=2 pitch=256",
     "add_fill a {}; node_set memset {} a height=2 pitch=256 value=3"),
    ("memset, two rows both, another width",
     "add_fill a {}; node_set memset {} a height=2 pitch=256",
     "add_fill a {}; node_set memset {} a height=2 pitch=256 width=32"),
    ("memset, two rows both, another pitch",
     "add_fill a {}; node_set memset {} a height=2 pitch=256",
     "add_fill a {}; node_set memset {} a height=2 pitch=512"),
    ("memset, another element's size", "add_fill a {}",
     "add_fill a {}; node_set memset {} a element=4 width=16"),
    ("memset, another address", "add_fill a {}", "add_fill a {}; node_set memset {} a to=1"),
    ("memcpy, two rows", "add_copy a {}", "add_copy a {}; node_set memcpy {} a height=2 pitch=256"),
    ("memcpy, two rows both, another pitch",
     "add_copy a {}; node_set memcpy {} a height=2 pitch=256",
     "add_copy a {}; node_set memcpy {} a height=2 pitch=512"),
    ("memcpy, two rows both, another width",
     "add_copy a {}; node_set memcpy {} a height=2 pitch=256",
     "add_copy a {}; node_set memcpy {} a height=2 pitch=256 width=32"),
    ("memcpy, from the host", "add_copy a {}", "add_copy a {}; node_set memcpy {} a kind=htod"),
    ("kernel, priority", "add_kernel a {}", "add_kernel a {}; attribute_set {} 0 priority -1"),
    ("kernel, everything", "add_kernel a {}",
     "add_kernel a {}; node_set kernel {} a kernel=noop2 grid=7 block=96 shared=512 args=swapped"),
    ("two roots, in the other order", "add_kernel a {}; add_fill b {}",
     "add_fill b {}; add_kernel a {}"),
    ("two leaves, in the other order", "add_kernel r {}; add_kernel a {} r; add_fill b {} r",
     "add_kernel r {}; add_fill b {} r; add_kernel a {} r"),
    ("a join, its edges in the other order",
     "add_kernel a {}; add_fill b {}; add_kernel c {} a b",
     "add_kernel a {}; add_fill b {}; add_kernel c {} b a"),
    ("an edge more", "add_kernel a {}; add_kernel b {} a; add_kernel c {} b",
     "add_kernel a {}; add_kernel b {} a; add_kernel c {} b; edge {} a c"),
    ("an edge fewer", "add_kernel a {}; add_kernel b {} a; add_kernel c {} a b",
     "add_kernel a {}; add_kernel b {} a; add_kernel c {} b"),
    ("two chains to one", "add_kernel a {}; add_kernel b {} a; add_kernel c {}; add_kernel d {} c",
     "add_kernel a {}; add_kernel b {} a; add_kernel c {} b; add_kernel d {} c"),
    ("one chain to two", "add_kernel a {}; add_kernel b {} a; add_kernel c {} b; add_kernel d {} c",
     "add_kernel a {}; add_kernel b {} a; add_kernel c {}; add_kernel d {} c"),
    ("allocation and free both", "add_alloc a {} p; add_free b {} p a",
     "add_alloc a {} q; add_free b {} q a"),
    ("allocation and kernel, the kernel's grid", "add_alloc a {} p; add_kernel b {} a",
     "add_alloc a {} q; add_kernel b {} a; node_set kernel {} b grid=4"),
)  # fmt: skip

_CHILDREN = (
    ("the same", "graph_create h; add_kernel c h; add_child d h k c"),
    ("a kernel inside with another grid", "node_set kernel k ka grid=4; graph_create h; "
     "add_kernel c h; add_child d h k c"),
    ("one node more inside", "add_kernel kc k kb; graph_create h; add_kernel c h; "
     "add_child d h k c"),
    ("other types inside", "graph_create l; add_fill la l; add_kernel lb l la; graph_create h; "
     "add_kernel c h; add_child d h l c"),
    ("an empty graph inside", "graph_create l; graph_create h; add_kernel c h; add_child d h l c"),
    ("to a kernel", "graph_create h; add_kernel c h; add_kernel d h c"),
    ("a child of the child", "graph_create l; add_child la l k; graph_create h; add_kernel c h; "
     "add_child d h l c"),
)  # fmt: skip

_CAPTURED = (
    ("captured kernels by built ones", "begin s; launch s; launch s; end s g",
     "graph_create h; add_kernel a h; add_kernel b h a"),
    ("built kernels by captured ones", "graph_create g; add_kernel a g; add_kernel b g a",
     "begin s; launch s; launch s; end s h"),
    ("a captured memset by a built one", "begin s; memset_async s; end s g",
     "graph_create h; add_fill a h"),
    ("a captured memcpy by a built one", "begin s; copy_dtod_async s; end s g",
     "graph_create h; add_copy a h"),
    ("a captured copy of rows by a copy of a row", "begin s; copy_rows_async s 64 2; end s g",
     "begin s; copy_rows_async s 64 1; end s h"),
    ("a captured copy of rows by another width", "begin s; copy_rows_async s 64 2; end s g",
     "begin s; copy_rows_async s 32 2; end s h"),
    ("a captured copy of rows by more rows", "begin s; copy_rows_async s 64 2; end s g",
     "begin s; copy_rows_async s 64 3; end s h"),
    ("a captured memset of rows by another value", "begin s; fill_rows_async s 64 2; end s g",
     "begin s; fill_rows_async s 64 2 5; end s h"),
    ("a captured memset of rows by more rows", "begin s; fill_rows_async s 64 2; end s g",
     "begin s; fill_rows_async s 64 3; end s h"),
    ("a captured host function by a built one", "begin s; host_function s; end s g",
     "graph_create h; add_host a h"),
    ("a captured external record by a built one", "begin s; record_external e1 s; end s g",
     "graph_create h; add_record a h e1"),
    ("a captured external wait by a built one", "begin s; wait_external s e1; end s g",
     "graph_create h; add_wait a h e1"),
    ("a captured external wait by another event", "begin s; wait_external s e1; end s g",
     "begin s; wait_external s e2; end s h"),
    ("a captured allocation and free by the same",
     "begin s; alloc_async p s; launch s; free_async p s; end s g",
     "begin s; alloc_async q s; launch s; free_async q s; end s h"),
    ("pageable by pinned memory", "begin s; copy_htod_async s pageable; end s g",
     "begin s; copy_htod_async s; end s h"),
    ("captured on another stream", "begin s; launch s; end s g", "begin b; launch b; end b h"),
    ("captured by another thread", "begin s; launch s; end s g", "@begin t; @launch t; @end t h"),
    ("a fork into three by the same", "begin s; launch s; record e1 s; wait t e1; launch t; "
     "wait u e1; launch u; record e2 t; wait s e2; record e3 u; wait s e3; launch s; end s g",
     "begin s; launch s; record e1 s; wait t e1; launch t; wait u e1; launch u; record e2 t; "
     "wait s e2; record e3 u; wait s e3; launch s; end s h"),
    ("a fork into three, joined in the other order", "begin s; launch s; record e1 s; wait t e1; "
     "launch t; wait u e1; launch u; record e2 t; wait s e2; record e3 u; wait s e3; launch s; "
     "end s g", "begin s; launch s; record e1 s; wait t e1; launch t; wait u e1; launch u; "
     "record e3 u; wait s e3; record e2 t; wait s e2; launch s; end s h"),
)  # fmt: skip

_AFTER = f"update x h; {_RUN}; update x g; {_RUN}"

SCENARIOS = (
    *(Scenario(f"update of nodes: {name}", f"graph_create g; {one.replace('{}', 'g')}; "
               f"instantiate g x; graph_create h; {two.replace('{}', 'h')}; update x h; update x g")
      for name, one, two in _BUILT),
    *(Scenario(f"update of a child graph: {name}", f"{_WITH_CHILD}; {more}; {_AFTER}")
      for name, more in _CHILDREN),
    *(Scenario(f"update of a capture: {name}", f"{one}; instantiate g x; {two}; update x h; "
               "update x g") for name, one, two in _CAPTURED),
    Scenario("update: in a capture of another stream", "graph_create g; add_kernel a g; "
             "instantiate g x; begin s; launch s; update x g; launch s; end s h"),
    Scenario("update: from another thread", "graph_create g; add_kernel a g; instantiate g x; "
             f"@update x g; {_RUN}"),
    Scenario("update: of an executable that was set", "graph_create g; add_kernel a g; "
             f"instantiate g x; exec_set kernel x g a grid=4; update x g; {_RUN}"),
    Scenario("update: by the graph that is being captured into", "graph_create g; add_kernel a g; "
             "instantiate g x; begin_to s g; launch s; update x g; end_to s g; update x g"),
    Scenario("update: twice in flight", "begin s; launch s kernel=hold; end s g; instantiate g x; "
             "graph_launch x s; begin t; launch t; end t h; update x h; graph_launch x s; "
             "update x h; query s; release; sync s"),
)  # fmt: skip
