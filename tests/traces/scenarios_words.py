"""Streams that write and wait for words in memory, as calls and as nodes; callbacks; attributes of
streams."""

from __future__ import annotations

from tests.traces.placing import placed
from tests.traces.scenario import EVERY_MODE, Scenario

_RUN = "instantiate g x; graph_launch x s; sync s"

# {} is the stream.
_CALLS = (
    ("cuStreamWriteValue32", "", "write_value {} w0 5"),
    ("cuStreamWriteValue64", "", "write_value {} w0 5 64"),
    ("cuStreamWaitValue32", "", "wait_value {} w1 0 eq"),
    ("cuStreamWaitValue64", "", "wait_value {} w1 0 eq 64"),
    ("cuStreamBatchMemOp", "", "batch {} write:w0:5+wait_eq:w0:5"),
    ("cuStreamBatchMemOp of nothing", "", "batch {} nothing"),
    ("cuStreamWriteValue32 of no address", "", "write_value {} null 5"),
    ("cuStreamWriteValue32, misaligned", "", "write_value {} w0 5 32 0 2"),
    ("cuStreamAddCallback", "", "callback {}"),
    ("cuStreamSetAttribute", "", "spin_set {} 1"),
    ("cuStreamCopyAttributes", "", "stream_copy_attributes {} u"),
    ("cuGraphAddBatchMemOpNode", "graph_create k", "add_batch n k write:w0:5"),
)  # fmt: skip

_ALONE = (
    ("written", "write_value s w0 5; sync s; word w0; write_value s w0 7 64; sync s; word w0"),
    ("written, device memory", "write_value s buffer 5; write_value s buffer 5 64; sync s; "
     "fetch buffer"),
    ("written, memory of the pool", "alloc_async p s; write_value s p 6; sync s; fetch p"),
    ("written, without a barrier", "write_value s w0 5 32 1; sync s; word w0"),
    ("written, unknown flags", "write_value s w0 5 32 2; write_value s w0 5 32 1024"),
    ("written, pageable memory", "write_value s pageable 5; launch s; sync s"),
    ("written, misaligned", "write_value s w0 5 32 0 2; write_value s w0 5 64 0 4; "
     "write_value s w0 5 32 0 4; sync s"),
    ("waited for, there already", "wait_value s w0 0 eq; wait_value s w0 0 geq; "
     "wait_value s w0 1 nor; poke w1 6; wait_value s w1 4 and; wait_value s w1 5 geq; "
     "wait_value s w1 6 eq 64; sync s"),
    ("waited for, stored by the host", "wait_value s w0 1 geq; launch s; query s; poke w0 1; "
     "sync s; query s"),
    ("waited for, each condition", "wait_value s w0 3 eq; query s; poke w0 3; sync s; "
     "wait_value s w0 4 and; query s; poke w0 6; sync s; wait_value s w0 4294967289 nor; query s; "
     "poke w0 1; sync s; wait_value s w0 2 geq; query s; poke w0 2; sync s"),
    ("waited for, a difference below 0", "poke w0 4294967290; wait_value s w0 5 geq; query s; "
     "poke w0 5; sync s"),
    ("waited for, written by another stream", "wait_value s w0 9 eq; launch s; query s; "
     "write_value t w0 9; sync t; sync s"),
    ("waited for, in device memory", "write_value s buffer 0; sync s; wait_value s buffer 2 geq; "
     "query s; write_value t buffer 2; sync t; sync s"),
    ("waited for, unknown flags", "wait_value s w0 0 4; wait_value s w0 0 16; launch s; sync s"),
    ("waited for, flushed", "wait_value s w0 0 1073741825; launch s; sync s"),
    ("waited for, no address", "wait_value s null 0; wait_value s pageable 0; launch s; sync s"),
    ("a batch of each", "batch s write:w0:5+write64:w1:6+wait_eq:w0:5+wait64_geq:w1:6+barrier; "
     "sync s; word w0; word w1"),
    ("a batch with a flush", "batch s flush; launch s; sync s"),
    ("a batch with a barrier alone", "batch s barrier; batch s barrier:1; batch s barrier:7; "
     "launch s; sync s"),
    ("a batch with an unknown kind", "batch s kind9; batch s kind77; batch s kind0; launch s; "
     "sync s"),
    ("a batch with flags", "batch s write:w0:5 1; launch s; sync s"),
    ("a batch of nothing", "batch s nothing; launch s; sync s"),
    ("a batch of many", "batch s " + "+".join(["write:w0:5"] * 256) + "; sync s; batch s "
     + "+".join(["write:w0:5"] * 257) + "; sync s"),
    ("a batch with one bad operation", "batch s write:w0:5+write:null:5; sync s; word w0"),
    ("on the legacy and the per-thread stream", "write_value legacy w0 5; sync legacy; word w0; "
     "write_value per_thread w1 6; sync per_thread; word w1; wait_value legacy w0 5 eq; "
     "batch per_thread write:w2:7; ctx_sync; word w2"),
    ("by another thread", "@write_value s w0 5; @sync s; word w0"),
    ("a callback", "callback s; launch s; sync s; callback legacy; sync legacy; callback s 1"),
    ("a stream's window", "window_get s; window_set s 256; window_get s; begin s; launch s; "
     "end s g; window_set s 0; window_get s; window_set s 1073741824; window_get s"),
)  # fmt: skip

