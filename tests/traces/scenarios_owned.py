"""Objects that belong to a context: of another one, of a destroyed one, and in captures of ours.

`c` is a context of the scenario's own; `c.x` was made under it. `home` is the device's.
"""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario
from tests.traces.scenarios_contexts import BARE, OURS, THEIRS

# What a call names: stream, kernel, event never recorded, event recorded, with timing, memory,
# module, context. Small letters are the object asked about, capitals what the other side has.
_OF_C = {"v": "c.v", "k": "c.k", "e": "c.e", "d": "c.d", "o": "c.o", "p": "c.p", "m": "c.m",
           "c": "c"}  # fmt: skip
_OF_HOME = {"v": "s", "k": "k", "e": "e1", "d": "e3", "o": "o", "p": "p", "m": "m", "c": "home"}

_CALLS = (
    ("launch", "launch {v} kernel={k}; sync {v}"),
    ("launch of the other's kernel", "launch {v} kernel={K}; sync {v}"),
    ("launch on the other's stream", "launch {V} kernel={k}; sync {V}"),
    ("launch on the legacy stream", "launch legacy kernel={k}; sync legacy"),
    ("launch on the per-thread stream", "launch per_thread kernel={k}; sync per_thread"),
    ("memset", "fill_of {v} {p}; fill_of {v} {P}; fill_of {V} {p}; fill_of legacy {p}; sync {v}"),
    ("memset at once", "fill_now {p}; copy_now {p} {P}; copy_now {P} {p}"),
    ("copy", "copy_of {v} {p} {P}; copy_of {V} {P} {p}; copy_of {v} {p} pinned; sync {v}"),
    ("copy between contexts", "copy_peer {v} {p} {c} {P} {C}; copy_peer {V} {p} {c} {P} {C}; "
     "copy_peer {V} {p} {C} {P} {c}; sync {v}"),
    ("host function", "host_function {v}; sync {v}"),
    ("memory of the pool", "alloc_async q {v}; sync {v}; pointer_ctx q; fill_of {V} q; "
     "free_async q {V}; sync {V}"),
    ("cuMemFreeAsync of its memory", "free_async {p} {V}; sync {V}"),
    ("cuMemFree", "free {p}"),
    ("cuEventRecord", "record {e} {v}; record {E} {v}; record {e} {V}; record {e} legacy"),
    ("cuStreamWaitEvent", "wait {v} {d}; wait {V} {d}; wait {v} {D}; wait {V} {e}; "
     "wait legacy {d}"),
    ("cuEventQuery", "event_query {d}; event_query {e}; event_sync {d}"),
    ("cuEventElapsedTime", "elapsed {o} {o}; elapsed {o} {O}; elapsed {O} {o}"),
    ("cuStreamSynchronize", "sync {v}; query {v}"),
    ("cuStreamGetCtx", "stream_ctx {v}; stream_ctx legacy; stream_ctx per_thread"),
    ("cuStreamGetFlags", "stream_flags {v}; stream_priority {v}"),
    ("cuStreamIsCapturing", "is_capturing {v}; capture_info {v}"),
    ("capture", "begin {v}; launch {v} kernel={k}; is_capturing {v}; end {v} g; instantiate g x; "
     "graph_launch x {v}; graph_launch x {V}; sync {v}; sync {V}"),
    ("capture of the other's kernel", "begin {v}; launch {v} kernel={K}; launch {v} kernel={k}; "
     "end {v} g"),
    ("capture of copies", "begin {v}; fill_of {v} {P}; copy_of {v} {p} {P}; end {v} g; "
     "instantiate g x; graph_launch x {v}; sync {v}"),
    ("capture of an allocation", "begin {v}; alloc_async q {v}; launch {v} kernel={k}; "
     "free_async q {v}; end {v} g; instantiate g x; graph_launch x {V}; sync {V}"),
    ("capture with a fork to the other's stream", "begin {v}; launch {v} kernel={k}; "
     "record {e} {v}; wait {V} {e}; launch {V} kernel={K}; record {E} {V}; wait {v} {E}; "
     "launch {v} kernel={k}; end {v} g; instantiate g x; graph_launch x {v}; graph_launch x {V}; "
     "sync {v}; sync {V}"),
    ("a graph of its kernel", "graph_create g; add_kernel_of a g {k}; kernel_ctx g 0; "
     "instantiate g x; upload x {V}; graph_launch x {V}; graph_launch x {v}; sync {v}; sync {V}; "
     "update x g; exec_destroy x"),
    ("a graph of both kernels", "graph_create g; add_kernel_of a g {k}; add_kernel_of b g {K} a; "
     "kernel_ctx g 1; instantiate g x; graph_launch x {v}; graph_launch x {V}; sync {v}; sync {V}"),
    ("a kernel node set to the other's kernel", "graph_create g; add_kernel_of a g {k}; "
     "instantiate g x; node_kernel_of a {K}; kernel_ctx g 0; update x g; graph_launch x {v}; "
     "sync {v}"),
    ("an executable's kernel set to the other's", "graph_create g; add_kernel_of a g {k}; "
     "instantiate g x; exec_kernel_of x a {K}; exec_kernel_of x a {k}; graph_launch x {v}; "
     "sync {v}"),
    ("an update to the other's kernel", "graph_create g; add_kernel_of a g {k}; instantiate g x; "
     "graph_create h; add_kernel_of b h {K}; update x h; graph_launch x {v}; sync {v}"),
    ("memset nodes", "graph_create g; add_fill_of a g {p} {c}; add_fill_of b g {p} {C}; "
     "add_fill_of d g {P} {c}; add_fill_of f g {p} none; instantiate g x; graph_launch x {v}; "
     "sync {v}"),
    ("a memset node set in an executable", "graph_create g; add_fill_of a g {p} {c}; "
     "instantiate g x; exec_fill_of x a {P} {C}; exec_fill_of x a {p} {C}; "
     "exec_fill_of x a {P} {c}; exec_fill_of x a {p} none; graph_launch x {v}; sync {v}"),
    ("an update to the other's memset", "graph_create g; add_fill_of a g {p} {c}; "
     "instantiate g x; graph_create h; add_fill_of b h {p} {C}; update x h; graph_create k; "
     "add_fill_of d k {P} {c}; update x k; graph_launch x {v}; sync {v}"),
    ("memcpy nodes", "graph_create g; add_copy_of a g {p} {P} {c}; add_copy_of b g {P} {p} {C}; "
     "add_copy_of d g {p} pinned {c}; add_copy_of f g {p} {P} none; instantiate g x; "
     "graph_launch x {v}; sync {v}"),
    ("a memcpy node set in an executable", "graph_create g; add_copy_of a g {p} {p} {c}; "
     "instantiate g x; exec_copy_of x a {P} {P} {C}; exec_copy_of x a {P} {p} {c}; "
     "exec_copy_of x a {p} {p} {C}; graph_launch x {v}; sync {v}"),
    ("an update to the other's memcpy", "graph_create g; add_copy_of a g {p} {p} {c}; "
     "instantiate g x; graph_create h; add_copy_of b h {P} {P} {C}; update x h; graph_create k; "
     "add_copy_of d k {P} {p} {c}; update x k; graph_launch x {v}; sync {v}"),
    ("event nodes", "graph_create g; add_wait a g {d}; add_record b g {e} a; instantiate g x; "
     "graph_launch x {v}; graph_launch x {V}; sync {v}; sync {V}; event_query {e}"),
    ("event nodes captured", "begin {v}; record_external {E} {v}; wait_external {v} {D}; "
     "end {v} g; instantiate g x; graph_launch x {v}; sync {v}"),
    ("a condition's handle", "graph_create g; handle_in g {c}; handle_in g {C}; handle_in g none"),
    ("an allocation node", "graph_create g; add_alloc a g q; instantiate g x; graph_launch x {v}; "
     "sync {v}; pointer_ctx q; free_async q {V}; sync {V}"),
    ("cuModuleGetFunction", "take_function f {m} noop; take_function f {m} nothing"),
    ("cuModuleUnload", "module_unload {m}; param_info {k} 0"),
    ("what a kernel tells", "param_info {k} 0; function_attribute {k} MAX_THREADS_PER_BLOCK; "
     "function_loaded {k}; function_name {k}; function_load {k}; allow_shared {k} 1024; "
     "occupancy {k} 64"),
    ("what a pointer tells", "pointer_ctx {p}; pointer MEMORY_TYPE {p}; range_of {p}; "
     "pointer_ctx pinned"),
    ("cuEventDestroy", "event_destroy {e}; event_destroy {d}"),
    ("cuStreamDestroy", "stream_destroy {v}"),
    ("peers", "peer_enable {c}; peer_enable {C}; peer_disable {c}"),
)  # fmt: skip


