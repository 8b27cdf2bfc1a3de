"""The calls whose form differs between cuda-bindings 12.9 and 13.x, one place for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver

BINDINGS_MAJOR = int(driver.CUDA_VERSION) // 1000
"""CUDA major that the installed bindings are made for: the driver must be of it or later."""


def _newest(*names: str) -> Callable[..., Any]:
    """Return the first of the functions that the installed bindings have."""
    for name in names:
        function = getattr(driver, name, None)
        if function is not None:
            found: Callable[..., Any] = function
            return found
    raise AttributeError(f"cuda-bindings has none of {names}")


# 12.9's plain names are the forms without edge data, which answer LOSSY_QUERY on a graph that has
# any (programmatic dependent launch); its _v2/_v3 are what 13 calls by the plain name. The results
# before the edge data stand in the same places in both.
graph_get_edges = _newest("cuGraphGetEdges_v2", "cuGraphGetEdges")
graph_node_get_dependencies = _newest("cuGraphNodeGetDependencies_v2", "cuGraphNodeGetDependencies")
graph_add_node = _newest("cuGraphAddNode_v2", "cuGraphAddNode")
stream_update_dependencies = _newest(
    "cuStreamUpdateCaptureDependencies_v2", "cuStreamUpdateCaptureDependencies"
)
stream_get_capture_info = _newest("cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo")

# Calls that also differ, and why they do not appear here: cuCtxCreate (13 takes creation
# parameters) is not used, the primary context is, which CuPy and cuBLAS share;
# cuGraphAddDependencies (13 takes edge data) is not used, graphs come from capture alone;
# cuGraphExecUpdate and cuLaunchHostFunc are reached in C (entry.py) on every version.
