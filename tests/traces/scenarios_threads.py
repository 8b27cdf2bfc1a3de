"""Calls of another host thread while one captures, and captures that cross threads."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, GLOBAL, RELAXED, Scenario, in_window

_HELD = "begin s; launch s; end s h; instantiate h x"

_CALLS = (
    ("cuMemAlloc", "", "@alloc p"),
    ("cuMemFree", "alloc p", "@free p"),
    ("cuMemHostAlloc", "", "@host_alloc"),
    ("cuMemAllocAsync on another stream", "", "@alloc_async p t"),
    ("cuMemFreeAsync on the legacy stream", "alloc_async p t; sync t", "@free_async p legacy"),
    ("cuEventQuery, recorded before and done", "record e1 t; sync t", "@event_query e1"),
    ("cuEventSynchronize, recorded before and done", "record e1 t; sync t", "@event_sync e1"),
    ("cuStreamSynchronize of another stream", "", "@sync t"),
    ("cuStreamQuery of another stream", "", "@query t"),
    ("cuStreamSynchronize of the capturing stream", "", "@sync s"),
    ("cuStreamQuery of the capturing stream", "", "@query s"),
    ("cuCtxSynchronize", "", "@ctx_sync"),
    ("launch on the legacy stream", "", "@launch legacy"),
    ("launch on another stream", "", "@launch t"),
    ("launch on the capturing stream", "", "@launch s"),
    ("illegal launch on the capturing stream", "", "@launch s block=4096"),
    ("cuModuleLoadData", "", "@module_load m"),
    ("cuModuleUnload", "module_load m", "@module_unload m"),
    ("cuMemcpyHtoD", "", "@copy_htod"),
    ("cuMemsetD8", "", "@memset"),
    ("cuGraphInstantiate", "begin s; launch s; end s h", "@instantiate h x"),
    ("cuGraphLaunch on another stream", _HELD, "@graph_launch x t"),
    ("cuGraphExecDestroy", _HELD, "@exec_destroy x"),
    ("cuStreamBeginCapture of the capturing stream", "", "@begin s"),
    ("cuStreamGetCaptureInfo", "", "@capture_info s"),
    ("cuEventQuery of an event in the capture", "", "record e1 s; @event_query e1"),
)

SCENARIOS = (
    *(
        found
        for name, before, call in _CALLS
        for found in in_window([(f"other thread: {name}", call)], before)
    ),
    Scenario("other thread ends the capture", "begin s; launch s; @end s; end s", EVERY_MODE),
    Scenario("other thread ends an invalidated capture", "begin s; launch s; ctx_sync; @end s; "
             "end s", EVERY_MODE),
    Scenario("begun by another thread, ended by this one", "@begin s; @launch s; launch s; end s; "
             "@end s", EVERY_MODE),
    Scenario("other thread relaxed its own mode before cuMemAlloc",
             "@exchange_mode RELAXED; begin s; launch s; @alloc p; launch s; end s; "
             "@exchange_mode GLOBAL", EVERY_MODE),
    Scenario("a global and a relaxed capture in two threads",
             f"begin s {GLOBAL}; @begin t {RELAXED}; launch s; @launch t; @alloc p; launch s; "
             "end s; @end t h"),
    Scenario("a relaxed capture here, a global one in another thread, cuMemAlloc here",
             f"begin s {RELAXED}; @begin t {GLOBAL}; launch s; @launch t; alloc p; end s; "
             "@end t h"),
    *(
        Scenario(f"other thread: {name} while a blocking stream captures",
                 f"begin b; launch b; @{step}; launch b; end b h", modes=EVERY_MODE)
        for name, step in (("launch on the legacy stream", "launch legacy"),
                           ("cuMemcpyHtoD", "copy_htod"), ("cuMemsetD8", "memset"))
    ),
)  # fmt: skip
