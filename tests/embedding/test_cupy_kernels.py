"""Kernels that CuPy compiled, launched from here, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.capture import Phase
from lowgraph.errors import (
    ArgTypeError,
    ConfigError,
    FrozenScalar,
    KernelSourceError,
    ModuleLoadDuringCapture,
)
from lowgraph.interop import cupy_kernel, cupy_ops, cupy_view
from lowgraph.kernels import Kernel, SizedKernel
from lowgraph.memory import download, upload
from tests.embedding.small import BLOCKS, N, Small

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

SOURCE = """
extern "C" __global__ void axpy(float* y, const float* __restrict__ x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
template <typename T> __global__ void twice(T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] *= 2;
}
"""
PARAMS = "float* y, const float* x, float a, int n"


@pytest.fixture(scope="module")
def module() -> Any:
    return cupy.RawModule(code=SOURCE, options=("-std=c++17",),
                          name_expressions=["twice<float>"])  # fmt: skip


@pytest.mark.parametrize("n", [1, 31, 33, 257])
def test_its_parameters_are_those_of_the_source_and_checked(
    small: Small, module: Any, n: int
) -> None:
    axpy = cupy_kernel(cupy.RawKernel(SOURCE, "axpy"))
    assert isinstance(axpy, Kernel) and str(axpy.signature) == (
        "axpy(float* y, float* x, float a, int n)"
    )
    x, y = small.pool.take("a", n), small.pool.take("b", n)
    values = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    upload(x, values, small.stream)
    upload(y, values, small.stream)
    axpy(small.stream, -(-n // 128), 128, y, x, 0.5, n)
    # One fused multiply and add in float32: half an ulp.
    wanted = 1.5 * values.astype(np.float64)
    np.testing.assert_allclose(download(y, small.stream), wanted, rtol=1.2e-7)
    with pytest.raises(ArgTypeError) as caught:
        axpy(small.stream, 1, 128, y, x, "half", n)
    assert (caught.value.kernel, caught.value.argument) == ("axpy", "a")


def test_it_is_a_node_of_ours(small: Small) -> None:
    axpy = cupy_kernel(cupy.RawKernel(SOURCE, "axpy"))
    step = small.ready(body=lambda s: axpy(s, BLOCKS, 128, small.y, small.x, 2.0, N))
    assert step.phase is Phase.READY and small.value() == 4
    record = step.graph.node(0)  # type: ignore[union-attr]
    assert record.name == "axpy" and record.signature is not None


def test_its_scalars_are_compared(small: Small) -> None:
    axpy, rates = cupy_kernel(cupy.RawKernel(SOURCE, "axpy")), iter([1.0, 2.0])
    step = small.step(body=lambda s: axpy(s, BLOCKS, 128, small.y, small.x, next(rates), N))
    step.prime()
    with pytest.raises(FrozenScalar, match="argument 'a' of axpy"):
        step.capture()


def test_a_template_has_sizes_until_its_first_launch(small: Small, module: Any) -> None:
    twice = cupy_kernel(module.get_function("twice<float>"))
    assert isinstance(twice, SizedKernel) and twice.sizes == (8, 4)
    upload(small.y, np.ones(N, np.float32), small.stream)
    twice(small.stream, BLOCKS, 128, small.y, N)
    assert small.value() == 2
    typed = cupy_kernel(module.get_function("twice<float>"), params="float* y, int n")
    typed(small.stream, BLOCKS, 128, small.y, N)
    assert isinstance(typed, Kernel) and small.value() == 4


def test_parameters_that_are_not_the_codes_are_refused(small: Small) -> None:
    kernel = cupy.RawKernel(SOURCE, "axpy")
    with pytest.raises(KernelSourceError, match="3 parameters, the image's kernel has 4"):
        cupy_kernel(kernel, params="float* y, const float* x, int n")
    with pytest.raises(ConfigError, match="is no kernel of CuPy's: give a"):
        cupy_kernel(SOURCE)


def test_in_a_window_it_is_refused_before_cupy_compiles(small: Small) -> None:
    def body(stream: int) -> None:
        small.add(stream, BLOCKS, 128, small.y, small.x, N)
        cupy_kernel(cupy.RawKernel(SOURCE, "axpy"))

    step = small.step(body=body)
    step.prime()
    with pytest.raises(ModuleLoadDuringCapture, match="call cupy_kernel before the step"):
        step.capture()


def test_called_by_cupy_in_the_block_it_is_an_operation_of_cupys(small: Small) -> None:
    axpy = cupy.RawKernel(SOURCE, "axpy")
    x, y = cupy_view(small.x), cupy_view(small.y)

    def body(stream: int) -> None:
        with cupy_ops(small.pool, stream):
            axpy((BLOCKS,), (128,), (y, x, np.float32(2), np.int32(N)))

    step = small.step(body=body)
    for _ in range(3):
        step()
    assert small.value() == 6 and step.report().nodes == 1
    assert small.pool.holders(small.x) == ["step"], "found inside of CuPy's arguments"
