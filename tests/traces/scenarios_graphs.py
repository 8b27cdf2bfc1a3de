"""Graphs after their capture: memory nodes, repeated launches, lifetimes, work in flight."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario

_ALLOC = "begin s; launch s; alloc_async p s; launch s; end s g"
_ALLOC_FREE = "begin s; alloc_async p s; launch s; free_async p s; end s g"
_CHAIN = "begin s; launch s; launch s; end s g"

SCENARIOS = (
    Scenario("memory nodes: allocation, launched twice",
             f"{_ALLOC}; instantiate g x; graph_launch x s; graph_launch x s; sync s"),
    Scenario("memory nodes: allocation, auto-free, launched twice",
             f"{_ALLOC}; instantiate g x auto_free; graph_launch x s; graph_launch x s; sync s"),
    Scenario("memory nodes: allocation, launched and freed between",
             f"{_ALLOC}; instantiate g x; graph_launch x s; free_async p s; graph_launch x s; "
             "sync s"),
    Scenario("memory nodes: allocation and free, launched twice",
             f"{_ALLOC_FREE}; instantiate g x; graph_launch x s; graph_launch x s; sync s"),
    Scenario("memory nodes: instantiated twice", f"{_ALLOC}; instantiate g x; instantiate g y"),
    Scenario("memory nodes: allocation and free, instantiated twice",
             f"{_ALLOC_FREE}; instantiate g x; instantiate g y"),
    Scenario("memory nodes: two of each", "begin s; alloc_async p s; alloc_async q s; "
             "free_async p s; free_async q s; launch s; end s g"),
    Scenario("memory nodes: two executables, one launched after the other",
             f"{_ALLOC_FREE}; instantiate g x; graph_launch x s; sync s; exec_destroy x; "
             "instantiate g y; graph_launch y s; sync s"),
    Scenario("launch: twice without a sync", f"{_CHAIN}; instantiate g x; graph_launch x s; "
             "graph_launch x s; sync s"),
    Scenario("launch: on two streams", f"{_CHAIN}; instantiate g x; graph_launch x s; "
             "graph_launch x t; sync s; sync t"),
    Scenario("launch: on the legacy and the per-thread stream", f"{_CHAIN}; instantiate g x; "
             "graph_launch x legacy; graph_launch x per_thread; ctx_sync"),
    Scenario("launch: on a blocking stream", f"{_CHAIN}; instantiate g x; upload x b; "
             "graph_launch x b; sync b"),
    Scenario("launch: from another thread", f"{_CHAIN}; instantiate g x; @graph_launch x s; "
             "@sync s"),
    Scenario("launch: into another capture", f"{_CHAIN}; instantiate g x; begin t; launch t; "
             "graph_launch x t; end t h"),
    Scenario("launch: on another stream while one captures", f"{_CHAIN}; instantiate g x; "
             "begin s; launch s; graph_launch x t; launch s; end s h; sync t"),
    Scenario("launch: in flight", "begin s; launch s kernel=hold; end s g; instantiate g x; "
             "graph_launch x s; query s; record e1 s; event_query e1; release; sync s; query s"),
    Scenario("lifetime: the graph destroyed before the launch", f"{_CHAIN}; instantiate g x; "
             "graph_destroy g; graph_launch x s; sync s"),
    Scenario("lifetime: the executable destroyed in flight", "begin s; launch s kernel=hold; "
             "end s g; instantiate g x; graph_launch x s; exec_destroy x; query s; release; "
             "sync s"),
    Scenario("lifetime: the stream of the capture destroyed", f"{_CHAIN}; stream_destroy s; "
             "instantiate g x; graph_launch x t; sync t"),
    Scenario("lifetime: a stream destroyed in flight", "launch s kernel=hold; record e1 s; "
             "stream_destroy s; event_query e1; release; event_sync e1"),
    Scenario("lifetime: an event destroyed in flight", "launch s kernel=hold; record e1 s; "
             "wait t e1; launch t; event_destroy e1; query t; release; sync t"),
    Scenario("lifetime: an event of the capture destroyed", "begin s; launch s; record e1 s; "
             "wait t e1; launch t; record e2 t; wait s e2; event_destroy e1; event_destroy e2; "
             "launch s; end s g; instantiate g x; graph_launch x s; sync s"),
    # Left out: instantiating a graph after destroying the event that its external record names.
    # Driver 580.159 crashes the process there (segmentation fault, two of two tries).
    Scenario("host function: three launches", "begin s; host_function s; launch s; end s g; "
             "instantiate g x; graph_launch x s; graph_launch x s; graph_launch x s; sync s"),
    Scenario("external wait node: launched", "begin s; wait_external s e1; launch s; end s g; "
             "instantiate g x; record e1 t; graph_launch x s; sync s"),
    Scenario("refused: launch without a capture, illegal block", "launch s block=4096; launch s; "
             "sync s"),
    Scenario("refused: launch without a capture, too much shared memory",
             "launch s shared=300000; launch s; sync s"),
    Scenario("refused: more dynamic shared memory than allowed, then allowed",
             "launch s shared=65536; allow_shared noop 65536; launch s shared=65536; "
             "allow_shared noop 300000; sync s"),
    Scenario("refused: an empty grid without a capture", "launch s grid=0; launch s; sync s"),
    Scenario("instantiate: twice from one graph", f"{_CHAIN}; instantiate g x; instantiate g y; "
             "graph_launch x s; graph_launch y t; sync s; sync t"),
    Scenario("capture: a second one on the same stream", f"{_CHAIN}; begin s; launch s; end s h; "
             "instantiate h x; graph_launch x s; sync s"),
    Scenario("capture: a copy from pageable memory reads it at each launch", "store pageable 5; "
             "begin s; copy_htod_async s pageable; end s g; store pageable 6; instantiate g x; "
             "graph_launch x s; sync s; fetch buffer; store pageable 7; graph_launch x s; sync s; "
             "fetch buffer", EVERY_MODE),
    Scenario("capture: a copy to pageable memory writes it at each launch", "fill_of s buffer 5; "
             "sync s; store pageable 1; begin s; copy_dtoh_async s pageable; end s g; "
             "look pageable; instantiate g x; graph_launch x s; sync s; look pageable; "
             "fill_of s buffer 6; graph_launch x s; sync s; look pageable", EVERY_MODE),
    *(Scenario(f"capture: what runs at once beside it, {name}", f"fill_of t buffer 9; sync t; "
               f"begin s; launch s; {call}; launch s; end s g; ctx_sync; fetch buffer", EVERY_MODE)
      for name, call in (("a launch on the legacy stream", "launch legacy kernel=cluster_size"),
                         ("a launch on the per-thread stream",
                          "launch per_thread kernel=cluster_size"),
                         ("a launch on another stream", "launch t kernel=cluster_size"),
                         ("a launch by another thread", "@launch t kernel=cluster_size"),
                         ("a memset", "memset"), ("a copy", "copy_htod"))),
    Scenario("capture: what is recorded does not run", "fill_of t buffer 9; sync t; begin s; "
             "launch s kernel=cluster_size; end s g; ctx_sync; fetch buffer; instantiate g x; "
             "fetch buffer; graph_launch x s; sync s; fetch buffer", EVERY_MODE),
    Scenario("update: the new arguments are those that run", "fill_of s buffer 5; "
             "fill_of s other 6; sync s; begin s; fill_of s pinned 1; copy_of s other buffer; "
             "end s g; instantiate g x; begin s; fill_of s pinned 2; copy_of s buffer other; "
             "end s h; update x h; graph_launch x s; sync s; fetch buffer; look pinned"),
    Scenario("update: a refused one leaves what runs", "begin s; fill_of s buffer 5; end s g; "
             "instantiate g x; begin s; fill_of s buffer 6; launch s; end s h; update x h; "
             "update x h; graph_launch x s; sync s; fetch buffer"),
    Scenario("capture: begun while work is in flight on the stream", "launch s kernel=hold; "
             "begin s; launch s; end s g; query s; release; sync s"),
)  # fmt: skip
