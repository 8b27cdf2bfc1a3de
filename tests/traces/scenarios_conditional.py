"""Conditional nodes: what they run, what their bodies may hold, handles, updates, captures.

A WHILE whose body was not recorded as meant would never end on the device: loops are launched by
`launch_good`, which does not after a failed step, and none is launched after an update.
"""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, RELAXED, Scenario

_RUN = "graph_launch x s; sync s; counts"
_GOOD = "launch_good x s; sync s; counts"
_GRAPH = "cond_load; graph_create g"
_BUMP_IF = "cond_node n g h if; begin_into s n0; bump s; end_into s n0"
_LOOP = "cond_node n g h while; begin_into s n0; count_to s h {}; end_into s n0"
_DECIDE = "begin_into s g; steer s h {}; end_into s g"


def _runs(name: str, default: str, add: str, more: str = "") -> Scenario:
    """A graph with the handle h of that default, launched twice."""
    return Scenario(f"conditional: {name}", f"{_GRAPH}; cond_handle h g {default}; {add}; "
                    f"graph_nodes g; instantiate g x; {_GOOD}; {_GOOD}; {more}")  # fmt: skip


_ELSE = (
    "cond_node n g h if 2; begin_into s n0; bump s 0; end_into s n0; begin_into s n1; bump s 1; "
    "end_into s n1"
)
_SWITCH = "cond_node n g h switch 3; " + "; ".join(
    f"begin_into s n{n}; bump s {n}; end_into s n{n}" for n in range(3)
)
# Of the outer loop's body: a handle h2, set anew in each round or with a default.
_NESTED = (
    "cond_node n g h while; cond_handle h2 {home} {default}; begin_into s n0; {set}; "
    "cond_capture m s h2 while; begin_into t m0; round_to t h2 3 1; end_into t m0; "
    "count_to s h 4; end_into s n0"
)

_RUNNING = (
    _runs("if, default 1", "1", _BUMP_IF),
    _runs("if, default 0", "0", _BUMP_IF),
    _runs("if, a kernel sets 1 over a default of 0", "0", f"{_DECIDE.format(1)}; {_BUMP_IF}"),
    _runs("if, a kernel sets 0 over a default of 1", "1", f"{_DECIDE.format(0)}; {_BUMP_IF}"),
    _runs("if, a kernel sets 7", "0", f"{_DECIDE.format(7)}; {_BUMP_IF}"),
    _runs("if and else, default 1", "1", _ELSE),
    _runs("if and else, default 0", "0", _ELSE),
    _runs("while, default 1, ends at 5", "1", _LOOP.format(5)),
    _runs("while, default 1, ends at once", "1", _LOOP.format(1)),
    _runs("while, default 0", "0", _LOOP.format(5)),
    _runs("while, set by a kernel, no default", "", f"{_DECIDE.format(1)}; {_LOOP.format(5)}"),
    *(_runs(f"switch of three, default {value}", value, _SWITCH) for value in "0123"),
    _runs("an empty body", "1", "cond_node n g h if"),
    _runs("a loop in a loop, set in each round", "1",
          _NESTED.format(home="n0", default="", set="steer s h2 1")),
    _runs("a loop in a loop, default, handle of the body", "1",
          _NESTED.format(home="n0", default="1", set="bump s 2")),
    _runs("a loop in a loop, default, handle of the graph", "1",
          _NESTED.format(home="g", default="1", set="bump s 2")),
    _runs("an if in a loop", "1", "cond_node n g h while; cond_handle h2 n0 1; begin_into s n0; "
          "cond_capture m s h2 if; begin_into t m0; bump t 1; end_into t m0; count_to s h 4; "
          "end_into s n0"),
    _runs("a fork in the body", "1", "cond_node n g h if; begin_into s n0; bump s; record e1 s; "
          "wait t e1; bump t 1; record e2 t; wait s e2; bump s 2; end_into s n0"),
    _runs("launched ten times without a wait", "1", _LOOP.format(5),
          "launch_good x s; " * 10 + "sync s; counts"),
    _runs("the graph destroyed before a launch", "1", _LOOP.format(5),
          f"graph_destroy g; {_GOOD}"),
    _runs("on two streams", "1", _LOOP.format(5), "launch_good x s; launch_good x t; ctx_sync; "
          "counts"),
)  # fmt: skip

_BODIES = (
    ("a kernel", "bump s"),
    ("a memset", "memset_async s"),
    ("a copy, device to device", "copy_dtod_async s"),
    ("a copy, pinned to device", "copy_htod_async s"),
    ("a copy, device to pinned", "copy_dtoh_async s"),
    ("a copy, pageable to device", "copy_htod_async s pageable"),
    ("a copy, device to pageable", "copy_dtoh_async s pageable"),
    ("an allocation", "alloc_async p s"),
    ("an allocation and its free", "alloc_async p s; free_async p s"),
    ("a host function", "host_function s"),
    ("an external event record", "record_external e1 s"),
    ("an external event wait", "wait_external s e1"),
    ("a cooperative launch", "launch s cooperative=1"),
    ("two roots", "bump s; record e1 s; bump s"),
    ("a written word", "write_value s w0 5"),
    ("a word waited for", "wait_value s w0 0 eq"),
)
_HELD = "begin_into s n0; {}; end_into s n0; graph_nodes n0; instantiate_params g x"


