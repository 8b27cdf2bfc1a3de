"""The same calls wherever a capture may stand: another thread, a blocking stream, a joined one, the
per-thread stream, after an invalidation, after the end; and events by the fate of their capture."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario

_HELD = "graph_create k; add_kernel ka k; instantiate k x"
_DONE = "record e3 u; record t1 u; record t2 u; sync u"

# (name, what goes before the capture, the call); {} is the capturing stream.
_CALLS = (
    ("cuMemHostRegister", "", "host_register"),
    ("cuMemPoolTrimTo", "", "pool_trim"),
    ("cuMemGetInfo", "", "mem_info"),
    ("cuCtxSetLimit", "", "ctx_limit"),
    ("cuCtxGetLimit", "", "ctx_get_limit"),
    ("cuCtxGetDevice", "", "ctx_device"),
    ("cuMemcpyDtoH", "", "copy_dtoh"),
    ("cuMemcpyDtoD", "", "copy_dtod"),
    ("cuMemsetD8", "", "memset"),
    ("cuMemHostAlloc", "", "host_alloc"),
    ("cuMemAlloc", "", "alloc p"),
    ("cuMemFree", "alloc p", "free p"),
    ("cuMemAllocAsync", "", "alloc_async p {}"),
    ("cuMemFreeAsync of an address from outside", "alloc_async p u; sync u", "free_async p {}"),
    ("cuMemcpyHtoDAsync from pageable memory", "", "copy_htod_async {} pageable"),
    ("cuMemcpyDtoHAsync from pinned memory", "", "copy_dtoh_async {}"),
    ("cuMemcpyDtoDAsync", "", "copy_dtod_async {}"),
    ("cuMemcpyAsync", "", "copy_any_async {}"),
    ("cuMemcpy2DAsync", "", "copy_rows_async {} 64 2"),
    ("cuMemsetD8Async", "", "memset_async {}"),
    ("cuMemsetD2D8Async", "", "fill_rows_async {} 64 2"),
    ("cuLaunchHostFunc", "", "host_function {}"),
    ("cooperative launch", "", "launch {} cooperative=1"),
    ("launch with too much shared memory", "", "launch {} shared=300000"),
    ("launch with an empty grid", "", "launch {} grid=0"),
    ("cuStreamIsCapturing", "", "is_capturing {}"),
    ("cuStreamGetCaptureInfo", "", "capture_info {}"),
    ("cuStreamGetFlags", "", "stream_flags {}"),
    ("cuStreamGetPriority", "", "stream_priority {}"),
    ("cuStreamSynchronize", "", "sync {}"),
    ("cuStreamQuery", "", "query {}"),
    ("cuStreamSynchronize of the per-thread stream", "", "sync per_thread"),
    ("cuStreamQuery of the per-thread stream", "", "query per_thread"),
    ("cuStreamSynchronize of another stream", "", "sync u"),
    ("cuStreamCreate", "", "stream_create v"),
    ("cuStreamDestroy of another stream", "", "stream_destroy u"),
    ("cuEventCreate", "", "event_create e4"),
    ("cuEventDestroy", "", "event_destroy e3"),
    ("cuEventRecord", "", "record e1 {}"),
    ("cuEventRecord, external", "", "record_external e1 {}"),
    ("cuEventRecord on another stream", "", "record e1 u"),
    ("cuStreamWaitEvent on an event never recorded", "", "wait {} e2"),
    ("cuStreamWaitEvent on an event recorded before", _DONE, "wait {} e3"),
    ("cuStreamWaitEvent, external", _DONE, "wait_external {} e3"),
    ("cuEventQuery of an event recorded before", _DONE, "event_query e3"),
    ("cuEventSynchronize of an event recorded before", _DONE, "event_sync e3"),
    ("cuEventElapsedTime", _DONE, "elapsed t1 t2"),
    ("cuModuleLoadData", "", "module_load m"),
    ("cuModuleUnload", "module_load m", "module_unload m"),
    ("cuModuleGetFunction", "", "get_function noop2"),
    ("cuLibraryLoadData", "", "library_load l"),
    ("cuFuncSetAttribute", "", "allow_shared noop2 65536"),
    ("cuFuncGetAttribute", "", "function_attribute noop MAX_THREADS_PER_BLOCK"),
    ("cuFuncLoad", "", "function_load noop"),
    ("cuFuncGetParamInfo", "", "param_info noop 0"),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessor", "", "occupancy noop 64"),
    ("cuPointerGetAttribute", "", "pointer MEMORY_TYPE buffer"),
    ("cuGraphCreate", "", "graph_create h"),
    ("cuGraphAddKernelNode to another graph", "graph_create k", "add_kernel ka k"),
    ("cuGraphClone of another graph", _HELD, "graph_clone k l"),
    ("cuGraphDestroy of another graph", _HELD, "graph_destroy k"),
    ("cuGraphInstantiate", _HELD, "instantiate k y"),
    ("cuGraphExecUpdate", _HELD, "update x k"),
    ("cuGraphExecKernelNodeSetParams", _HELD, "exec_set kernel x k ka grid=2"),
    ("cuGraphNodeSetEnabled", _HELD, "node_set_enabled x k 0 0"),
    ("cuGraphUpload", _HELD, "upload x {}"),
    ("cuGraphUpload into another stream", _HELD, "upload x u"),
    ("cuGraphLaunch", _HELD, "graph_launch x {}"),
    ("cuGraphLaunch into another stream", _HELD, "graph_launch x u"),
    ("cuGraphExecDestroy", _HELD, "exec_destroy x"),
    ("cuStreamBeginCapture", "", "begin {}"),
    ("cuStreamBeginCapture of another stream", "", "begin u; end u h"),
    ("cuStreamBeginCaptureToGraph", "graph_create k", "begin_to {} k"),
    ("cuStreamUpdateCaptureDependencies", "", "dependencies {} set"),
    ("cuThreadExchangeStreamCaptureMode", "", "exchange_mode GLOBAL"),
    ("cuCtxSynchronize", "", "ctx_sync"),
    ("cuDevicePrimaryCtxRetain", "", "primary_retain; primary_release"),
    ("cuUserObjectCreate", "", "object_create o; object_release o"),
)  # fmt: skip

_LEGACY = tuple((f"{name} of the legacy stream", before, call.format("legacy"))
                for name, before, call in _CALLS if "{}" in call)  # fmt: skip
_FORK = "begin s; launch s; record e2 s; wait t e2; launch t"
_BACK = "record e2 t; wait s e2; launch s; end s g"

# What became of the capture that recorded e1 last, and what is asked of it then.
_FATES = (
    ("ended", "begin s; launch s; record e1 s; record t1 s; end s g"),
    ("was invalidated and ended", "begin s; launch s; record e1 s; record t1 s; ctx_sync; end s g"),
    ("is invalidated", "begin s RELAXED; launch s; record e1 s; record t1 s; ctx_sync"),
    ("goes on", "begin s RELAXED; launch s; record e1 s; record t1 s"),
    ("lost its stream", "begin s; launch s; record e1 s; record t1 s; stream_destroy s"),
    ("was not joined", "begin s; launch s; record e2 s; wait t e2; launch t; record e1 t; "
     "record t1 t; end s g"),
    ("was ended by another thread", "begin s; launch s; record e1 s; record t1 s; @end s g"),
)  # fmt: skip
_ASKED = (
    ("query", "event_query e1"), ("synchronise", "event_sync e1"),
    ("query by another thread", "@event_query e1"), ("elapsed", "elapsed t1 t1; elapsed t1 t2"),
    ("wait of a free stream", "wait u e1; launch u; end u h"),
    ("wait of the legacy stream", "wait legacy e1"),
    ("wait of the per-thread stream", "wait per_thread e1; is_capturing per_thread"),
    ("wait of a blocking stream", "wait b e1; launch b"),
    ("wait of a capture", "begin u RELAXED; launch u; wait u e1; launch u; end u h"),
    ("external wait of a free stream", "wait_external u e1"),
    ("external wait of a capture", "begin u RELAXED; launch u; wait_external u e1; end u h"),
    ("recorded anew", "record e1 u; sync u; event_query e1"),
    ("destroyed", "event_destroy e1; event_create e1; event_query e1"),
    ("an event record node", "graph_create k; add_record r k e1; add_wait w k e1 r; "
     "instantiate k y; graph_launch y u; sync u; event_query e1"),
)  # fmt: skip

SCENARIOS = (
    *(Scenario(f"in a blocking capture: {name}",
               f"{before}; begin b; launch b; {call.format('b')}; "
               "launch b; end b g", EVERY_MODE) for name, before, call in _CALLS),
    *(Scenario(f"in a capture, by another thread: {name}", f"{before}; begin s; launch s; "
               f"{'; '.join('@' + step.strip() for step in call.format('s').split(';'))}; "
               "launch s; end s g", EVERY_MODE) for name, before, call in _CALLS),
    *(Scenario(f"in a capture, on a joined stream: {name}", f"{before}; {_FORK}; "
               f"{call.format('t')}; {_BACK}", EVERY_MODE)
      for name, before, call in _CALLS if "{}" in call),
    *(Scenario(f"in a blocking capture: {name}", f"{before}; begin b; launch b; {call}; launch b; "
               "end b g", EVERY_MODE) for name, before, call in _LEGACY),
    *(Scenario(f"beside a capture: {name}", f"{before}; begin s; launch s; {call}; launch s; "
               "end s g", EVERY_MODE) for name, before, call in _LEGACY),
    *(Scenario(f"in a per-thread capture: {name}", f"{before}; begin per_thread; "
               f"launch per_thread; {call.format('per_thread')}; launch per_thread; "
               "end per_thread g", EVERY_MODE) for name, before, call in _CALLS if "{}" in call),
    *(Scenario(f"after an invalidation: {name}", f"{before}; begin s; launch s; query s; "
               f"{call.format('s')}; end s g", EVERY_MODE) for name, before, call in _CALLS),
    *(Scenario(f"after a capture: {name}", f"{before}; begin s; launch s; end s g; "
               f"{call.format('s')}; sync s", EVERY_MODE) for name, before, call in _CALLS),
    *(Scenario(f"event of a capture that {fate}: {name}", f"record t2 u; sync u; {setup}; {call}; "
               "end s z", EVERY_MODE)
      for fate, setup in _FATES for name, call in _ASKED
      if fate != "lost its stream"),
    *(Scenario(f"event of a capture that lost its stream: {name}",
               f"record t2 u; sync u; {_FATES[4][1]}; {call}", EVERY_MODE)
      for name, call in _ASKED),
)  # fmt: skip
