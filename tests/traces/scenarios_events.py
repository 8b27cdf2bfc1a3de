"""Events and captures: what a query, a wait and a time give by where the event was recorded."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario, in_window

_CAPTURED = (
    ("cuEventQuery of an event recorded in the capture", "record e1 s; event_query e1"),
    ("cuEventSynchronize of an event recorded in the capture", "record e1 s; event_sync e1"),
    ("cuStreamWaitEvent of the stream on its own event", "record e1 s; wait s e1"),
    ("cuEventElapsedTime of events recorded in the capture",
     "record t1 s; record t2 s; elapsed t1 t2"),
    ("cuEventDestroy of an event recorded in the capture", "record e1 s; event_destroy e1"),
    ("an event recorded in the capture, then on another stream",
     "record e1 s; record e1 t; event_sync e1"),
    ("an external record in the capture, then cuEventQuery",
     "record_external e1 s; event_query e1"),
    ("an external wait on an event never recorded", "wait_external s e1"),
    ("a wait of another stream on an external record", "record_external e1 s; wait t e1"),
)  # fmt: skip

_ENDED = "begin s; launch s; record e1 s; end s h"

SCENARIOS = (
    *in_window(_CAPTURED),
    *in_window([("an external wait on an event recorded before", "wait_external s e1")],
               "record e1 t; sync t"),
    # The last record lies in a capture that has ended.
    *in_window([("cuEventQuery of an event of an ended capture", "event_query e1"),
                ("cuEventSynchronize of an event of an ended capture", "event_sync e1"),
                ("cuStreamWaitEvent on an event of an ended capture", "wait s e1")], _ENDED),
    Scenario("outside: query, wait and sync of an event of an ended capture",
             f"{_ENDED}; event_query e1; event_sync e1; wait t e1; elapsed e1 e1; record e1 t; "
             "sync t; event_query e1", EVERY_MODE),
    Scenario("outside: the same after a capture that was invalidated",
             "begin s; launch s; record e1 s; ctx_sync; end s; event_query e1; event_sync e1; "
             "wait t e1", EVERY_MODE),
    Scenario("outside: while the capture goes on, a legacy-stream wait on its event",
             "begin s; launch s; record e1 s; wait legacy e1; launch s; end s", EVERY_MODE),
    Scenario("outside: the other thread waits for an event of an ended capture",
             f"{_ENDED}; begin t; launch t; @event_query e1; end t", EVERY_MODE),
    Scenario("external record nodes give times at each replay",
             "begin s; record_external t1 s; launch s; record_external t2 s; end s g; "
             "instantiate g x; elapsed t1 t2; graph_launch x s; sync s; elapsed t1 t2; "
             "event_query t2"),
    Scenario("elapsed time without timing", "record e1 s; record e2 s; sync s; elapsed e1 e2"),
    Scenario("elapsed time of unrecorded events", "elapsed t1 t2"),
    Scenario("events by hand", "event_query e1; event_sync e1; record e1 s; sync s; "
             "event_query e1; wait t e1; launch t; sync t"),
    Scenario("in flight: stream and event not ready", "launch s kernel=hold; record e1 s; query s; "
             "event_query e1; release; sync s; query s; event_query e1"),
    Scenario("in flight: a stream waits for another", "launch s kernel=hold; record e1 s; "
             "wait t e1; launch t; query t; release; sync t; query t"),
    Scenario("in flight: elapsed time not ready", "record t1 s; launch s kernel=hold; record t2 s; "
             "elapsed t1 t2; release; sync s; elapsed t1 t2"),
)  # fmt: skip