def _fill(text: str, these: dict[str, str], those: dict[str, str]) -> str:
    return text.format(**these, **{key.upper(): value for key, value in those.items()})


# Of a destroyed context: the calls that can be made of it alone.
_GONE = tuple((name, text) for name, text in _CALLS if name not in (
    "launch of the other's kernel", "peers", "an update to the other's memset",
    "an update to the other's memcpy", "an executable's kernel set to the other's",
    "a memset node set in an executable", "a memcpy node set in an executable"))  # fmt: skip

# While s captures at home; the call is made under c.
_MEANWHILE = (
    "alloc c.q", "free c.p", "ctx_sync", "sync c.v", "query c.v", "sync s", "query s",
    "event_query c.d", "event_sync c.d", "event_query c.e", "launch legacy kernel=c.k",
    "launch c.v kernel=c.k", "launch s kernel=c.k", "launch s", "fill_now c.p", "fill_of s c.p",
    "copy_now c.p p", "module_load c.n", "module_unload c.m", "stack_set 2048",
    "stream_create c.w", "stream_destroy c.v", "event_destroy c.e", "host_alloc", "pool_trim",
    "wait s c.d", "wait s c.e", "record c.e s", "wait c.v e3", "alloc_async c.q c.v",
    "alloc_async q s", "free_async c.p c.v", "instantiate f z", "graph_launch y c.v", "begin c.v",
    "record e1 s; wait c.v e1; launch c.v kernel=c.k; record c.e c.v; wait s c.e",
    "ctx_create d; ctx_drop; ctx_destroy d", "mem_info", "take_function f2 c.m noop",
)  # fmt: skip
_LEGACY = ("launch legacy kernel=c.k", "fill_now c.p", "copy_now c.p p", "sync legacy",
           "query legacy", "record c.e legacy", "wait legacy c.d", "is_capturing legacy",
           "fill_of legacy c.p", "alloc_async c.q legacy", "begin legacy")  # fmt: skip

