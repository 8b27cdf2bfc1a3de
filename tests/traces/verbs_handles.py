"""Calls without a handle: null where an object, an address or a size has to be.

Only null: a stale handle is a pointer to freed memory for a real driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from tests.traces.verbs_build import copy_params, fill_params, host_params, kernel_params
from tests.traces.world import BYTES, World, attempt

Answer = tuple[int, Any]

_NULL: dict[str, Callable[[World], tuple[Any, ...]]] = {
    "cuGraphDestroy": lambda _: (cu.CUgraph(0),),
    "cuGraphClone": lambda _: (cu.CUgraph(0),),
    "cuGraphGetNodes": lambda _: (cu.CUgraph(0), 0),
    "cuGraphGetRootNodes": lambda _: (cu.CUgraph(0), 0),
    "cuGraphInstantiate": lambda _: (cu.CUgraph(0), 0),
    "cuGraphDestroyNode": lambda _: (cu.CUgraphNode(0),),
    "cuGraphNodeGetType": lambda _: (cu.CUgraphNode(0),),
    "cuGraphKernelNodeGetParams": lambda _: (cu.CUgraphNode(0),),
    "cuGraphMemsetNodeSetParams": lambda w: (cu.CUgraphNode(0), fill_params(w)),
    "cuGraphKernelNodeSetParams": lambda w: (cu.CUgraphNode(0), kernel_params(w)),
    "cuGraphMemcpyNodeSetParams": lambda w: (cu.CUgraphNode(0), copy_params(w)),
    "cuGraphAddEmptyNode": lambda _: (cu.CUgraph(0), None, 0),
    "cuGraphAddHostNode": lambda w: (cu.CUgraph(0), None, 0, host_params(w)),
    "cuGraphAddKernelNode": lambda w: (cu.CUgraph(0), None, 0, kernel_params(w)),
    "cuGraphExecDestroy": lambda _: (cu.CUgraphExec(0),),
    "cuGraphLaunch": lambda w: (cu.CUgraphExec(0), w.streams["s"]),
    "cuGraphUpload": lambda w: (cu.CUgraphExec(0), w.streams["s"]),
    "cuGraphExecGetFlags": lambda _: (cu.CUgraphExec(0),),
    "cuEventDestroy": lambda _: (cu.CUevent(0),),
    "cuEventQuery": lambda _: (cu.CUevent(0),),
    "cuEventSynchronize": lambda _: (cu.CUevent(0),),
    "cuEventRecord": lambda w: (cu.CUevent(0), w.streams["s"]),
    "cuEventElapsedTime": lambda w: (cu.CUevent(0), w.events["t1"]),
    "cuStreamWaitEvent": lambda w: (w.streams["s"], cu.CUevent(0), 0),
    "cuStreamDestroy": lambda _: (cu.CUstream(0),),
    "cuStreamBeginCapture": lambda _: (cu.CUstream(0), cu.CUstreamCaptureMode(0)),
    "cuStreamEndCapture": lambda _: (cu.CUstream(0),),
    "cuStreamIsCapturing": lambda _: (cu.CUstream(0),),
    "cuModuleUnload": lambda _: (cu.CUmodule(0),),
    "cuModuleGetFunction": lambda _: (cu.CUmodule(0), b"noop"),
    "cuFuncGetParamInfo": lambda _: (cu.CUfunction(0), 0),
    "cuFuncLoad": lambda _: (cu.CUfunction(0),),
    "cuMemFree": lambda _: (0,),
    "cuMemFreeHost": lambda _: (0,),
    "cuMemFreeAsync": lambda w: (0, w.streams["s"]),
    "cuMemcpyDtoDAsync": lambda w: (0, w.buffers[0], 64, w.streams["s"]),
    "cuMemsetD8Async": lambda w: (0, 0, 64, w.streams["s"]),
    "cuMemAlloc": lambda _: (0,),
    "cuMemHostAlloc": lambda _: (0, 0),
    "cuMemHostRegister": lambda _: (0, BYTES, 0),
    "cuMemHostUnregister": lambda _: (0,),
    "cuMemAllocAsync": lambda w: (0, w.streams["s"]),
    "cuLibraryUnload": lambda _: (cu.CUlibrary(0),),
    "cuUserObjectRelease": lambda _: (cu.CUuserObject(0), 1),
}


def null(world: World, call: str) -> Answer:
    """The call with a null handle, address or size in its place."""
    return attempt(getattr(cu, call), *_NULL[call](world))[0], None


NULL_CALLS = tuple(_NULL)
VERBS = {"null": null}
