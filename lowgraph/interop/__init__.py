"""The border to other libraries: their arrays, streams and graphs, and ours for them.

CuPy is imported on first use, by what has its name; nothing else here needs another library.
"""

from __future__ import annotations

from lowgraph.driver.foreign_stream import StreamLike, stream_handle
from lowgraph.interop.arrays import Ordered, foreign_memory, ordered
from lowgraph.interop.buffers import ForeignBuffer
from lowgraph.interop.cupy_block import cupy_ops
from lowgraph.interop.cupy_kernels import cupy_kernel
from lowgraph.interop.cupy_views import cupy_view, slice_of
from lowgraph.interop.graphs import RawGraph, SharedStream, add_child, raw_graph

__all__ = [
    "ForeignBuffer",
    "Ordered",
    "RawGraph",
    "SharedStream",
    "StreamLike",
    "add_child",
    "cupy_kernel",
    "cupy_ops",
    "cupy_view",
    "foreign_memory",
    "ordered",
    "raw_graph",
    "slice_of",
    "stream_handle",
]
