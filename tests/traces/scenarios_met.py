"""What random sequences with themes met: conditional nodes in graphs that have been cloned, bodies
of another context, priorities out of range or in the executable, clusters under new parameters."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario
from tests.traces.scenarios_contexts import BARE, OURS, THEIRS

_TWO = "graph_create g; add_kernel n1 g; graph_create h; add_kernel n2 h"
_IF = "cond_add q g if 1"

# ---- Conditional nodes, clones and child graphs ----
_CONDITIONAL = (
    ("as a child graph, after a node of another graph", f"{_TWO}; {_IF}; add_child a h g n1"),
    ("as a child graph, after the same node twice", f"{_TWO}; {_IF}; add_child a h g n2 n2"),
    ("as a child graph of an executable", f"{_TWO}; graph_create k; add_kernel ka k; "
     f"add_child a h k n2; instantiate h x; {_IF}; exec_set child x h a graph=g; "
     "exec_set child x h n2 graph=g"),
    ("added after a clone was made", f"{_TWO}; graph_clone g k; {_IF}; instantiate_params g x; "
     "graph_clone g l; cond_destroy q; instantiate g x"),
    ("added after a clone was made and destroyed", f"{_TWO}; graph_clone g k; graph_destroy k; "
     f"{_IF}; instantiate_params g x"),
    ("added after a clone was made, which is destroyed then", f"{_TWO}; graph_clone g k; {_IF}; "
     "graph_destroy k; instantiate_params g x; instantiate_params g y"),
    ("added to a clone", f"{_TWO}; graph_clone h g; cond_add q g if 1; instantiate_params g x"),
    ("added to a clone of a clone's origin", f"{_TWO}; graph_clone g k; graph_clone k l; "
     "cond_add q k if 1; cond_add m l if 1; instantiate_params k x; instantiate_params l y"),
    ("added after its graph became a child graph", f"{_TWO}; add_child a h g n2; {_IF}; "
     "instantiate_params g x; instantiate h y"),
    ("added after its graph became a child graph, the parent destroyed", f"{_TWO}; "
     f"add_child a h g n2; graph_destroy h; {_IF}; instantiate_params g x"),
    ("added after its graph was an executable's child graph", f"{_TWO}; graph_create k; "
     "add_kernel ka k; add_child a h k n2; instantiate h y; exec_set child y h a graph=g; "
     f"{_IF}; instantiate_params g x"),
    ("added after its graph was instantiated", f"{_TWO}; instantiate g x; {_IF}; "
     "instantiate_params g y"),
    ("added after its graph was instantiated and the executable destroyed", f"{_TWO}; "
     f"instantiate g x; exec_destroy x; {_IF}; instantiate_params g y"),
    ("added after its graph updated an executable", f"{_TWO}; instantiate h x; update x g; {_IF}; "
     "instantiate_params g y"),
    ("added after a clone was made, an update by it", f"{_TWO}; cond_add m h if 1; "
     f"instantiate h x; graph_clone g k; {_IF}; update x g; update x h"),
    ("added after a clone of a graph without nodes", "graph_create g; graph_clone g k; "
     f"{_IF}; instantiate_params g x; cond_add m k if 1; instantiate_params k y"),
    ("captured into a graph that was cloned", f"{_TWO}; graph_clone g k; begin_into s g; "
     "launch s; end_into s g; cond_add q g while 0; instantiate_params g x"),
    ("in a body, its graph was cloned", f"{_TWO}; graph_clone g k; {_IF}; cond_add m q0 if 1; "
     "instantiate_params g x"),
    ("destroyed, then cloned", f"{_TWO}; {_IF}; cond_destroy q; graph_clone g k"),
    ("destroyed, then as a child graph", f"{_TWO}; {_IF}; cond_destroy q; add_child a h g n2; "
     "add_child b h g n1"),
    ("destroyed, then as an executable's child graph", f"{_TWO}; graph_create k; "
     f"add_kernel ka k; add_child a h k n2; instantiate h x; {_IF}; cond_destroy q; "
     "exec_set child x h a graph=g"),
    ("destroyed, then instantiated twice", f"{_TWO}; {_IF}; cond_destroy q; instantiate g x; "
     "instantiate g y; update x h; update x g; graph_launch x s; sync s"),
    ("destroyed, a clone was made before", f"{_TWO}; graph_clone g k; {_IF}; cond_destroy q; "
     "instantiate g x; instantiate g y"),
    ("destroyed after its graph was instantiated", f"{_TWO}; {_IF}; instantiate g x; "
     "cond_destroy q; instantiate g y; update x g; graph_clone g k"),
    ("destroyed in a graph with another", f"{_TWO}; {_IF}; cond_add m g if 1; cond_destroy q; "
     "graph_clone g k; instantiate_params g x; instantiate_params g y"),
    ("a handle alone, then cloned", f"{_TWO}; cond_handle q g 1; graph_clone g k; "
     "add_child a h g n2"),
    ("a refused node, then cloned", f"{_TWO}; cond_handle q g 1; cond_node m g q if 3; "
     "graph_clone g k; add_child a h g n2"),
    ("destroyed within a capture", f"{_TWO}; {_IF}; begin s; launch s; cond_destroy q; launch s; "
     "end s k"),
)  # fmt: skip

# ---- Bodies and contexts ----
_TELL = "ctx_use home; instantiate_params g x"
_BODIES = (
    ("our kernel in a body of another one", "ctx_use c; cond_add q g if 1; body_add_kernel q0"),
    ("an empty body of another one", "ctx_use c; cond_add q g if 1"),
    ("an empty body of another one beside our kernel", "add_kernel a g; ctx_use c; "
     "cond_add q g if 1"),
    ("another one's kernel in our body", "cond_add q g if 1; begin_into c.v q0; "
     "launch c.v kernel=c.k; end_into c.v q0"),
    ("another one's kernel and ours in a body", "cond_add q g if 1; body_add_kernel q0; "
     "begin_into c.v q0; launch c.v kernel=c.k; end_into c.v q0"),
    ("another one's kernel in its body", "ctx_use c; cond_add q g if 1; begin_into c.v q0; "
     "launch c.v kernel=c.k; end_into c.v q0"),
    ("another one's kernel beside our conditional", "add_kernel_of a g c.k; cond_add q g if 1; "
     "body_add_kernel q0"),
    ("another one's memory set in our body", "cond_add q g if 1; begin_into s q0; fill_of s c.p; "
     "end_into s q0"),
    ("another one's memory copied in our body", "cond_add q g if 1; begin_into s q0; "
     "copy_of s c.p buffer; end_into s q0"),
    ("our memory set in a body of another one", "ctx_use c; cond_add q g if 1; begin_into s q0; "
     "fill_of s buffer; end_into s q0"),
    ("another one's memory set in its body", "ctx_use c; cond_add q g if 1; begin_into c.v q0; "
     "fill_of c.v c.p; end_into c.v q0"),
    ("a conditional of another one in our body", "cond_add q g if 1; ctx_use c; "
     "cond_add m q0 if 1"),
    ("our conditional in a body of another one", "ctx_use c; cond_add q g if 1; ctx_use home; "
     "cond_add m q0 if 1"),
    ("our kernel two bodies down of another one", "ctx_use c; cond_add q g if 1; "
     "cond_add m q0 if 1; body_add_kernel m0"),
    ("a child graph of our kernel in a body of another one", "graph_create k; add_kernel ka k; "
     "ctx_use c; cond_add q g if 1; body_add_child q0 k"),
    ("conditionals of both", "cond_add q g if 1; body_add_kernel q0; ctx_use c; cond_add m g if 1"),
    ("an update to a body of another one", "cond_add q g if 1; instantiate g y; graph_create h; "
     "ctx_use c; cond_add m h if 1; ctx_use home; update y h"),
    ("an update to a body with another one's kernel", "cond_add q g if 1; body_add_kernel q0; "
     "instantiate g y; graph_create h; cond_add m h if 1; begin_into c.v m0; "
     "launch c.v kernel=c.k; end_into c.v m0; update y h"),
    ("a handle of another one", "cond_handle q g 1; ctx_use c; cond_node m g q if"),
    ("a handle of another one, for us", "ctx_use c; cond_handle q g 1; ctx_use home; "
     "cond_node m g q if; body_add_kernel m0"),
    ("instantiated under another one", "cond_add q g if 1; body_add_kernel q0; ctx_use c; "
     "instantiate g y; graph_launch y c.v; sync c.v"),
    ("a body's kernel attributes copied to another one's", "add_kernel a g; add_kernel_of b g c.k; "
     "attributes_copy g 0 1; attributes_copy g 1 0; attributes_copy g 1 1; ctx_use c; "
     "attributes_copy g 0 1; attributes_copy g 1 1; attributes_copy g 0 0"),
    ("attributes of another one's kernel", "add_kernel_of b g c.k; attribute_set g 0 priority -1; "
     "attribute_get g 0 priority; attribute_set g 0 cooperative 1; node_kernel_of b c.k; "
     "attribute_get g 0 priority"),
)  # fmt: skip

# ---- Calls of two contexts in an invalidated capture ----
_LOST = (
    "launch s kernel=c.k", "launch s kernel=c.k block=4096", "record c.e s",
    "record_external c.e s", "wait s c.e", "wait s c.d", "wait_external s c.d", "fill_of s c.p",
    "copy_of s c.p p", "alloc_async q s; free_async q s", "graph_launch y s", "write_value s c.p 5",
)  # fmt: skip
_LOST_THERE = (
    "launch c.v", "launch c.v kernel=c.k", "launch c.v block=4096", "record e1 c.v",
    "record_external e1 c.v", "wait c.v e3", "wait_external c.v e3", "fill_of c.v p",
    "graph_launch y c.v",
)  # fmt: skip

# ---- Priorities ----
_BUILT = "graph_create g; add_kernel a g"
_CAPTURED = "begin s; launch s; end s g"
_WITH = "instantiate_flags g x 8"
_PRIORITIES = (
    ("another one", f"{_WITH}; attribute_set g 0 priority -1; update x g; update x g"),
    ("the one it has", f"{_WITH}; attribute_set g 0 priority 0; update x g"),
    ("above the range", f"{_WITH}; attribute_set g 0 priority 2; update x g"),
    ("below the range", f"{_WITH}; attribute_set g 0 priority -9; update x g"),
    ("another one and back", f"{_WITH}; attribute_set g 0 priority -1; "
     "attribute_set g 0 priority 0; update x g"),
    ("set before, then above the range", f"attribute_set g 0 priority 0; {_WITH}; "
     "attribute_set g 0 priority 2; update x g"),
    ("above the range before, then the highest", f"attribute_set g 0 priority 2; {_WITH}; "
     "attribute_set g 0 priority 0; update x g"),
    ("above the range before, then above it too", f"attribute_set g 0 priority 2; {_WITH}; "
     "attribute_set g 0 priority 1; update x g"),
    ("below the range before, then the lowest", f"attribute_set g 0 priority -9; {_WITH}; "
     "attribute_set g 0 priority -5; update x g"),
    ("set before, then the same", f"attribute_set g 0 priority -1; {_WITH}; "
     "attribute_set g 0 priority -1; update x g"),
    ("set before, then by a graph without one", f"attribute_set g 0 priority 0; {_WITH}; "
     "graph_create h; add_kernel b h; update x h; begin s; launch s; end s k; update x k"),
    ("a graph without one", f"{_WITH}; graph_create h; add_kernel b h; update x h; begin s; "
     "launch s; end s k; update x k"),
    ("a capture on a stream with another one", f"{_WITH}; stream_ranked v -5; begin v; launch v; "
     "end v h; update x h; stream_destroy v"),
    ("another function and grid", f"{_WITH}; node_kernel g 0 noop2 4; update x g"),
    ("set behind it, then a kernel set", f"{_WITH}; attribute_set g 0 priority -1; "
     "exec_kernel x g 0 noop2 2; update x g"),
    ("by all flags", "instantiate_with g x 11; attribute_set g 0 priority -1; update x g"),
    ("not asked for, above the range", "instantiate_flags g x 1; attribute_set g 0 priority 2; "
     "update x g; instantiate g y; attribute_set g 0 priority -5; update y g"),
    ("told", "; ".join(f"attribute_set g 0 priority {value}; attribute_get g 0 priority"
                       for value in ("2", "1", "0", "-5", "-6", "-9", "2147483647")) +
     "; attribute_set g 0 priority 2; graph_clone g k; attribute_get k 0 priority"),
)  # fmt: skip
_PRIORITIES_ALONE = (
    ("of a child graph's kernel", "graph_create k; add_kernel ka k; graph_create g; "
     f"add_child a g k; {_WITH}; attribute_set k 0 priority -1; exec_child x g 0 k; "
     "graph_create h; add_child b h k; update x h"),
    ("copied", f"{_BUILT}; add_kernel b g a; attribute_set g 1 priority -1; {_WITH}; "
     "attributes_copy g 1 0; update x g"),
    ("copied, the same", f"{_BUILT}; add_kernel b g a; attribute_set g 0 priority -1; "
     f"attribute_set g 1 priority -1; {_WITH}; attributes_copy g 1 0; update x g"),
    ("copied, none set", f"{_BUILT}; add_kernel b g a; attribute_set g 0 priority -1; "
     "attributes_copy g 1 0; attribute_get g 0 priority; attribute_set g 0 priority 0; "
     f"{_WITH}; attributes_copy g 1 0; update x g"),
)  # fmt: skip

# ---- Clusters ----
_CLUSTERED = "begin s; launch s cluster=2 grid=2; launch s grid=8; end s g"
_CLUSTERS = (
    ("a grid that it does not divide", "node_kernel g 0 noop 1; attribute_get g 0 cluster; "
     "node_get kernel g 0; instantiate g x"),
    ("a grid that it divides", "node_kernel g 0 noop 4; attribute_get g 0 cluster; "
     "instantiate g x"),
    ("another kernel", "node_kernel g 0 noop2 2; attribute_get g 0 cluster; instantiate g x"),
    ("another kernel and a grid that it does not divide", "node_kernel g 0 noop2 3"),
    ("in an executable", "instantiate g x; exec_kernel x g 0 noop 1; exec_kernel x g 0 noop2 3; "
     "exec_kernel x g 0 noop 4; graph_launch x s; sync s"),
    ("a grid that it does not divide, and an illegal block",
     "node_set kernel g 0 grid=1 block=4096; node_set kernel g 0 grid=0; "
     "node_set kernel g 0 grid=1 shared=300000"),
    ("copied to a grid that it divides", "attributes_copy g 0 1; attribute_get g 1 cluster; "
     "instantiate g x"),
    ("copied to a grid that it does not divide", "attribute_set g 0 priority -2; "
     "node_kernel g 1 noop 3; attributes_copy g 0 1; attribute_get g 1 cluster; "
     "attribute_get g 1 priority; instantiate g x"),
    ("none copied over it", "attributes_copy g 1 0; attribute_get g 0 cluster; "
     "node_kernel g 0 noop 1"),
    ("set, then a grid that it does not divide", "attribute_set g 1 cluster 4; "
     "node_kernel g 1 noop 6; attribute_get g 1 cluster; node_kernel g 1 noop 64; "
     "attribute_set g 1 cluster 2; attribute_get g 1 cluster"),
    ("kept by a clone, a grid that it does not divide", "graph_clone g k; node_kernel k 0 noop 1; "
     "attribute_get k 0 cluster"),
    ("updated to a grid", "instantiate g x; node_kernel g 0 noop 4; update x g; "
     "node_kernel g 0 noop 6; node_kernel g 1 noop 3; update x g"),
)  # fmt: skip

SCENARIOS = (
    *(Scenario(f"conditional: {name}", text) for name, text in _CONDITIONAL),
    Scenario("conditional: destroyed twice", f"{_TWO}; {_IF}; cond_destroy q; cond_destroy q",
             apart=True),
    *(Scenario(f"contexts: conditional, {name}", f"{OURS}; {THEIRS}; graph_create g; {text}; "
               f"{_TELL}") for name, text in _BODIES),
    *(Scenario(f"contexts: in an invalidated capture, {call}", f"{BARE}; {OURS}; {THEIRS}; "
               f"begin s; launch s; query s; {call}; ctx_use c; {call}; ctx_use home; end s g",
               EVERY_MODE) for call in _LOST),
    *(Scenario(f"contexts: in another one's invalidated capture, {call}", f"{BARE}; {OURS}; "
               f"{THEIRS}; begin c.v; query c.v; {call}; ctx_use c; {call}; end c.v g; "
               "ctx_use home", EVERY_MODE) for call in _LOST_THERE),
    *(Scenario(f"{base} kernel's priority, in the executable: {name}", f"{made}; {text}")
      for base, made in (("a built", _BUILT), ("a captured", _CAPTURED))
      for name, text in _PRIORITIES),
    *(Scenario(f"a kernel's priority, in the executable: {name}", text)
      for name, text in _PRIORITIES_ALONE),
    *(Scenario(f"a captured cluster: {name}", f"{_CLUSTERED}; {text}")
      for name, text in _CLUSTERS),
)  # fmt: skip
