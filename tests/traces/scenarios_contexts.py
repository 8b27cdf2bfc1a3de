"""Several contexts: made, current, destroyed; calls that have nothing but the current one to go by.

`c` is a context of the scenario's own; `c.x` was made under it. `home` is the device's.
"""

from __future__ import annotations

from tests.traces.scenario import Scenario

OURS = ("alloc p; module_load m; take_function k m noop; timer_create o; record e3 s; "
         "record o s; sync s")  # fmt: skip
THEIRS = ("ctx_create c; stream_create c.v; event_create c.e; event_create c.d; timer_create c.o; "
      "alloc c.p; module_load c.m; take_function c.k c.m noop; record c.d c.v; record c.o c.v; "
      "sync c.v; ctx_drop")  # fmt: skip
# With nothing but the current context to go by.
_BARE = (
    "launch legacy", "launch per_thread", "launch s", "alloc q", "free p", "mem_info", "ctx_sync",
    "ctx_device", "ctx_flags", "stack_get", "stack_set 2048", "ctx_which", "ctx_drop",
    "stream_create v", "event_create e4", "module_load n", "take_function f m noop", "host_alloc",
    "host_register", "copy_htod", "memset", "fill_of legacy p", "sync s", "sync legacy", "query s",
    "record e1 s", "event_query e3", "begin s", "is_capturing s", "graph_create g",
    "graph_launch y s", "instantiate f y2", "pool_trim", "alloc_async q s", "alloc_async q legacy",
    "pointer MEMORY_TYPE p", "exchange_mode RELAXED", "library_load l", "primary_state",
    "occupancy k 64", "stream_ctx legacy", "ctx_id c", "ctx_version c", "ctx_create d",
    "event_destroy e1", "stream_destroy u", "stream_destroy c.v",
)  # fmt: skip
BARE = "graph_create f; add_kernel fa f; instantiate f y"

_THEMSELVES = (
    ("made", "ctx_create c; ctx_which; ctx_device; ctx_flags; ctx_version c; ctx_id c; "
     "ctx_id home; ctx_id c; ctx_drop; ctx_which; ctx_destroy c; ctx_which"),
    ("made with flags", "ctx_create c 1; ctx_flags; ctx_create d 2; ctx_flags; ctx_create f 4; "
     "ctx_flags; ctx_create h 3; ctx_create k 1024; ctx_which"),
    ("made on no device", "ctx_create c 0 99; ctx_create c 0 -1; ctx_which"),
    ("its flags set", "ctx_create c; ctx_set_flags 2; ctx_flags; ctx_use home; ctx_flags; "
     "ctx_set_flags 1024"),
    ("its limits are its own", "ctx_create c; stack_get; stack_set 4096; stack_get; ctx_use home; "
     "stack_get"),
    ("pushed and popped", "ctx_create c; ctx_put home; ctx_which; ctx_put c; ctx_which; "
     "ctx_drop; ctx_drop; ctx_drop; ctx_which"),
    ("pushed twice", "ctx_create c; ctx_put c; ctx_drop; ctx_drop; ctx_which"),
    ("none pushed", "ctx_put none; ctx_which; ctx_drop; ctx_which"),
    ("all popped", "ctx_drop; ctx_drop; ctx_which; ctx_use home; ctx_which"),
    ("none made current on a stack of two", "ctx_create c; ctx_use none; ctx_which; ctx_drop; "
     "ctx_which"),
    ("current in two threads", "ctx_create c; @ctx_use c; @ctx_which; @stream_create c.v; "
     "launch c.v; @sync c.v; ctx_use home; @ctx_which; @ctx_use home"),
    ("destroyed while current", "ctx_create c; ctx_destroy c; ctx_which; ctx_device; mem_info"),
    ("destroyed below the current one", "ctx_create c; ctx_put home; ctx_destroy c; ctx_which; "
     "ctx_drop; ctx_which; ctx_drop; ctx_which"),
    ("destroyed while another thread has it", "ctx_create c; ctx_drop; @ctx_use c; ctx_destroy c; "
     "@ctx_which; @ctx_device; @mem_info; @ctx_drop; @ctx_which; @ctx_use home; @ctx_which"),
    ("destroyed by another thread", "ctx_create c; @ctx_destroy c; ctx_which; ctx_device; "
     "ctx_drop; ctx_which"),
    ("destroyed, then used", "ctx_create c; ctx_drop; ctx_destroy c; ctx_use c; ctx_which; "
     "ctx_put c; ctx_version c; ctx_id c; ctx_which"),
    ("destroyed twice", "ctx_create c; ctx_drop; ctx_destroy c; ctx_destroy c"),
    ("none destroyed", "ctx_destroy none; ctx_which"),
    ("the primary one destroyed", "ctx_destroy home; ctx_which; launch s; sync s"),
    ("destroyed with work in flight", "ctx_create c; stream_create c.v; module_load c.m; "
     "take_function c.k c.m noop; launch c.v kernel=c.k; record e1 s; ctx_destroy c; ctx_which; "
     "launch s; sync s"),
    ("work of two", f"{THEIRS}; launch c.v kernel=c.k; launch s; sync c.v; sync s; ctx_sync"),
    ("cuCtxSynchronize waits for the current one's work",
     f"{THEIRS}; launch s kernel=hold; ctx_use c; launch c.v kernel=c.k; ctx_sync; query c.v; "
     "ctx_use home; query s; release; sync s"),
    ("the legacy streams of two", f"{THEIRS}; launch b kernel=hold; ctx_use c; "
     "launch legacy kernel=c.k; sync legacy; query legacy; ctx_use home; query legacy; query b; "
     "release; sync b; query legacy"),
    ("the per-thread streams of two", f"{THEIRS}; launch per_thread; ctx_use c; "
     "launch per_thread kernel=c.k; sync per_thread; ctx_use home; sync per_thread"),
    ("the primary one retained again", "primary_same; primary_state; primary_release; "
     "primary_state; ctx_which"),
    ("flags of the primary one while it is active", "primary_flags 4; ctx_flags; primary_flags 0; "
     "ctx_flags; primary_flags 1024"),
)  # fmt: skip

_PRIMARY = (
    ("reset", "primary_reset; primary_state; ctx_which; ctx_device; mem_info"),
    ("reset, then retained", "primary_reset; primary_same; primary_state; ctx_use home; "
     "ctx_which; alloc q; stream_create v; launch v; mem_info"),
    ("let go", "primary_let_go; primary_state; ctx_which; mem_info; primary_let_go"),
    ("let go, then retained", "primary_let_go; primary_same; primary_state; ctx_which; "
     "ctx_use home; alloc q; mem_info"),
    ("let go while another is there", "ctx_create c; stream_create c.v; primary_let_go; "
     "primary_state; ctx_which; query c.v; alloc c.p; mem_info"),
    ("let go, its flags set then", "primary_let_go; primary_flags 4; primary_same; ctx_use home; "
     "ctx_flags"),
)  # fmt: skip

SCENARIOS = (
    *(Scenario(f"contexts: the current one destroyed by another thread, {step}",
               f"{BARE}; {OURS}; {THEIRS}; @ctx_use c; ctx_destroy c; @{step}; @ctx_use home; "
               "launch s; sync s", apart=True) for step in _BARE),
    *(Scenario(f"contexts: {name}", text) for name, text in _THEMSELVES),
    *(Scenario(f"contexts: the primary one {name}", text, kills=True) for name, text in _PRIMARY),
)  # fmt: skip
