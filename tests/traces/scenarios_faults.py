"""Sticky errors. Each scenario poisons its context, so it runs in a process of its own.

The faulting kernel waits behind a held one, so that which call meets the fault is no race.
"""

from __future__ import annotations

from tests.traces.scenario import Scenario

_AFTER = (
    "launch s; alloc p; mem_info; stream_create v; event_create e4; record e1 s; event_query e1; "
    "sync t; ctx_sync; get_function noop; module_load m; memset_async s; copy_htod; begin s; "
    "is_capturing s"
)


def _stray(stream: str) -> str:
    return f"launch {stream} kernel=hold; launch {stream} kernel=stray_store"


SCENARIOS = (
    Scenario("fault: a stray store, seen at the sync", f"{_stray('s')}; release_sync s; {_AFTER}",
             kills=True),
    Scenario("fault: a stray store in a graph", f"begin s; {_stray('s')}; end s g; "
             "instantiate g x; graph_launch x s; release_sync s; graph_launch x s; update x g; "
             "exec_destroy x; graph_destroy g", kills=True),
    Scenario("fault: a stray store while another stream captures",
             f"begin s RELAXED; launch s; {_stray('t')}; release_sync t; launch s; end s g",
             kills=True),
    Scenario("fault: seen by the other thread too", f"{_stray('s')}; release_sync s; @sync t; "
             "@alloc p", kills=True),
)  # fmt: skip
