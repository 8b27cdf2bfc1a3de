"""Forks and joins, captures that meet, and blocking streams: codes 902 to 906."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario

_FORK = "begin s; launch s; record e1 s; wait t e1; launch t"
_JOIN = "record e2 t; wait s e2"

_LEGACY = (
    ("launch on the legacy stream", "launch legacy"),
    ("cuMemcpyHtoD", "copy_htod"),
    ("cuMemcpyDtoH", "copy_dtoh"),
    ("cuMemsetD8", "memset"),
    ("cuMemsetD8Async on the legacy stream", "memset_async legacy"),
    ("cuModuleLoadData", "module_load m"),
    ("cuStreamIsCapturing of the legacy stream", "is_capturing legacy"),
    ("cuStreamQuery of the legacy stream", "query legacy"),
    ("cuStreamSynchronize of the legacy stream", "sync legacy"),
    ("cuEventRecord on the legacy stream", "record e1 legacy"),
    ("cuStreamWaitEvent of the legacy stream", "wait legacy e1"),
    ("launch on a non-blocking stream", "launch t"),
    ("cuMemAllocAsync on the legacy stream", "alloc_async p legacy"),
)

SCENARIOS = (
    Scenario("fork and join", f"{_FORK}; {_JOIN}; launch s; end s g", EVERY_MODE),
    Scenario("fork and join, both branches longer",
             f"{_FORK}; launch t; launch s; launch s; {_JOIN}; launch s; end s g"),
    Scenario("fork, not joined", f"{_FORK}; launch s; end s; is_capturing t; end t", EVERY_MODE),
    Scenario("fork, joined with an external event",
             f"{_FORK}; record_external e2 t; wait_external s e2; launch s; end s", EVERY_MODE),
    Scenario("fork, joined, then the branch goes on", f"{_FORK}; {_JOIN}; launch t; end s"),
    Scenario("fork, the branch joined by an empty record", "begin s; launch s; record e1 s; "
             "wait t e1; record e2 t; wait s e2; launch s; end s g"),
    Scenario("fork without work in the branch, not joined",
             "begin s; launch s; record e1 s; wait t e1; launch s; end s"),
    Scenario("fork of a fork, joined in turn",
             f"{_FORK}; record e2 t; wait u e2; launch u; record e3 u; wait t e3; launch t; "
             "record e1 t; wait s e1; launch s; end s g"),
    Scenario("fork of a fork, joined straight to the origin",
             f"{_FORK}; record e2 t; wait u e2; launch u; record e3 u; wait s e3; {_JOIN}; "
             "launch s; end s g"),
    Scenario("two branches, one joined", f"{_FORK}; record e1 s; wait u e1; launch u; {_JOIN}; "
             "launch s; end s"),
    Scenario("a fork before the first node", "begin s; record e1 s; wait t e1; launch t; launch s; "
             "record e2 t; wait s e2; launch s; end s g"),
    Scenario("the same event waited for twice", f"{_FORK}; {_JOIN}; wait s e2; launch s; end s g"),
    Scenario("an event recorded again before the wait",
             f"{_FORK}; record e2 t; launch t; record e2 t; wait s e2; launch s; end s g"),
    Scenario("end on a joined stream", f"{_FORK}; end t; end s", EVERY_MODE),
    Scenario("end on a joined stream from another thread", f"{_FORK}; @end t; end s", EVERY_MODE),
    Scenario("begin on a joined stream", f"{_FORK}; begin t; end s", EVERY_MODE),
    Scenario("sync of a joined stream", f"{_FORK}; sync t; end s", EVERY_MODE),
    Scenario("a joined stream destroyed", f"{_FORK}; stream_destroy t; launch s; end s"),
    Scenario("two captures meet", "begin s; begin t; launch s; launch t; record e1 t; wait s e1; "
             "launch s; end s; end t h", EVERY_MODE),
    Scenario("a captured stream waits for a capture that ended",
             "begin t; launch t; record e1 t; end t h; begin s; launch s; wait s e1; end s"),
    Scenario("a stream with work of its own joins", "launch t; begin s; launch s; record e1 s; "
             "wait t e1; launch t; record e2 t; wait s e2; end s g"),
    Scenario("a blocking stream joins", "begin s; launch s; record e1 s; wait b e1; launch b; "
             "launch legacy; record e2 b; wait s e2; end s", EVERY_MODE),
    Scenario("a blocking stream captures", "begin b; launch b; launch b; end b g", EVERY_MODE),
    Scenario("dependencies after a fork and a join", f"{_FORK}; capture_info s; capture_info t; "
             f"{_JOIN}; capture_info s; launch s; capture_info s; end s g"),
    *(Scenario(f"blocking capture: {name}", f"begin b; launch b; {call}; launch b; end b g",
               EVERY_MODE) for name, call in _LEGACY),
)  # fmt: skip
