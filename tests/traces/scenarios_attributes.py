"""Attributes of streams: set, read, copied; and what a kernel that they capture keeps of them."""

from __future__ import annotations

from tests.traces.placing import placed
from tests.traces.scenario import EVERY_MODE, Scenario

# A stream's attributes, each with a value that is not its first one.
_VALUES = (
    ("priority", "-2"), ("window", "buffer:256:0.5:2:1"), ("policy", "2"), ("domains", "1:3"),
    ("domain", "1"),
)  # fmt: skip
_NAMES = tuple(name for name, _ in _VALUES)
# Those of kernels alone, and numbers that are none's; whether a stream takes one is asked.
_OTHERS = (
    ("ignore", "0"), ("cooperative", "1"), ("cluster", "2"), ("scheduling", "1"),
    ("serialization", "1"), ("attribute7", "0"), ("preferred", "2"), ("attribute12", "0"),
    ("updatable", "1"), ("carveout", "50"), ("attribute15", "0"), ("nvlink", "1"),
    ("attribute17", "0"), ("attribute77", "0"), ("attribute-1", "0"),
)  # fmt: skip
# Values on the edge of what an attribute takes, and beyond.
_EDGES = (
    ("priority", "0"), ("priority", "-5"), ("priority", "-6"), ("priority", "1"),
    ("policy", "0"), ("policy", "1"), ("policy", "2"), ("policy", "3"), ("policy", "4"),
    ("policy", "5"), ("policy", "-1"),
    ("domains", "0:0"), ("domains", "3:3"), ("domains", "0:4"), ("domains", "4:0"),
    ("domains", "255:1"),
    ("domain", "0"), ("domain", "1"), ("domain", "2"), ("domain", "-1"),
    ("window", "buffer:256:1:2:1"), ("window", "buffer:256:0:0:0"), ("window", "buffer:256:1:1:1"),
    ("window", "buffer:256:1.5:2:1"), ("window", "buffer:256:-0.5:2:1"),
    ("window", "buffer:256:1:3:1"), ("window", "buffer:256:1:2:2"), ("window", "buffer:256:1:2:3"),
    ("window", "buffer:256:1:2:0"), ("window", "inside:100:1:2:1"), ("window", "null:256:1:2:1"),
    ("window", "null:0:0:0:0"), ("window", "buffer:0:1:2:1"), ("window", "pageable:256:1:2:1"),
    ("window", "buffer:134217728:1:2:1"), ("window", "buffer:134217729:1:2:1"),
)  # fmt: skip


def _gets(stream: str, thread: str = "") -> str:
    return "; ".join(f"{thread}stream_get {stream} {name}" for name in _NAMES)


def _sets(stream: str, thread: str = "") -> str:
    return "; ".join(f"{thread}stream_set {stream} {name} {value}" for name, value in _VALUES)


def _first(stream: str) -> str:
    """Back to what a new stream has."""
    values = zip(_NAMES, ("0", "null:0:0:0:0", "1", "0:1", "0"), strict=True)
    return "; ".join(f"stream_set {stream} {name} {value}" for name, value in values)


def _read(graph: str, place: int | str, names: tuple[str, ...] = _NAMES) -> str:
    return "; ".join(f"attribute_get {graph} {place} {name}" for name in names)


_KEPT_ALONE = tuple(
    (f"a stream's {name}", f"stream_set s {name} {value}; begin s; launch s; end s g; "
     f"{_read('g', 0)}; instantiate g x; graph_launch x t; sync t")
    for name, value in _VALUES
)  # fmt: skip
_KEPT = (
    *_KEPT_ALONE,
    ("all of them", f"{_sets('s')}; begin s; launch s; end s g; {_read('g', 0)}; "
     "instantiate g x; graph_launch x s; sync s"),
    ("none of them", f"begin s; launch s; end s g; {_read('g', 0)}"),
    ("those set between two launches", f"begin s; launch s; {_sets('s')}; launch s; "
     f"end s g; {_read('g', 0)}; {_read('g', 1)}"),
    ("those that it had, set back", f"{_sets('s')}; begin s; launch s; "
     f"{_first('s')}; launch s; end s g; {_read('g', 0)}; {_read('g', 1)}"),
    ("those of a joined stream", f"{_sets('t')}; begin s; launch s; record e1 s; wait t e1; "
     f"launch t; record e2 t; wait s e2; launch s; end s g; {_read('g', 0)}; {_read('g', 1)}; "
     f"{_read('g', 2)}"),
    ("those of the stream that began, on a joined one", f"{_sets('s')}; begin s; launch s; "
     f"record e1 s; wait t e1; launch t; record e2 t; wait s e2; end s g; {_read('g', 1)}"),
    ("those copied between two launches", f"{_sets('u')}; begin s; launch s; "
     f"stream_copy_attributes s u; launch s; end s g; {_read('g', 0)}; {_read('g', 1)}"),
    ("those of a blocking stream", f"{_sets('b')}; begin b; launch b; end b g; "
     f"{_read('g', 0)}"),
    ("those set by another thread", f"{_sets('s', '@')}; begin s; "
     f"launch s; end s g; {_read('g', 0)}"),
    ("those of a ranked stream", "stream_ranked v -1; stream_set v priority -3; begin v; "
     f"launch v; end v g; {_read('g', 0)}; stream_priority v; stream_destroy v"),
    ("those that the launch names", f"{_sets('s')}; begin s; launch s priority=-4; "
     f"launch s domain=0; end s g; {_read('g', 0)}; {_read('g', 1)}"),
    ("those that the launch names, of none", "begin s; launch s priority=-4; launch s domain=1; "
     f"launch s cooperative=1; end s g; {_read('g', 0)}; {_read('g', 1)}; {_read('g', 2)}"),
    ("through a clone", f"{_sets('s')}; begin s; launch s; end s g; graph_clone g h; "
     f"{_read('h', 0)}"),
    ("a launch of cuLaunchKernel", f"{_sets('s')}; begin s; launch_plain s; end s g; "
     f"{_read('g', 0)}"),
    ("captured into a graph", f"{_sets('s')}; graph_create g; begin_to s g; launch s; "
     f"end_to s g; {_read('g', 0)}"),
    ("set anew by its parameters", f"{_sets('s')}; begin s; launch s; end s g; "
     f"node_set kernel g 0 grid=2; {_read('g', 0)}"),
)  # fmt: skip