_LIFETIMES = (
    ("a graph of its kernel, instantiated", "graph_create g; add_kernel_of a g c.k; "
     "ctx_destroy c; instantiate g x; shape g; graph_clone g h"),
    ("a graph of its kernel, destroyed", "graph_create g; add_kernel_of a g c.k; "
     "ctx_destroy c; graph_destroy g"),
    ("an executable of its kernel, launched", "graph_create g; add_kernel_of a g c.k; "
     "instantiate g x; ctx_destroy c; graph_launch x s; sync s"),
    ("an executable of its kernel, updated", "graph_create g; add_kernel_of a g c.k; "
     "instantiate g x; ctx_destroy c; update x g"),
    ("an executable of its kernel, destroyed", "graph_create g; add_kernel_of a g c.k; "
     "instantiate g x; ctx_destroy c; exec_destroy x; graph_destroy g"),
    ("an executable of its memset, launched", "graph_create g; add_fill_of a g c.p c; "
     "instantiate g x; ctx_destroy c; graph_launch x s; sync s"),
    ("an executable of our memset of its memory, launched", "graph_create g; "
     "add_fill_of a g c.p home; instantiate g x; graph_launch x s; sync s"),
    ("an executable made under it, of our kernel", "ctx_use c; graph_create g; add_kernel a g; "
     "instantiate g x; ctx_use home; ctx_destroy c; graph_launch x s; sync s; update x g; "
     "exec_destroy x; graph_destroy g"),
    ("an executable launched in its stream, in flight", "graph_create g; add_kernel a g; "
     "instantiate g x; graph_launch x c.v; ctx_destroy c; graph_launch x s; sync s"),
    ("a graph captured in its stream", "ctx_use c; begin c.v; launch c.v kernel=c.k; end c.v g; "
     "ctx_use home; ctx_destroy c; shape g; instantiate g x"),
    ("its stream captures", "ctx_use c; begin c.v; launch c.v kernel=c.k; ctx_use home; "
     "ctx_destroy c; launch s; sync s; alloc q"),
    ("its stream captures with our kernels", "begin c.v; launch c.v; ctx_destroy c; alloc q; "
     "launch s; sync s"),
    ("its stream has joined a capture", "begin s; launch s; record e1 s; wait c.v e1; "
     "launch c.v kernel=c.k; ctx_destroy c; launch s; end s g"),
    ("a capture goes on elsewhere", "begin s; launch s; ctx_destroy c; launch s; end s g"),
    ("a capture waits for its event", "begin s; launch s; record c.e s; ctx_destroy c; launch s; "
     "end s g"),
    ("our stream has waited for its event", "record c.e c.v; wait s c.e; ctx_destroy c; "
     "launch s; sync s"),
    ("our event was recorded in its stream", "record e1 c.v; ctx_destroy c; event_query e1; "
     "event_sync e1; wait s e1; record e1 s; sync s; event_query e1"),
    ("our event was recorded in its capture", "begin c.v; record e1 c.v; ctx_destroy c; "
     "event_query e1; wait s e1; record e1 s; sync s; event_query e1"),
    ("memory of its pool allocation", "alloc_async q c.v; sync c.v; ctx_destroy c; fill_of s q; "
     "free_async q s; sync s"),
    ("its own memory is freed with it", "ctx_destroy c; pointer MEMORY_TYPE c.p; range_of c.p"),
    ("its pinned memory", "ctx_use c; host_alloc; ctx_use home; ctx_destroy c; launch s; sync s"),
    ("a node's event", "graph_create g; add_record a g c.e; ctx_destroy c; shape g"),
    ("a user object of a graph", "graph_create g; object_create o; graph_retain g o 1 1; "
     "ctx_destroy c; graph_destroy g"),
)  # fmt: skip

