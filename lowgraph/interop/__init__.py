"""The border to other libraries: their arrays, streams and graphs, and ours for them.

CuPy is imported on first use, by `cupy_view` alone; nothing else here needs another library.
"""

from __future__ import annotations

from lowgraph.driver.foreign_stream import StreamLike, stream_handle
from lowgraph.interop.arrays import Ordered, foreign_memory, ordered
from lowgraph.interop.buffers import ForeignBuffer
from lowgraph.interop.cupy_views import cupy_view
from lowgraph.interop.graphs import RawGraph, SharedStream, add_child, raw_graph

__all__ = [
    "ForeignBuffer",
    "Ordered",
    "RawGraph",
    "SharedStream",
    "StreamLike",
    "add_child",
    "cupy_view",
    "foreign_memory",
    "ordered",
    "raw_graph",
    "stream_handle",
]
