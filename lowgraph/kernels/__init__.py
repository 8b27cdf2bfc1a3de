"""Kernel library: sources found and read, images compiled once and cached, functions handed out.

`library = Library(device)`, then once `fill = library.kernel("fill.cu", "fill")`, then as often as
wanted `fill(stream, grid, block, out, 0.5, count)`.
"""

from __future__ import annotations

from lowgraph.kernels.folder import KernelFolder
from lowgraph.kernels.launch import Kernel
from lowgraph.kernels.library import Library, LibraryStats
from lowgraph.kernels.loaded import KernelImage, SizedKernel
from lowgraph.kernels.signature import Param, Signature

__all__ = [
    "Kernel",
    "KernelFolder",
    "KernelImage",
    "Library",
    "LibraryStats",
    "Param",
    "Signature",
    "SizedKernel",
]
