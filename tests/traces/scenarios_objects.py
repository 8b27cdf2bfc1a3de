"""Contexts, pointers, functions, modules, libraries; objects destroyed in flight; null handles."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario
from tests.traces.verbs_handles import NULL_CALLS

_HOLD = "begin s; launch s kernel=hold; end s g; instantiate g x; graph_launch x s"
_KERNEL = "graph_create g; add_kernel a g; instantiate g x"

_NO_CONTEXT = (
    "launch s", "alloc p", "mem_info", "stream_create v", "event_create e4", "record e1 s",
    "event_query e1", "sync s", "query s", "ctx_sync", "ctx_device", "ctx_get_limit",
    "module_load m",
    "get_function noop", "memset_async s", "copy_htod_async s", "copy_htod", "copy_dtoh", "memset",
    "host_alloc", "alloc_async p s", "begin s", "is_capturing s", "end s h", "graph_create h",
    "shape g", "add_kernel n g", "instantiate g y", "update x g", "graph_launch x s", "upload x s",
    "exec_destroy x", "graph_clone g l", "graph_destroy g", "pointer MEMORY_TYPE buffer",
    "function_attribute noop MAX_THREADS_PER_BLOCK", "occupancy noop 64", "library_load l",
    "exchange_mode RELAXED", "primary_state", "event_destroy e2", "stream_destroy u", "wait s e3",
    "elapsed t1 t2", "host_register", "pool_trim", "stream_flags s", "param_info noop 0",
    "function_loaded noop", "device_pointer pinned", "host_function s", "ctx_limit",
)  # fmt: skip

_CONTEXTS = (
    ("which is current", "ctx_get; ctx_device; primary_state"),
    ("cleared and made current again",
     "ctx_clear; ctx_get; ctx_restore; ctx_get; launch s; sync s"),
    ("pushed and popped", "ctx_push; ctx_pop; ctx_get; launch s; sync s"),
    ("popped below the last", "@ctx_clear; @ctx_pop; @ctx_get; @ctx_restore"),
    ("the primary one retained and released", "primary_retain; primary_state; primary_release; "
     "primary_state; launch s; sync s"),
    ("cleared while a stream captures", "begin s; launch s; @ctx_clear; @ctx_get; @ctx_restore; "
     "launch s; end s g"),
    ("a capture ended by a thread without one", "begin s RELAXED; launch s; @ctx_clear; @end s g; "
     "@ctx_restore; end s g"),
)  # fmt: skip

_ATTRIBUTES = ("MEMORY_TYPE", "IS_MANAGED", "DEVICE_ORDINAL", "CONTEXT", "DEVICE_POINTER",
               "HOST_POINTER", "RANGE_START_ADDR", "RANGE_SIZE", "MAPPED", "BUFFER_ID",
               "SYNC_MEMOPS")  # fmt: skip
_POINTERS = (
    ("device memory", "", "buffer"), ("inside device memory", "", "inside"),
    ("pinned memory", "", "pinned"), ("pageable memory", "", "pageable"), ("null", "", "null"),
    ("memory of the pool", "alloc_async p s; sync s", "p"),
    ("memory of a graph, not launched", "graph_create g; add_alloc n g p", "p"),
    ("memory of a graph, launched", "graph_create g; add_alloc n g p; instantiate g x; "
     "graph_launch x s; sync s", "p"),
)  # fmt: skip

_FUNCTIONS = (
    ("its parameters", "; ".join(f"param_info noop {n}" for n in range(5)) + "; param_info hold 0; "
     "param_info hold 1"),
    ("its name", "function_name noop; function_name hold"),
    ("loaded", "function_loaded noop; function_load noop; function_loaded noop"),
    ("attributes", "; ".join(f"function_attribute noop {name}" for name in (
        "MAX_THREADS_PER_BLOCK", "SHARED_SIZE_BYTES", "MAX_DYNAMIC_SHARED_SIZE_BYTES"))),
    ("attributes, after they were set", "allow_shared noop 65536; "
     "function_attribute noop MAX_DYNAMIC_SHARED_SIZE_BYTES; allow_shared noop 1024; "
     "function_attribute noop MAX_DYNAMIC_SHARED_SIZE_BYTES; launch s shared=2048; "
     "allow_shared noop 49152"),
    ("a negative attribute", "allow_shared noop -1; "
     "function_attribute noop MAX_DYNAMIC_SHARED_SIZE_BYTES"),
    ("occupancy", "occupancy noop 32; occupancy noop 1024; occupancy noop 1025; occupancy noop 0; "
     "occupancy noop 32 49152; occupancy noop 32 300000"),
    ("a name that is not there", "get_function nothing"),
)  # fmt: skip

_LIBRARIES = (
    ("a module loaded twice", "module_load m; module_load n; module_function m noop; "
     "module_function n noop; module_unload m; module_unload n"),
    ("a module's missing name", "module_load m; module_function m nothing; module_unload m"),
    ("a library's kernel launched", "library_load l; library_function l noop; launch s; "
     "library_module l; library_unload l"),
    ("a library's missing kernel", "library_load l; library_function l nothing; library_unload l"),
    ("a library loaded twice", "library_load l; library_load k; library_function l noop; "
     "library_function k noop; library_unload l; library_unload k"),
    ("a library loaded by another thread", "@library_load l; library_function l noop; "
     "@library_unload l"),
    ("a kernel of a library, its attributes", "library_load l; library_function l noop; "
     "function_attribute l.noop MAX_THREADS_PER_BLOCK; param_info l.noop 0; function_name l.noop; "
     "function_loaded l.noop"),
)  # fmt: skip

_IN_FLIGHT = (
    ("the graph", "graph_destroy g"), ("the executable", "exec_destroy x"),
    ("the executable and the graph", "exec_destroy x; graph_destroy g"),
    ("the stream", "stream_destroy s"), ("an event behind it", "record e1 s; event_destroy e1"),
    ("an event that a stream waits for", "record e1 s; wait t e1; event_destroy e1; query t"),
    ("a waiting stream", "record e1 s; wait t e1; launch t; stream_destroy t; event_query e1"),
    ("the executable, then another launched", "exec_destroy x; graph_create h; add_kernel b h; "
     "instantiate h y; graph_launch y s; query s"),
    ("the same executable launched again", "graph_launch x t; query t"),
    ("a node of the graph", "node_set kernel g 0 grid=1; update x g; query s"),
    ("another stream's work", "graph_create h; add_kernel b h; instantiate h y; graph_launch y t; "
     "sync t; query t; query s"),
    ("a second thread's launch behind it", "graph_create h; add_kernel b h; instantiate h y; "
     "@graph_launch y s; @query s"),
    ("a capture of the busy stream", "begin s; launch s; end s h; query s"),
    ("a capture that waits for the busy stream",
     "record e1 s; begin t; wait t e1; end t h; query s"),
    ("an event recorded twice", "record e1 s; record e1 t; sync t; event_query e1; event_sync e1"),
    ("elapsed over it",
     "record t1 t; sync t; record t2 s; elapsed t1 t2; event_query t1; event_query t2"),
)  # fmt: skip

_STREAMS = (
    ("flags", "stream_flags s; stream_flags b; stream_flags legacy; stream_flags per_thread"),
    ("priority", "stream_priority s; stream_priority b; stream_priority legacy"),
    ("rows copied", "copy_rows_async s 64 2; copy_rows_async s 256 1; copy_rows_async s 257 2; "
     "copy_rows_async s 0 2; copy_rows_async s 64 0; copy_rows_async s 64 100; sync s"),
    ("rows set", "fill_rows_async s 64 2; fill_rows_async s 0 2; fill_rows_async s 64 0; "
     "fill_rows_async s 257 2; sync s"),
    ("any to any", "copy_any_async s; copy_any_async legacy; copy_dtod; sync s"),
    ("a capture of copies by addresses alone", "begin s; copy_of s buffer pinned; "
     "copy_of s pinned buffer; copy_of s pageable buffer; copy_of s pinned pinned; end s g; "
     "node_get memcpy g 0; node_get memcpy g 1; node_get memcpy g 2; node_get memcpy g 3"),
    ("a capture of rows", "begin s; copy_rows_async s 64 2; fill_rows_async s 64 2; "
     "copy_any_async s; end s g; node_get memcpy g 0; node_get memset g 0; instantiate g x; "
     "graph_launch x s; sync s"),
    ("a capture of one row and of none", "begin s; copy_rows_async s 64 1; fill_rows_async s 64 1; "
     "copy_rows_async s 0 2; fill_rows_async s 0 2; end s g; node_get memcpy g 0; "
     "node_get memset g 0"),
    ("host pointers", "device_pointer pinned; device_pointer pageable; device_pointer null; "
     "device_pointer buffer"),
    ("ranges", "range_of buffer; range_of inside; range_of pinned; range_of pageable; "
     "range_of null"),
)  # fmt: skip

_FREE_THREAD = (
    "launch {}; sync {}", "memset_async {}; sync {}; query {}", "record e1 {}; event_sync e1",
    "copy_dtod_async {}; sync {}", "host_function {}; sync {}",
    "alloc_async p {}; free_async p {}; sync {}",
)  # fmt: skip

SCENARIOS = (
    *(Scenario(f"no context: {step.split()[0]}", f"{_KERNEL}; @ctx_clear; @{step}; @ctx_restore; "
               f"sync s") for step in _NO_CONTEXT),
    *(Scenario(f"context: {name}", text) for name, text in _CONTEXTS),
    *(Scenario(f"pointer: {name}", "; ".join(
        [before, *(f"pointer {attribute} {target}" for attribute in _ATTRIBUTES),
         f"pointers {target}"])) for name, before, target in _POINTERS),
    Scenario("pointer: while a stream captures", "begin s; launch s; pointer MEMORY_TYPE buffer; "
             "pointers pinned; range_of buffer; device_pointer pinned; alloc_async p s; "
             "pointer MEMORY_TYPE p; end s g", EVERY_MODE),
    *(Scenario(f"function: {name}", text) for name, text in _FUNCTIONS),
    *(Scenario(f"module and library: {name}", text) for name, text in _LIBRARIES),
    *(Scenario(f"in flight, destroyed or used: {name}", f"{_HOLD}; {text}; release; ctx_sync")
      for name, text in _IN_FLIGHT),
    *(Scenario(f"calls without a handle: {call}", f"null {call}; launch s; sync s")
      for call in NULL_CALLS),
    *(Scenario(f"stream: {name}", text) for name, text in _STREAMS),
    *(Scenario(f"default stream {stream}, by {who}: {text.split()[0]}",
               "; ".join(f"{mark}{step.strip()}" for step in text.replace("{}", stream).split(";")))
      for stream in ("legacy", "per_thread")
      for who, mark in (("this thread", ""), ("another", "@"))
      for text in _FREE_THREAD),
)  # fmt: skip
