"""Calls that the library makes and no other family places: each wherever a capture may stand to it;
and what becomes of the current context when no other can take its place."""

from __future__ import annotations

from tests.traces.placing import placed
from tests.traces.scenario import EVERY_MODE, Scenario

_KERNEL = "graph_create k; add_kernel ka k"
_TWO = f"{_KERNEL}; add_kernel kb k ka"
_EACH = (f"{_KERNEL}; add_fill kf k; add_copy kc k; add_alloc km k p; add_free kr k p km; "
         "add_record ke k e3")  # fmt: skip
_CHILD = "graph_create l; add_kernel la l; graph_create k; add_child h k l"

# (name, what goes before the capture, the call)
_CALLS = (
    ("cuFuncGetName", "", "function_name noop"),
    ("cuFuncIsLoaded", "", "function_loaded noop"),
    ("cuMemHostGetDevicePointer", "", "device_pointer pinned"),
    ("cuMemFreeHost", "host_alloc", "host_free"),
    ("cuCtxGetCurrent", "", "ctx_which"),
    ("cuCtxSetCurrent", "", "ctx_use home"),
    ("cuCtxSetCurrent of none", "", "ctx_use none; ctx_use home"),
    ("cuGraphAddEmptyNode", "graph_create k", "add_empty n k"),
    ("cuGraphAddMemcpyNode", "graph_create k", "add_copy n k"),
    ("cuGraphAddMemsetNode", "graph_create k", "add_fill n k"),
    ("cuGraphAddHostNode", "graph_create k", "add_host n k"),
    ("cuGraphAddMemAllocNode", "graph_create k", "add_alloc n k q"),
    ("cuGraphAddChildGraphNode", "graph_create l; add_kernel la l; graph_create k",
     "add_child n k l"),
    ("cuGraphChildGraphNodeGetGraph", _CHILD, "child_shape k h"),
    ("cuGraphConditionalHandleCreate", "graph_create k", "cond_handle h k 1"),
    ("cuGraphGetNodes", _TWO, "nodes_of k"),
    ("cuGraphNodeGetType", _TWO, "type_of kb"),
    ("cuGraphNodeGetDependencies", _TWO, "node_waits k 1"),
    ("cuGraphAddDependencies", f"{_KERNEL}; add_kernel kb k", "edge k ka kb"),
    ("cuGraphDestroyNode", _TWO, "node_destroy kb"),
    ("cuGraphKernelNodeCopyAttributes", _TWO, "attributes_copy k 0 1"),
    ("cuGraphKernelNodeGetAttribute", _KERNEL, "attribute_get k 0 priority"),
    ("cuGraphKernelNodeSetAttribute", _KERNEL, "attribute_set k 0 priority -1"),
    ("cuGraphKernelNodeGetParams", _KERNEL, "node_get kernel k ka"),
    ("cuGraphKernelNodeSetParams", _KERNEL, "node_set kernel k ka grid=2"),
    ("cuGraphMemAllocNodeGetParams", _EACH, "node_get mem_alloc k km"),
    ("cuGraphMemFreeNodeGetParams", _EACH, "node_get mem_free k kr"),
    ("cuGraphMemcpyNodeGetParams", _EACH, "node_get memcpy k kc"),
    ("cuGraphMemsetNodeGetParams", _EACH, "node_get memset k kf"),
    ("cuGraphEventRecordNodeGetEvent", _EACH, "node_get record k ke"),
    ("cuGraphNodeGetEnabled", f"{_KERNEL}; instantiate k x", "node_enabled x k 0"),
    ("cuGraphDebugDotPrint", _TWO, "dot k"),
)  # fmt: skip

# Of the graph that the stream captures.
_OF_THE_CAPTURE = (
    ("its nodes", "graph_nodes capture:s"),
    ("a condition", "cond_handle h capture:s 1"),
)
_ENDS = (
    ("the legacy stream", "begin {0}; launch {0}; end legacy h; launch {0}; end {0} g"),
    ("the per-thread stream", "begin {0}; launch {0}; end per_thread h; launch {0}; end {0} g"),
    ("the stream twice", "begin {0}; launch {0}; end {0} g; end {0} h; launch {0}; sync {0}"),
)
_AFTER = "ctx_which; ctx_device; mem_info; alloc q; launch s; launch legacy; sync s; ctx_sync"
_NO_CONTEXTS = (("a small number", "119"), ("zeroed memory", "pageable"),
                ("memory of the device", "buffer"))  # fmt: skip
_SETTERS = (("made current", "ctx_use_number"), ("pushed", "ctx_put_number"))

_PICTURES = (
    ("a kernel", "graph_create g; add_kernel a g; dot_kernels g; dot_kernels g 1; dot_kernels g 2; "
     "dot_kernels g 1048576; dot g 0 /nothing/there"),
    ("a child graph", "graph_create k; add_launch a k kernel=noop2; graph_create g; "
     "add_child h g k; dot_kernels g; dot_kernels g 1"),
    ("a conditional body", "cond_load; graph_create g; add_kernel a g; cond_add n g if 1; "
     "body_add_kernel n0 noop2; dot_kernels g; dot_kernels g 1"),
)  # fmt: skip

SCENARIOS = (
    *(run for name, before, call in _CALLS for run in placed(name, before, call)),
    *(Scenario(f"the graph of the capture: {name}", f"begin s; launch s; {call}; @{call}; "
               "launch s; end s g", EVERY_MODE) for name, call in _OF_THE_CAPTURE),
    *(Scenario(f"the end of {name}, while {stream} captures", text.format(stream), EVERY_MODE)
      for name, text in _ENDS for stream in ("s", "b", "per_thread")),
    *(Scenario(f"contexts: no context {set_it}, {name}", f"{verb} {handle}; {_AFTER}", apart=True)
      for set_it, verb in _SETTERS for name, handle in _NO_CONTEXTS),
    *(Scenario(f"contexts: no context {set_it} in a capture, {name}", f"begin s; launch s; "
               f"{verb} {handle}; ctx_which; launch s; end s g; {_AFTER}", EVERY_MODE, apart=True)
      for set_it, verb in _SETTERS for name, handle in _NO_CONTEXTS[:1]),
    *(Scenario(f"contexts: no context {set_it} where none is, {name}", f"@ctx_clear; "
               f"@{verb} {handle}; @ctx_which; @ctx_restore; @ctx_which", apart=True)
      for set_it, verb in _SETTERS for name, handle in _NO_CONTEXTS[:1]),
    *(Scenario(f"a picture of {name}", text) for name, text in _PICTURES),
)  # fmt: skip
