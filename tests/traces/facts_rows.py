"""The measured facts of the driver, row by row, and the scenarios that show each.

The facts were measured on the H200 before the host device was written, by probes of their own. A
row says in a few words what was found, and names the runs of `tests/traces` in which the recorded
driver and the host device answer so: the scenario, the step, and the step's code in each mode that
the scenario is recorded in (one code: in all of them). What is no answer of the driver (a library,
the bindings, a package) is in ELSEWHERE, with the test that holds it; a cost is in COSTS.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shown:
    """A recorded step: its scenario, how it begins, its codes by mode, the nodes it tells of.

    `place`: which of the steps that begin so; `value`: what it reads, if it reads.
    """

    scenario: str
    step: str
    codes: tuple[int, ...]
    types: str | None = None
    place: int = 0
    value: int | None = None


@dataclass(frozen=True)
class Row:
    """One measured fact and where it is shown."""

    fact: str
    shown: tuple[Shown, ...]


def _in(scenario: str, step: str, *codes: int, types: str | None = None, place: int = 0) -> Shown:
    return Shown(scenario, step, codes or (0,), types, place)


def _reads(scenario: str, step: str, *values: int) -> tuple[Shown, ...]:
    """What a byte of memory is, each time that the scenario reads it."""
    return tuple(Shown(scenario, step, (0,), None, n, value) for n, value in enumerate(values))


def _dies(scenario: str, step: str) -> Shown:
    """Refused in GLOBAL and THREAD_LOCAL, let through in RELAXED."""
    return _in(scenario, step, 900, 900, 0)


def _ended(scenario: str, types: str, code: int = 0) -> Shown:
    """What the capture holds at its end."""
    return _in(scenario, "end s g", code, types=types)


_TWO = "KERNEL KERNEL"

IN_A_CAPTURE = (
    Row("calls that touch memory or instantiate: refused, unless relaxed", (
        _dies("cuMemAlloc", "alloc p"), _dies("cuMemFree", "free p"),
        _dies("cuMemHostAlloc", "host_alloc"), _dies("cuMemHostRegister", "host_register"),
        _dies("cuMemPoolTrimTo", "pool_trim"), _dies("cuCtxSetLimit", "ctx_limit"),
        _dies("cuGraphInstantiate of another graph", "instantiate h x"))),
    Row("relaxed, they are not recorded", (
        _in("cuMemAlloc", "end s g", 901, 901, 0, types=_TWO),
        _in("cuMemHostAlloc", "end s g", 901, 901, 0, types=_TWO))),
    Row("stream-ordered allocation on the capturing stream: a node", (
        _ended("cuMemAllocAsync on the stream", "KERNEL MEM_ALLOC KERNEL"),)),
    Row("a wait or a query of the capturing stream, a wait for the context: refused in each mode", (
        _in("cuStreamSynchronize of the stream", "sync s", 900),
        _in("cuStreamQuery of the stream", "query s", 900),
        _in("cuCtxSynchronize", "ctx_sync", 900))),
    Row("a wait for another stream: refused, unless relaxed", (
        _dies("cuStreamSynchronize of another stream", "sync t"),)),
    Row("a query or a wait of an event from outside: refused, unless relaxed", (
        _dies("cuEventQuery of an event never recorded", "event_query e1"),
        _dies("cuEventSynchronize of an event never recorded", "event_sync e1"),
        _dies("cuEventQuery of an event recorded before and done", "event_query e1"),
        _dies("cuEventSynchronize of an event recorded before and done", "event_sync e1"))),
    Row("a wait of the stream on an event recorded outside: isolation", (
        _in("cuStreamWaitEvent on an event recorded before", "wait s e1", 905),)),
    Row("a wait on an event never recorded: no edge", (
        _ended("cuStreamWaitEvent on an event never recorded", _TWO),)),
    Row("a query of an event whose capture has ended: a bad value, the capture goes on", (
        _in("cuEventQuery of an event of an ended capture", "event_query e1", 1),
        _ended("cuEventQuery of an event of an ended capture", _TWO))),
    Row("a query or a wait of an event of the capture: a captured event", (
        _in("cuEventQuery of an event recorded in the capture", "event_query e1", 907),
        _in("cuEventSynchronize of an event recorded in the capture", "event_sync e1", 907))),
    Row("synchronous copies and memsets: done, not recorded", (
        _ended("cuMemcpyHtoD", _TWO), _ended("cuMemcpyDtoH", _TWO), _ended("cuMemsetD8", _TWO),
        *_reads("capture: what runs at once beside it, a memset", "fetch buffer", 0),
        *_reads("capture: what runs at once beside it, a copy", "fetch buffer", 0))),
    Row("asynchronous copies from and to pageable memory: nodes that use the host's address", (
        _ended("cuMemcpyHtoDAsync from pageable memory", "KERNEL MEMCPY KERNEL"),
        _ended("cuMemcpyDtoHAsync to pageable memory", "KERNEL MEMCPY KERNEL"),
        *_reads("capture: a copy from pageable memory reads it at each launch", "fetch buffer",
                6, 7),
        *_reads("capture: a copy to pageable memory writes it at each launch", "look pageable",
                1, 5, 6))),
    Row("copies from pinned memory, asynchronous memsets: nodes", (
        _ended("cuMemcpyHtoDAsync from pinned memory", "KERNEL MEMCPY KERNEL"),
        _ended("cuMemcpyDtoHAsync to pinned memory", "KERNEL MEMCPY KERNEL"),
        _ended("cuMemsetD8Async", "KERNEL MEMSET KERNEL"))),
    Row("launches on other streams: run at once, not recorded", (
        _ended("launch on the legacy stream", _TWO),
        _ended("launch on the per-thread stream", _TWO), _ended("launch on another stream", _TWO),
        *_reads("capture: what runs at once beside it, a launch on the legacy stream",
                "fetch buffer", 1),
        *_reads("capture: what runs at once beside it, a launch on the per-thread stream",
                "fetch buffer", 1),
        *_reads("capture: what runs at once beside it, a launch on another stream",
                "fetch buffer", 1),
        *_reads("capture: what is recorded does not run", "fetch buffer", 9, 9, 1))),
    Row("modules are loaded and asked", (
        _ended("cuModuleLoadData", _TWO), _ended("cuModuleGetFunction", _TWO))),
    Row("streams and events are made, memory is asked for", (
        _ended("cuStreamCreate", _TWO), _ended("cuEventCreate", _TWO),
        _ended("cuMemGetInfo", _TWO), _ended("cuStreamGetCaptureInfo", _TWO))),
    Row("an illegal block: a bad value, invalidated", (
        _in("launch with an illegal block", "launch s block=4096", 1),
        _in("launch with an illegal block", "end s g", 901))),
    Row("a second begin: an illegal state, the capture goes on", (
        _in("cuStreamBeginCapture of the stream again", "begin s", 401, place=1),
        _ended("cuStreamBeginCapture of the stream again", _TWO))),
    Row("a graph launch into the capturing stream: refused in each mode", (
        _in("cuGraphLaunch into the stream", "graph_launch x s", 900),)),
    Row("a stream-ordered free of memory from outside: a bad value, the capture goes on", (
        _in("cuMemFreeAsync of an address from outside", "free_async p s", 1),
        _ended("cuMemFreeAsync of an address from outside", _TWO))),
    Row("a fork that is not joined: told at the end", (_in("fork, not joined", "end s", 904),)),
    Row("after an invalidation launches and the end are refused, and there is no graph", (
        _in("everything after an invalidation", "memset_async s", 901),
        _in("everything after an invalidation", "end s", 901))),
    Row("a blocking capture and work on the legacy stream: implicit, in each mode", (
        _in("blocking capture: launch on the legacy stream", "launch legacy", 906),
        _in("blocking capture: cuMemcpyHtoD", "copy_htod", 906),
        _in("blocking capture: cuMemsetD8", "memset", 906),
        _in("blocking capture: cuModuleLoadData", "module_load m", 0))),
    Row("too much dynamic shared memory: invalidated", (
        _in("launch with too much shared memory", "end s g", 901),
        _in("update: too much shared memory ends the second capture", "end s h", 901))),
    Row("a fork joined by an external record is not joined", (
        _in("fork, joined with an external event", "end s", 904),)),
)  # fmt: skip

BY_ANOTHER_THREAD = (
    Row("memory, an event, another stream: refused in GLOBAL alone", (
        _in("other thread: cuMemAlloc", "@alloc p", 900, 0, 0),
        _in("other thread: cuMemFree", "@free p", 900, 0, 0),
        _in("other thread: cuMemFreeAsync on the legacy stream", "@free_async p", 900, 0, 0),
        _in("other thread: cuEventQuery, recorded before and done", "@event_query", 900, 0, 0),
        _in("other thread: cuStreamSynchronize of another stream", "@sync t", 900, 0, 0))),
    Row("a wait for the context: refused in each mode", (
        _in("other thread: cuCtxSynchronize", "@ctx_sync", 900),)),
    Row("launches elsewhere, modules, a synchronous copy, a graph launch: done, not recorded", (
        _ended("other thread: launch on the legacy stream", _TWO),
        _ended("other thread: launch on another stream", _TWO),
        _ended("other thread: cuModuleLoadData", _TWO), _ended("other thread: cuMemcpyHtoD", _TWO),
        _ended("other thread: cuGraphLaunch on another stream", _TWO),
        *_reads("capture: what runs at once beside it, a launch by another thread",
                "fetch buffer", 1))),
    Row("a launch on the capturing stream: recorded", (
        _ended("other thread: launch on the capturing stream", "KERNEL KERNEL KERNEL"),)),
    Row("the end: the wrong thread, and the capture is over; relaxed, it succeeds", (
        _in("other thread ends the capture", "@end s", 908, 908, 0),
        _in("other thread ends the capture", "end s", 401))),
)  # fmt: skip

BODIES = (
    Row("kernels, memsets, device copies and nothing run in a body", (
        _in("conditional body: a kernel", "graph_launch x s"),
        _in("conditional body: a memset", "graph_launch x s"),
        _in("conditional body: a copy, device to device", "graph_launch x s"),
        _in("conditional: an empty body", "instantiate"))),
    Row("allocations, host functions and event records are taken, and refused at instantiation", (
        _in("conditional body: an allocation", "alloc_async p s", 0),
        _in("conditional body: an allocation", "instantiate_params g x", 1),
        _in("conditional body: a host function", "instantiate_params g x", 1),
        _in("conditional body: an external event record", "instantiate_params g x", 1))),
)  # fmt: skip

UPDATES = (
    Row("what may change between two captures", tuple(_in(f"update: {name}", "update x h")
        for name in ("nothing", "kernel arguments", "grid and block", "dynamic shared memory",
                     "the function", "the function, to another signature", "memcpy pointers",
                     "memcpy size", "memset value", "memset size", "memset width"))),
    Row("another number of nodes, or other edges: the topology", tuple(
        _in(f"update: {name}", "update x h", 910)
        for name in ("one node more", "one node fewer", "to an empty graph",
                     "same count, other edges"))),
    Row("another kind of node: its type", tuple(
        _in(f"update: {name}", "update x h", 910)
        for name in ("kernel to memset", "kernel to allocation"))),
    Row("another direction of a copy: the parameters", (
        _in("update: memcpy device to device, then host to device", "update x h", 910),)),
    Row("the old executable runs on after a refused update, and asking again harms nothing", (
        _in("update: one node more", "graph_launch x s"),
        *_reads("update: a refused one leaves what runs", "fetch buffer", 5))),
    Row("memory nodes: a second launch is refused, unless a launch frees what is there", (
        _in("memory nodes: allocation, launched twice", "graph_launch x s"),
        _in("memory nodes: allocation, launched twice", "graph_launch x s", 1, place=1),
        _in("memory nodes: allocation, auto-free, launched twice", "graph_launch x s", place=1))),
    Row("another cluster size: success, and the old size stays", (
        _in("update: cluster size, none to 2", "update x h"),
        _in("update: cluster size, 2 to 4", "update x h"),
        _in("update: cluster size, 4 to 2", "update x h"),
        _in("update: cluster size, 2 to none", "update x h"))),
    Row("normal to cooperative or back: the attributes", (
        _in("update: normal to cooperative", "update x h", 910),
        _in("update: cooperative to normal", "update x h", 910))),
)  # fmt: skip

ASKED = (
    Row("offset and size of each parameter, and no more of them", (
        _in("function: its parameters", "param_info noop 3"),
        _in("function: its parameters", "param_info noop 4", 1))),
    Row("a kernel's name", (_in("function: its name", "function_name noop"),)),
    Row("external record nodes give a time after a replay", (
        _in("external record nodes give times at each replay", "sync s"),
        _in("external record nodes give times at each replay", "event_query t2"))),
    Row("a graph is written as a picture", (_in("build: written as a picture", "dot g"),)),
    Row("an instantiation tells its result and a node", (
        _in("build: an edge that closes a cycle", "instantiate_with g y 0", 1),)),
    Row("a host function node runs at each launch", (
        _in("host function: three launches", "sync s"),)),
    Row("an address is asked for by name and version", (
        _in("outside a capture: cuGetProcAddress", "ask cuGetProcAddress"),
        _in("outside a capture: cuGetProcAddress of a later version", "ask cuGetProcAddress"))),
    Row("the parameters of a captured node are read back", (
        _in("stream: a capture of rows", "node_get memcpy g 0"),
        _in("stream: a capture of rows", "node_get memset g 0"))),
)  # fmt: skip

ROWS = (*IN_A_CAPTURE, *BY_ANOTHER_THREAD, *BODIES, *UPDATES, *ASKED)

# What the driver does not answer, with the test that holds it.
ELSEWHERE = (
    ("the bindings lose why an update failed: the C call is asked",
     "tests/driver/test_graphs.py::test_refused_update_gives_reason_and_node"),
    ("a graph of the driver goes through the runtime's calls",
     "tests/embedding/test_cupy_ops.py::test_cupys_runtime_launches_our_graph"),
    ("the bindings' host functions run once", "tests/field_cases/test_case_14_host_callback.py"
     "::test_bare_through_the_bindings_the_second_replay_may_crash"),
    ("an enum value that the bindings do not know",
     "tests/driver/test_gate.py::test_unknown_enum_value_names_the_call"),
    ("no driver on the machine",
     "tests/driver/test_gate.py::test_missing_driver_is_an_unavailable_device"),
    ("waits and launches let other Python threads run",
     "tests/capture/test_host_calls.py::test_another_thread_may_call_while_a_host_call_runs"),
    ("cuBLAS without a workspace captures memory nodes", "tests/blas/test_bare_cublas.py"
     "::test_without_a_workspace_a_captured_product_allocates_and_ours_does_not"),
    ("cuBLAS' workspace after the stream is set",
     "tests/blas/test_workspace.py::test_each_stream_has_a_workspace_of_its_own"),
    ("cuBLAS' choice of kernels is fixed before the capture", "tests/blas/test_fixed_algorithm.py"
     "::test_the_algorithm_of_a_product_stays_on_every_stream_and_can_be_read"),
    ("what CuPy refuses while a stream captures", "tests/field_cases/test_case_18_cupy.py"
     "::test_after_a_capture_that_was_broken_cupy_computes_what_it_did"),
    ("a libcuda of one's own: names, versions, exports", "tests/hostdev/driver/test_driver_procs.py"
     "::test_every_call_of_the_header_that_is_there_is_in_the_table"),
    ("NVRTC beside a libcuda of one's own",
     "tests/kernel_library/test_nvrtc.py::test_nvrtc_lives_beside_the_host_devices_libcuda"),
    ("which libcuda wins",
     "tests/hostdev/driver/test_driver_procs.py::test_another_driver_in_the_process_is_refused"),
    ("module images are pointers without a length",
     "tests/hostdev/driver/test_driver_modules.py::test_an_image_that_is_none_of_ours_is_refused"),
    ("cuda.core's builder", "tests/foreign/test_cuda_core.py::test_split_and_join_record_the_fork"),
    ("kernels in a wheel",
     "tests/packaging/test_wheel.py::test_wheel_holds_kernels_and_host_device_sources"),
    ("norms beside a reference of another precision",
     "tests/models/test_nearness.py::test_equally_good_programs_pass"),
    ("what a language model has to beat",
     "tests/train/test_data.py::test_bigram_cross_entropy_is_that_of_the_counts"),
)  # fmt: skip

# What was measured and no test can hold: the benchmark, and what it printed.
COSTS = (
    ("costs of launches and of graphs", "benchmarks/step_overhead.py", "step_overhead.json"),
    ("costs of updates and of set nodes", "benchmarks/update_costs.py", "update_costs.json"),
)
