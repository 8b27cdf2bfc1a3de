"""The real library: what a capture gets from an unprepared handle, and what a graph keeps."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.blas import Product
from lowgraph.blas.cublas import CublasBackend
from lowgraph.capture import Window
from lowgraph.capture.census import take_census
from lowgraph.memory import download
from tests.blas.bench import Bench

M, N, K = 128, 32, 128


@pytest.mark.gpu
def test_without_a_workspace_a_captured_product_allocates_and_ours_does_not(bench: Bench) -> None:
    api = importlib.import_module("nvmath.bindings.cublas")
    stream = bench.rig.stream
    a, b, out = bench.random("a", M, K), bench.random("b", K, N), bench.pool.take("out", (M, N))
    scalars = np.array([1.0, 0.0], np.float32)
    one, zero = scalars.ctypes.data, scalars.ctypes.data + 4
    handle = api.create()
    api.set_stream(handle, stream)
    driver.stream.begin_capture(stream)
    api.gemm_ex(handle, 0, 0, N, M, K, one, b.address, 0, N, a.address, 0, K, zero, out.address, 0,
                N, int(api.ComputeType.COMPUTE_32F), int(api.GemmAlgo.DEFAULT))  # fmt: skip
    graph = driver.stream.end_capture(stream)
    assert {"mem_alloc", "mem_free"} <= set(take_census(graph).types)
    driver.graph.destroy(graph)
    api.destroy(handle)

    bench.blas.prepare([Product(M, N, K)])
    window = Window(stream, pool=bench.pool, library=bench.rig.library)
    with window:
        bench.blas.gemm(stream, out, a, b, M, N, K)
    assert window.recording is not None and set(window.recording.census.types) == {"kernel"}
    window.discard()


@pytest.mark.gpu
def test_a_graph_holds_the_values_of_the_factors_not_their_address(bench: Bench) -> None:
    a, b, out = bench.random("a", M, K), bench.random("b", K, N), bench.pool.take("out", (M, N))
    step = bench.step(lambda stream: bench.blas.gemm(stream, out, a, b, M, N, K), "product")
    step.prime()
    step.capture()
    step.replay()
    before = download(out, bench.rig.stream).tobytes()
    backend = bench.blas._backend
    assert isinstance(backend, CublasBackend)
    backend._factors[:] = 7.0
    step.replay()
    after = download(out, bench.rig.stream).tobytes()
    backend._factors[:] = 1.0, 0.0
    assert after == before