def _bodies() -> list[Scenario]:
    found = []
    for name, issue in _BODIES:
        body = _HELD.format(issue)
        runs = "cond_load; graph_create g; cond_handle h g 1; cond_node n g h if; {}"
        good = name.startswith(("a kernel", "a memset", "two", "a coop")) or "pinned" in name
        good = good or name.endswith("device to device")
        launched = "graph_launch x s; sync s" if good else ""
        found.append(Scenario(f"conditional body: {name}", f"{runs.format(body)}; {launched}"))
    return found


_CHILD = "graph_create c; begin_into s c; {}; end_into s c"
_MORE_BODIES = (
    Scenario("conditional body: a child graph", f"{_GRAPH}; {_CHILD.format('bump s 1')}; "
             "cond_handle h g 1; cond_node n g h if; body_add_child n0 c; "
             f"instantiate g x; {_RUN}"),
    Scenario("conditional body: a child graph with a host function", f"{_GRAPH}; "
             f"{_CHILD.format('host_function s')}; cond_handle h g 1; cond_node n g h if; "
             "body_add_child n0 c; instantiate_params g x"),
    Scenario("conditional body: a host function, one level down", f"{_GRAPH}; cond_handle h g 1; "
             "cond_node n g h if; cond_handle h2 n0 1; cond_node m n0 h2 if; begin_into s m0; "
             "host_function s; end_into s m0; instantiate_params g x"),
    Scenario("conditional body: of an else, a host function", f"{_GRAPH}; cond_handle h g 1; "
             "cond_node n g h if 2; begin_into s n1; host_function s; end_into s n1; "
             "instantiate_params g x"),
)  # fmt: skip

