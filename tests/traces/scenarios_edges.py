"""Programmatic edges; attributes of launches, kernel nodes and streams, one by one; what a pointer
tells in how many bytes; options of a module; calls by their versions."""

from __future__ import annotations

from tests.traces.placing import placed
from tests.traces.scenario import Scenario
from tests.traces.scenarios_contexts import THEIRS

EARLY = "launch_with s 6 1"  # PROGRAMMATIC_STREAM_SERIALIZATION
_LOOK = "edges_told g; edges_old g; shape g"
_RUN = "instantiate g x; graph_launch x s; sync s"
_PLAIN = "begin s; launch s; launch s; end s h"

_CAPTURED = (
    ("outside a capture", f"launch s; {EARLY}; sync s"),
    ("behind a kernel", f"begin s; launch s; {EARLY}; info_told s; end s g; {_LOOK}; "
     f"waits_told g 1; followers_told g 0; {_RUN}; update x g"),
    ("the first launch", f"begin s; {EARLY}; end s g; {_LOOK}; {_RUN}"),
    ("behind a memset", f"begin s; memset_async s; {EARLY}; end s g; {_LOOK}; {_RUN}"),
    ("before a memset", f"begin s; launch s; {EARLY}; memset_async s; end s g; {_LOOK}; {_RUN}"),
    ("behind a host function", f"begin s; host_function s; {EARLY}; end s g; {_LOOK}"),
    ("three in a row", f"begin s; launch s; {EARLY}; {EARLY}; end s g; {_LOOK}; {_RUN}"),
    ("not allowed", f"begin s; launch s; launch_with s 6 0; end s g; {_LOOK}"),
    ("behind a join", "begin s; launch s; record e1 s; wait t e1; launch t; launch s; "
     f"record e2 t; wait s e2; {EARLY}; end s g; {_LOOK}; {_RUN}"),
    ("behind a fork", "begin s; launch s; record e1 s; wait t e1; launch_with t 6 1; record e2 t; "
     f"wait s e2; launch s; end s g; {_LOOK}; {_RUN}"),
    ("behind a node that was waited for", f"begin s; launch s; launch s; record e1 s; wait s e1; "
     f"{EARLY}; end s g; {_LOOK}"),
    ("cooperative kernels", f"begin s; launch s cooperative=1; {EARLY}; end s g; {_LOOK}"),
    ("after an update of the dependencies", "begin s; launch s; tail a s; launch s; "
     f"dependencies s set a; {EARLY}; end s g; {_LOOK}"),
    ("dependencies set by a programmatic edge", "begin s; launch s; tail a s; "
     f"dependencies_with s a 1,0,1; info_told s; launch s; end s g; {_LOOK}; {_RUN}"),
    ("dependencies set by a programmatic edge, then a memset", "begin s; launch s; tail a s; "
     f"dependencies_with s a 1,0,1; memset_async s; end s g; {_LOOK}"),
    ("an event of a kernel's trigger", "begin s; launch_with s 7 event:e1,0,0; wait t e1; "
     "info_told t; launch t; record e2 t; wait s e2; launch s; end s g; edges_told g; edges_old g; "
     f"{_RUN}"),
    ("an event of a kernel's start", "begin s; launch_with s 12 event:e1,0; wait t e1; "
     "info_told t; launch t; record e2 t; wait s e2; launch s; end s g; edges_told g; edges_old g; "
     f"{_RUN}"),
    ("an event of a kernel's trigger, before a memset", "begin s; launch_with s 7 event:e1,0,0; "
     f"wait t e1; memset_async t; record e2 t; wait s e2; launch s; end s g; {_LOOK}"),
    ("cloned", f"begin s; launch s; {EARLY}; end s g; graph_clone g h; edges_told h"),
    ("of a child graph", f"begin s; launch s; {EARLY}; end s g; graph_create k; add_child c k g; "
     "instantiate k x; graph_launch x s; sync s"),
    ("a picture", f"begin s; launch s; {EARLY}; end s g; dot g"),
    ("updated to a plain edge", f"begin s; launch s; {EARLY}; end s g; instantiate g x; {_PLAIN}; "
     "update x h; graph_launch x s; sync s; update x g"),
    ("updated from a plain edge", f"{_PLAIN}; instantiate h x; begin s; launch s; {EARLY}; "
     "end s g; update x g; graph_launch x s; sync s"),
)  # fmt: skip

_DATA = ("0,0,0", "1,0,1", "2,0,1", "0,0,1", "1,0,0", "2,0,0", "1,1,1", "0,1,0", "3,0,1", "0,0,2",
         "0,0,9")  # fmt: skip