_NODES = (
    ("captured", "begin s; write_value s w0 5; wait_value s w0 5 eq; write_value s w1 6 64; "
     f"end s g; batch_get g 0; batch_get g 1; batch_get g 2; {_RUN}; word w0; word w1"),
    ("captured, a batch", "begin s; launch s; batch s write:w0:5+wait_geq:w0:5; launch s; "
     f"end s g; batch_get g 0; {_RUN}; word w0"),
    ("captured, launched twice", "begin s; write_value s w0 5; end s g; instantiate g x; "
     "graph_launch x s; sync s; poke w0 0; graph_launch x t; sync t; word w0"),
    ("captured on two streams", "begin s; launch s; record e1 s; wait t e1; write_value t w0 5; "
     "wait_value s w0 5 eq; record e2 t; wait s e2; launch s; end s g"),
    ("built", f"graph_create g; add_batch a g write:w0:5; add_kernel b g a; batch_get g 0; "
     f"shape g; {_RUN}; word w0"),
    ("built, of nothing", "graph_create g; add_batch a g nothing; shape g"),
    ("built, without a context", f"graph_create g; add_batch a g write:w0:5 none; {_RUN}; "
     "word w0"),
    ("built, of no address", "graph_create g; add_batch a g write:null:5; shape g; "
     "instantiate g x; graph_launch x s; sync s"),
    ("built, with an unknown kind", "graph_create g; add_batch a g kind9; shape g"),
    ("built, misaligned", "graph_create g; add_batch a g write:pageable:5; shape g"),
    ("built, of many", "graph_create g; add_batch a g " + "+".join(["write:w0:5"] * 257)
     + "; shape g"),
    ("built, after the same node twice", "graph_create g; add_kernel a g; "
     "add_batch b g write:w0:5 home a a; shape g"),
    ("set", f"graph_create g; add_batch a g write:w0:5; batch_set g 0 write:w0:9+write:w1:8; "
     f"batch_get g 0; {_RUN}; word w0; word w1; batch_set g 0 nothing; batch_set g 0 write:null:5"),
    ("set in an executable", "graph_create g; add_batch a g write:w0:5; instantiate g x; "
     "exec_batch x g 0 write:w0:9; graph_launch x s; sync s; word w0; exec_batch x g 0 write:w1:3; "
     "graph_launch x s; sync s; word w1; exec_batch x g 0 wait_eq:w0:9; graph_launch x s; sync s; "
     "exec_batch x g 0 write:w0:1+write:w1:1; exec_batch x g 0 nothing; graph_launch x s; sync s; "
     "word w0; word w1"),
    ("set in an executable, of a kernel", "graph_create g; add_kernel a g; instantiate g x; "
     "exec_batch x g 0 write:w0:9; batch_set g 0 write:w0:9; batch_get g 0"),
    ("updated, another value", "begin s; write_value s w0 5; end s g; instantiate g x; begin s; "
     "write_value s w0 6; end s h; update x h; graph_launch x s; sync s; word w0"),
    ("updated, another address", "begin s; write_value s w0 5; end s g; instantiate g x; begin s; "
     "write_value s w1 6; end s h; update x h; graph_launch x s; sync s; word w1"),
    ("updated, another kind", "begin s; write_value s w0 5; end s g; instantiate g x; begin s; "
     "wait_value s w0 0 eq; end s h; update x h; graph_launch x s; sync s; word w0"),
    ("updated, another width", "begin s; write_value s w0 5; end s g; instantiate g x; begin s; "
     "write_value s w0 6 64; end s h; update x h; graph_launch x s; sync s; word w0"),
    ("updated, another count", "begin s; batch s write:w0:5; end s g; instantiate g x; begin s; "
     "batch s write:w0:6+write:w1:7; end s h; update x h; graph_launch x s; sync s; word w0"),
    ("updated, to a kernel", "begin s; write_value s w0 5; end s g; instantiate g x; begin s; "
     "launch s; end s h; update x h"),
    ("cloned", "graph_create g; add_batch a g write:w0:5; graph_clone g h; batch_get h 0; "
     "instantiate h x; graph_launch x s; sync s; word w0"),
    ("of a child graph", "graph_create k; add_batch a k write:w0:5; graph_create g; "
     f"add_child c g k; {_RUN}; word w0"),
    ("switched off", "graph_create g; add_batch a g write:w0:5; instantiate g x; "
     "node_set_enabled x g 0 0; node_enabled x g 0; graph_launch x s; sync s; word w0"),
    ("destroyed", "graph_create g; add_batch a g write:w0:5; node_destroy a; shape g"),
    ("waited for by a launch, stored by the host", "begin s; wait_value s w0 1 geq; launch s; "
     "end s g; instantiate g x; graph_launch x s; query s; poke w0 1; sync s"),
    ("waited for by a launch, written by another graph", "begin s; wait_value s w0 1 geq; "
     "launch s; end s g; begin t; write_value t w0 1; end t h; instantiate g x; instantiate h y; "
     "graph_launch x s; query s; graph_launch y t; sync t; sync s"),
    ("after an illegal one in a capture", "begin s; launch s; write_value s null 5; launch s; "
     "end s g"),
    ("by the one struct", "graph_create g; add_any_batch a g write:w0:5; batch_get g 0; "
     "instantiate g x; graph_launch x s; sync s; word w0; any_batch a write:w0:6; batch_get g 0; "
     "exec_any_batch x a write:w0:7; graph_launch x s; sync s; word w0; any_batch a kind9; "
     "add_any_batch b g nothing; add_kernel k g; any_batch k write:w0:6"),
    ("a picture", "graph_create g; add_batch a g write:w0:5; dot g"),
)  # fmt: skip

_MAY_FAULT = ("written, pageable memory", "waited for, no address", "built, of no address",
              "a batch with one bad operation", "built, misaligned")  # fmt: skip

SCENARIOS = (
    *(run for name, before, call in _CALLS for run in placed(name, before, call)),
    *(Scenario(f"words: {name}", text, apart=name in _MAY_FAULT) for name, text in _ALONE),
    *(Scenario(f"word nodes: {name}", text, EVERY_MODE if place == 0 else ("THREAD_LOCAL",),
               apart=name in _MAY_FAULT) for place, (name, text) in enumerate(_NODES)),
)  # fmt: skip