# An executable of a capture under no attributes, given one under each, and the other way round.
_UPDATES = (
    *((name, f"begin s; launch s; end s g; stream_set s {name} {value}; begin s; launch s; "
       "end s h; instantiate g x; update x h; graph_launch x s; sync s; instantiate h y; "
       "update y g; graph_launch y s; sync s") for name, value in _VALUES),
    *((f"{name} of a node", f"graph_create g; add_kernel a g; graph_clone g h; "
       f"attribute_set h 0 {name} {value}; instantiate g x; update x h; graph_launch x s; sync s; "
       "instantiate h y; update y g; graph_launch y s; sync s") for name, value in _VALUES),
)  # fmt: skip
_OF_NODES = (
    *((f"{name} of a node", f"graph_create g; add_kernel a g; add_kernel b g a; "
       f"attribute_get g 0 {name}; attribute_set g 0 {name} {value}; attribute_get g 0 {name}; "
       f"attributes_copy g 0 1; attribute_get g 1 {name}; graph_clone g h; "
       f"attribute_get h 0 {name}; instantiate g x; graph_launch x s; sync s")
      for name, value in (*_VALUES, *_OTHERS)),
    *((f"{name} of a node, {value}", "graph_create g; add_kernel a g; "
       f"attribute_set g 0 {name} {value}; attribute_get g 0 {name}; instantiate g x")
      for name, value in _EDGES),
)  # fmt: skip
_OF_STREAMS = (
    ("what a new one has", f"{_gets('s')}; {_gets('b')}"),
    ("what a ranked one has", f"stream_ranked v -3; {_gets('v')}; stream_destroy v"),
    *((f"{name} of a stream", f"stream_get s {name}; stream_set s {name} {value}; "
       f"stream_get s {name}; stream_priority s; launch s; sync s; stream_get t {name}")
      for name, value in (*_VALUES, *_OTHERS)),
    *((f"{name} of a stream, {value}", f"stream_set s {name} {value}; stream_get s {name}; "
       "launch s; sync s") for name, value in _EDGES),
    ("copied", f"{_sets('u')}; stream_copy_attributes s u; {_gets('s')}; "
     f"stream_copy_attributes s t; {_gets('s')}; {_gets('u')}; stream_priority s"),
    ("copied to itself", f"{_sets('s')}; stream_copy_attributes s s; {_gets('s')}"),
    ("copied from a ranked one", "stream_ranked v -3; stream_copy_attributes s v; "
     f"{_gets('s')}; stream_priority s; stream_copy_attributes v t; {_gets('v')}; "
     "stream_destroy v"),
    ("copied from the legacy one", f"{_first('legacy')}; {_sets('s')}; "
     f"stream_copy_attributes s legacy; {_gets('s')}"),
)  # fmt: skip
_FIXED = (
    ("what the legacy one has", _gets('legacy')),
    ("what the per-thread one has", _gets('per_thread')),
    ("set on the legacy one", f"{_sets('legacy')}; {_gets('legacy')}; launch legacy; "
     f"sync legacy; {_gets('per_thread')}; {_gets('legacy', '@')}"),
    ("set on the per-thread one", f"{_sets('per_thread')}; {_gets('per_thread')}; "
     f"{_gets('per_thread', '@')}; begin per_thread; launch per_thread; "
     f"end per_thread g; {_read('g', 0)}"),
    ("copied to the legacy one", f"{_sets('s')}; stream_copy_attributes legacy s; "
     f"{_gets('legacy')}"),
)  # fmt: skip

SCENARIOS = (
    *(run for name, value in _VALUES if name != "policy"
      for run in placed(f"cuStreamSetAttribute of the {name}", "",
                        f"stream_set {{}} {name} {value}")),
    *(run for name in _NAMES
      for run in placed(f"cuStreamGetAttribute of the {name}", "", f"stream_ask {{}} {name}")),
    *(Scenario(f"attributes of streams: {name}", text) for name, text in _OF_STREAMS),
    *(Scenario(f"attributes of streams: {name}", text, kills=True) for name, text in _FIXED),
    *(Scenario(f"attributes of nodes: {name}", text) for name, text in _OF_NODES),
    *(Scenario(f"a captured kernel keeps: {name}", text, EVERY_MODE if name == "all of them"
               else ("THREAD_LOCAL",)) for name, text in _KEPT),
    *(Scenario(f"update: attributes, {name}", text) for name, text in _UPDATES),
)  # fmt: skip