_TWO = "graph_create g; add_kernel a g; add_kernel b g"
_BUILT = (
    *((f"a kernel added by {data}", f"graph_create g; add_kernel a g; add_after b g {data} a; "
       f"{_LOOK}; {_RUN}; update x g") for data in _DATA),
    *((f"an edge added by {data}", f"{_TWO}; edge_with g a b {data}; {_LOOK}; {_RUN}")
      for data in _DATA),
    ("a kernel added behind a memset", "graph_create g; add_fill a g; add_after b g 1,0,1 a; "
     f"{_LOOK}"),
    ("a kernel added behind two", f"{_TWO}; add_after c g 1,0,1 a b; {_LOOK}; {_RUN}"),
    ("a kernel added behind the same one twice", "graph_create g; add_kernel a g; "
     f"add_after b g 1,0,1 a a; {_LOOK}"),
    ("an edge to a memset", "graph_create g; add_kernel a g; add_fill b g; "
     f"edge_with g a b 1,0,1; {_LOOK}"),
    ("an edge to a child graph", "graph_create k; add_kernel n k; graph_create g; add_kernel a g; "
     f"add_child b g k; edge_with g a b 1,0,1; {_LOOK}; {_RUN}"),
    ("both kinds between two", f"{_TWO}; edge_with g a b 1,0,1; edge_with g a b 0,0,0; {_LOOK}"),
    ("the plain one first", f"{_TWO}; edge_with g a b 0,0,0; edge_with g a b 1,0,1; {_LOOK}"),
    ("removed as it is", f"{_TWO}; edge_with g a b 1,0,1; edge_remove_with g a b 1,0,1; {_LOOK}"),
    ("removed as another", f"{_TWO}; edge_with g a b 1,0,1; edge_remove_with g a b 0,0,0; {_LOOK}"),
    ("removed without data", f"{_TWO}; edge_with g a b 1,0,1; edge_remove_with g a b none; "
     f"{_LOOK}"),
    ("a plain one removed as programmatic", f"{_TWO}; edge_with g a b 0,0,0; "
     f"edge_remove_with g a b 1,0,1; {_LOOK}"),
    ("the first node destroyed", f"{_TWO}; edge_with g a b 1,0,1; node_destroy a; shape g"),
    ("captured into behind one", f"{_TWO}; begin_to_with s g a 1,0,1; info_told s; launch s; "
     f"end_to s g; {_LOOK}; {_RUN}"),
    ("captured into behind one, a memset", f"{_TWO}; begin_to_with s g a 1,0,1; memset_async s; "
     f"end_to s g; {_LOOK}"),
)  # fmt: skip

# (attribute, a value that a program would give), by their numbers in cuda.h.
_VALUES = (
    ("access policy window", 1, "buffer,256,0,1065353216,2,1"), ("cooperative", 2, "1"),
    ("synchronization policy", 3, "3"), ("cluster", 4, "1,1,1"), ("cluster scheduling", 5, "1"),
    ("programmatic serialization", 6, "1"), ("programmatic event", 7, "event:e1,0,0"),
    ("priority", 8, "-2"), ("memory domains", 9, "0,1"), ("memory domain", 10, "1"),
    ("preferred cluster", 11, "1,1,1"), ("launch completion event", 12, "event:e1,0"),
    ("updatable by the device", 13, "1"), ("shared memory carveout", 14, "50"),
    ("nothing", 0, "0"), ("an unknown one", 99, "0"),
)  # fmt: skip
_MAY_FAULT = (7, 12, 13, 99)


def _of_attributes() -> list[Scenario]:
    found = []
    for name, number, value in _VALUES:
        apart = number in _MAY_FAULT
        found += [
            Scenario(f"attribute of a kernel node: {name}", f"graph_create g; add_kernel a g; "
                     f"kernel_attr g 0 {number}; kernel_attr_set g 0 {number} {value}; "
                     f"kernel_attr g 0 {number}; instantiate g x; graph_launch x s; sync s; "
                     f"update x g; graph_clone g h; kernel_attr h 0 {number}", apart=apart),
            Scenario(f"attribute of a kernel node: {name}, updated", "graph_create g; "
                     "add_kernel a g; instantiate g x; graph_create h; add_kernel b h; "
                     f"kernel_attr_set h 0 {number} {value}; update x h; graph_launch x s; sync s",
                     apart=apart),
            Scenario(f"attribute of a captured launch: {name}", f"begin s; launch_with s {number} "
                     f"{value}; end s g; kernel_attr g 0 {number}; {_RUN}", apart=apart),
            Scenario(f"attribute of a launch: {name}", f"launch_with s {number} {value}; sync s",
                     apart=apart),
            Scenario(f"attribute of a stream: {name}", f"stream_attr s {number}; "
                     f"stream_attr_set s {number} {value}; stream_attr s {number}; "
                     f"stream_copy_attributes t s; stream_attr t {number}; begin s; launch s; "
                     f"end s g; kernel_attr g 0 {number}; {_RUN}", apart=apart),
        ]  # fmt: skip
    return found


