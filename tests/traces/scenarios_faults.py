"""Sticky errors. Each scenario poisons its context, so it runs in a process of its own."""

from __future__ import annotations

from tests.traces.scenario import Scenario

_AFTER = (
    "launch s; alloc p; mem_info; stream_create v; event_create e4; record e1 s; event_query e1; "
    "sync t; ctx_sync; get_function noop; module_load m; memset_async s; copy_htod; begin s; "
    "is_capturing s"
)
_STRAY = "launch s kernel=stray_store"

SCENARIOS = (
    Scenario("fault: a stray store, seen at the sync", f"{_STRAY}; sync s; {_AFTER}", kills=True),
    Scenario("fault: a stray store in a graph", f"begin s; launch s; {_STRAY}; end s g; "
             "instantiate g x; graph_launch x s; sync s; graph_launch x s; update x g; "
             "exec_destroy x; graph_destroy g", kills=True),
    Scenario("fault: a stray store while another stream captures",
             "begin s RELAXED; launch s; launch t kernel=stray_store; sync t; launch s; end s g",
             kills=True),
    Scenario("fault: seen by the other thread too", f"{_STRAY}; sync s; @sync t; @alloc p",
             kills=True),
)  # fmt: skip
