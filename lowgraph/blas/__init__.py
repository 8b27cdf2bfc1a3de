"""Matrix products, and linear layers over them: cuBLAS on a GPU, gemm.cu on the host device.

The backend is `device.blas_backend`, picked once; there is no fallback from one to the other. Both
work in preallocated workspaces, one a stream: cuBLAS would otherwise allocate in a capture, and the
size is among what decides which of its kernels run. Matrices are row-major.
"""

from __future__ import annotations

from lowgraph.blas.backend import Product
from lowgraph.blas.kernel import split_k
from lowgraph.blas.layer import Form, Layer
from lowgraph.blas.products import Blas
from lowgraph.blas.routes import Route, Routes
from lowgraph.blas.sides import SideStreams
from lowgraph.blas.workspace import Workspaces, workspace_bytes

__all__ = [
    "Blas",
    "Form",
    "Layer",
    "Product",
    "Route",
    "Routes",
    "SideStreams",
    "Workspaces",
    "split_k",
    "workspace_bytes",
]