_RULES = (
    ("handle without a node", f"{_GRAPH}; cond_handle h g 1; instantiate_params g x"),
    ("handle of a body without a node", f"{_GRAPH}; cond_handle h g 1; cond_node n g h if; "
     "cond_handle h2 n0 1; instantiate_params g x"),
    ("handle used twice", f"{_GRAPH}; cond_handle h g 1; cond_node n g h if; cond_node m g h if"),
    ("handle of another graph", f"{_GRAPH}; graph_create k; cond_handle h k 1; cond_node n g h if"),
    ("handle of the graph around", f"{_GRAPH}; cond_handle h g 1; cond_handle h2 g 1; "
     f"cond_node n g h if; cond_node m n0 h2 if; instantiate g x; {_RUN}"),
    ("handle of a body for a node beside it", f"{_GRAPH}; cond_handle h g 1; cond_node n g h if; "
     "cond_handle h2 n0 1; cond_node m g h2 if"),
    ("handle flags of 2", f"{_GRAPH}; cond_handle h g 1 2"),
    ("handles of two graphs are one number", f"{_GRAPH}; graph_create k; cond_handle h g 1; "
     "cond_handle h2 k 1; cond_handle h3 g 1; same_handle h h2; same_handle h h3"),
    *((f"{kind} of size {size}", f"{_GRAPH}; cond_handle h g 1; cond_node n g h {kind} {size}")
      for kind, size in (("if", 0), ("if", 3), ("while", 0), ("while", 2), ("switch", 0),
                         ("switch", 9))),
    ("cloned", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; clone g k"),
    ("a body cloned", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; clone n0 k"),
    ("as a child graph", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; graph_create k; "
     "body_add_child k g"),
    ("a body as a child graph", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; graph_create k; "
     "body_add_child k n0"),
    ("instantiated twice", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; instantiate g x; "
     f"instantiate g y; exec_destroy x; instantiate g x; {_RUN}"),
    ("a body instantiated", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; instantiate_params n0 x"),
    ("a body destroyed", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; body_destroy n0"),
    ("the node destroyed", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; cond_destroy n; "
     "graph_nodes g; cond_node m g h if; instantiate_params g x"),
    ("its parameters set", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; instantiate g x; "
     f"cond_set_params x n h if; {_RUN}"),
    ("switched off", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; instantiate g x; "
     f"cond_set_enabled x n 0; {_RUN}"),
    ("a body's kernel set", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; instantiate g x; "
     f"body_set_params x n0 0; {_RUN}"),
    ("a body's kernel switched off", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; instantiate g x; "
     f"body_set_enabled x n0 0 0; {_RUN}"),
)  # fmt: skip

_TOP = "begin_into s {g}; steer s {h} {v}; end_into s {g}; cond_node {n} {g} {h} if"
_UPDATED = (
    ("nothing", "bump s", "bump s"),
    ("an argument in the body", "bump s", "bump s 1 5"),
    ("the kernel in the body", "bump s", "launch s"),
    ("one node more in the body", "bump s", "bump s; bump s"),
    ("the body to an empty one", "bump s", ""),
    ("a kernel of the body to a memset", "bump s", "memset_async s"),
)


def _update(name: str, old: str, new: str) -> Scenario:
    """IF nodes whose condition a kernel sets to 1: whether the new handle is the one looked at."""
    first = _TOP.format(g="g", h="h", v=1, n="n") + f"; begin_into s n0; {old}; end_into s n0"
    second = _TOP.format(g="k", h="h2", v=1, n="m") + f"; begin_into s m0; {new}; end_into s m0"
    return Scenario(
        f"conditional update: {name}",
        f"{_GRAPH}; graph_create k; cond_handle h g 0; cond_handle h2 k 0; {first}; {second}; "
        f"instantiate g x; {_RUN}; update x k; {_RUN}; {_RUN}",
    )


_OTHER = (
    "cond_handle h g 1; {}; graph_create k; cond_handle h2 k {}; {}; instantiate g x; update x k"
)
_UPDATES = (
    *(_update(*row) for row in _UPDATED),
    Scenario("conditional update: the default from 1 to 0", f"{_GRAPH}; " + _OTHER.format(
        _BUMP_IF, 0, "cond_node m k h2 if; begin_into s m0; bump s; end_into s m0")
        + f"; {_RUN}"),
    Scenario("conditional update: if to while", f"{_GRAPH}; " + _OTHER.format(
        "cond_node n g h if", 0, "cond_node m k h2 while")),
    Scenario("conditional update: if to if and else", f"{_GRAPH}; " + _OTHER.format(
        "cond_node n g h if", 1, "cond_node m k h2 if 2")),
    Scenario("conditional update: with its own graph", f"{_GRAPH}; cond_handle h g 1; {_BUMP_IF}; "
             f"instantiate g x; update x g; {_RUN}"),
)  # fmt: skip

_IN_CAPTURE = "cond_load; begin s; bump s; cond_handle h capture:s 1; cond_capture n s h while"
_CAPTURES = (
    *(Scenario(f"conditional capture: {name}", f"{_IN_CAPTURE}; {text}", EVERY_MODE)
    for name, text in (
        ("into the body beside the parent's", "begin_into t n0; count_to t h 4; end_into t n0; "
         f"bump s 1; end s g; instantiate g x; {_GOOD}; {_GOOD}"),
        ("nodes read while it is open", "begin_into t n0; count_to t h 4; graph_nodes n0; "
         "graph_nodes capture:s; capture_info t; end_into t n0; end s g"),
        ("into the body on the capturing stream", "begin_into s n0; end s g"),
        ("an allocation call while both are open", "begin_into t n0; alloc p; bump t 1; "
         "count_to t h 4; end_into t n0; bump s 1; end s g"),
        ("a wait for the body's stream", "begin_into t n0; sync t; bump t 1; end_into t n0; "
         "bump s 1; end s g"),
        ("a wait in the body for an event of the parent", "record e1 s; begin_into t n0; bump t 1; "
         "wait t e1; end_into t n0; end s g"),
        ("a body that is not joined", "begin_into t n0; record e1 t; wait u e1; bump u 1; "
         "end_into t n0; bump s 1; end s g"),
        ("an illegal launch in the body", "begin_into t n0; launch t block=4096; end_into t n0; "
         "bump s 1; end s g"),
        ("another thread records the body", "@begin_into t n0; @count_to t h 4; @end_into t n0; "
         f"bump s 1; end s g; instantiate g x; {_GOOD}"),
    )),
    Scenario("conditional capture: the node is not made a dependency",
             "cond_load; begin s; bump s; cond_handle h capture:s 1; cond_capture n s h if 1 0; "
             "bump s 1; end s g"),
    Scenario("conditional capture: instantiated while a body records", f"{_GRAPH}; "
             "cond_handle h g 1; cond_node n g h if; begin_into s n0; bump s; instantiate g x; "
             "end_into s n0", (RELAXED,)),
)  # fmt: skip

# Two captures that do not nest: each in a process of its own, as a driver might not outlive it.
_TANGLED = tuple(
    Scenario(f"conditional tangle: {name}", text, kills=True)
    for name, text in (
        ("the body ends behind the parent", f"{_IN_CAPTURE}; begin_into t n0; count_to t h 4; "
         f"end s g; bump t 1; end_into t n0; instantiate g x; {_GOOD}"),
        ("the body begun twice", f"{_IN_CAPTURE}; begin_into t n0; begin_into u n0; bump t 1; "
         "bump u 2; end_into u n0; end_into t n0; end s g"),
        ("the parent lost while a body records", f"{_IN_CAPTURE}; begin_into t n0; bump t 1; "
         "sync s; end s g; bump t 1; end t"),
        ("the graph destroyed while a body records", f"{_GRAPH}; cond_handle h g 1; "
         "cond_node n g h if; begin_into s n0; graph_destroy g; bump s; sync t"),
    )
)  # fmt: skip

SCENARIOS = (
    *_RUNNING,
    *_bodies(),
    *_MORE_BODIES,
    *(Scenario(f"conditional: {name}", text) for name, text in _RULES),
    *_UPDATES,
    *_CAPTURES,
    *_TANGLED,
)