_STREAMS = (
    ("copied from a stream with a priority", "stream_ranked r -5; stream_copy_attributes s r; "
     "stream_priority s; stream_priority r"),
    ("copied from the legacy stream beside a blocking capture", "begin b; launch b; "
     "stream_copy_attributes u legacy; end b g"),
    ("copied from an invalidated stream", "begin s; launch s; query s; "
     "stream_copy_attributes u s; end s g"),
    ("copied to a stream of another context", f"{THEIRS}; window_set s 256; "
     "stream_copy_attributes c.v s; window_get c.v"),
    ("a window of half a hit", "stream_attr_set s 1 buffer,256,0,1056964608,2,1; stream_attr s 1"),
    ("a window of more than a hit", "stream_attr_set s 1 buffer,256,0,1073741824,2,1; "
     "stream_attr s 1"),
    ("a window of unknown kinds", "stream_attr_set s 1 buffer,256,0,1065353216,7,1; "
     "stream_attr_set s 1 buffer,256,0,1065353216,2,7; stream_attr s 1"),
    ("a window that persists where it misses", "stream_attr_set s 1 buffer,256,0,1065353216,2,2"),
    ("unknown ways to wait", "stream_attr_set s 3 0; stream_attr_set s 3 9; stream_attr s 3"),
)  # fmt: skip

_TOLD_IN = ("CONTEXT", "MEMORY_TYPE", "DEVICE_POINTER", "HOST_POINTER", "SYNC_MEMOPS", "BUFFER_ID",
            "IS_MANAGED", "DEVICE_ORDINAL", "IS_LEGACY_CUDA_IPC_CAPABLE", "RANGE_START_ADDR",
            "RANGE_SIZE", "MAPPED", "ALLOWED_HANDLE_TYPES", "IS_GPU_DIRECT_RDMA_CAPABLE",
            "ACCESS_FLAGS", "MEMPOOL_HANDLE", "MAPPING_SIZE", "MAPPING_BASE_ADDR",
            "MEMORY_BLOCK_ID")  # fmt: skip
_ASKED = (
    ("cuGraphInstantiate", 10000), ("cuGraphInstantiate", 11000), ("cuGraphInstantiate", 12000),
    ("cuGraphAddKernelNode", 10000), ("cuGraphAddKernelNode", 12000), ("cuGraphExecUpdate", 10020),
    ("cuStreamGetCaptureInfo", 10010), ("cuStreamBeginCapture", 10000), ("cuMemAlloc", 2000),
    ("cuStreamCreate", 1000), ("cuNothing", 12000), ("cuMemAlloc_v2", 12000),
    ("cuLaunchKernel_ptsz", 12000), ("cuGraphGetId", 13000), ("cuGraphGetId", 13010),
    ("cuGraphGetId", 99000), ("culaunchkernel", 12000), ("cuLaunchKernel", 0),
)  # fmt: skip

SCENARIOS = (
    *(Scenario(f"programmatic edges: {name}", text) for name, text in _CAPTURED),
    *(Scenario(f"edge data: {name}", text, apart=True) for name, text in _BUILT),
    *_of_attributes(),
    *(Scenario(f"attribute of a stream: {name}", text) for name, text in _STREAMS),
    *placed("cuStreamGetAttribute", "", "window_get {}"),
    Scenario("pointer: bytes that are written", "; ".join(
        f"pointer_bytes {name} {target}" for name in _TOLD_IN for target in ("buffer", "pinned"))),
    Scenario("pointer: the pool of memory", "pool_make n 1 device; alloc_from n p s; "
             "alloc_async q s; sync s; pool_of p; pool_of q; pool_of buffer; pool_of pinned; "
             "begin s; alloc_from n r s; end s g; instantiate g x; pool_of r; graph_launch x s; "
             "sync s; pool_of r; free_graph r; pool_end n; pool_of p"),
    Scenario("module: loaded with options", "load_with_options m; module_function m noop"),
    Scenario("node of a library's kernel", "library_load l; library_function l noop; begin s; "
             "launch s kernel=l.noop; launch s; end s g; kernel_fields g 0; kernel_fields g 1"),
    Scenario("calls by their versions", "; ".join(
        f"call_there {name} {version}" for name, version in _ASKED)),
    Scenario("calls by unknown flags", "call_there cuLaunchKernel 12000 3; "
             "call_there cuLaunchKernel 12000 4; call_there cuLaunchKernel 12000 8"),
)  # fmt: skip