# The host device runs what a real driver dies of.
_MAY_FAULT = ("an executable of its kernel, launched", "an executable of its memset, launched")

SCENARIOS = (
    *(Scenario(f"contexts: another one's, {name}", f"{OURS}; {THEIRS}; "
               f"{_fill(text, _OF_C, _OF_HOME)}; ctx_which") for name, text in _CALLS),
    *(Scenario(f"contexts: ours, under another one, {name}", f"{OURS}; {THEIRS}; ctx_use c; "
               f"{_fill(text, _OF_HOME, _OF_C)}; ctx_which") for name, text in _CALLS),
    *(Scenario(f"contexts: ours, by a thread under another one, {name}",
               f"{OURS}; {THEIRS}; @ctx_use c; " + "; ".join(
                   f"@{step.strip()}" for step in _fill(text, _OF_HOME, _OF_C).split(";")))
      for name, text in _CALLS[:1] + _CALLS[21:22] + _CALLS[25:29]),
    *(Scenario(f"contexts: a destroyed one's, {name}", f"{OURS}; {THEIRS}; ctx_destroy c; "
               f"{_fill(text, _OF_C, _OF_HOME)}; ctx_which", apart=True) for name, text in _GONE),
    *(Scenario(f"contexts: in a capture, under another one, {step}",
               f"{BARE}; {OURS}; {THEIRS}; begin s; launch s; ctx_use c; {step}; "
               "ctx_use home; launch s; end s g", EVERY_MODE) for step in _MEANWHILE),
    *(Scenario(f"contexts: in a capture, by a thread under another one, {step}",
               f"{BARE}; {OURS}; {THEIRS}; @ctx_use c; begin s; launch s; @{step}; launch s; "
               "end s g", EVERY_MODE) for step in _MEANWHILE if ";" not in step),
    *(Scenario(f"contexts: in a blocking capture, under another one, {step}",
               f"{OURS}; {THEIRS}; begin b; launch b; ctx_use c; {step}; ctx_use home; launch b; "
               "end b g", EVERY_MODE) for step in _LEGACY),
    *(Scenario(f"contexts: destroyed, {name}", f"{THEIRS}; {text}; ctx_which", apart=True,
               kills=name in _MAY_FAULT) for name, text in _LIFETIMES),
)  # fmt: skip
