"""Case 18 with CuPy: a failure that was swallowed is blamed on nobody, one that is lost on all."""

from __future__ import annotations

import contextlib
import ctypes
import logging

import numpy as np
import pytest

from lowgraph.capture import Phase
from lowgraph.errors import CaptureRefused
from lowgraph.interop import cupy_ops, cupy_view
from lowgraph.memory import download, open_window
from tests.capture.micro import Micro
from tests.support.process import output_of

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

HUGE = 1 << 50


def swallow_a_failure() -> None:
    with contextlib.suppress(cupy.cuda.runtime.CUDARuntimeError):
        cupy.cuda.runtime.malloc(HUGE)
        raise AssertionError


def test_a_failure_that_was_swallowed_is_not_blamed_on_a_step(micro: Micro) -> None:
    y = cupy_view(micro.y)

    def body(stream: int) -> None:
        with cupy_ops(micro.pool, stream):
            y[...] = y + 1
            y[0] = y[1:].max()

    step = micro.step(body=body)
    for _ in range(4):
        swallow_a_failure()
        step()
        swallow_a_failure()
    assert np.all(download(micro.y, micro.stream) == 4)
    assert step.phase is Phase.READY and step.report().refusals == 0 and micro.said == []


def test_a_stale_error_of_a_shared_runtime_is_taken_away_and_logged(
    micro: Micro, caplog: pytest.LogCaptureFixture
) -> None:
    pathfinder = pytest.importorskip("cuda.pathfinder")
    try:
        cudart = ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("cudart").abs_path)
    except (pathfinder.DynamicLibNotFoundError, RuntimeError) as error:
        pytest.skip(f"no shared CUDA runtime: {error}")
    y = cupy_view(micro.y)

    def body(stream: int) -> None:
        with cupy_ops(micro.pool, stream):
            y[...] = y + 1

    step = micro.step(body=body)
    for _ in range(2):
        pointer = ctypes.c_void_p()
        assert cudart.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(HUGE)) == 2
        caplog.clear()
        with caplog.at_level(logging.WARNING, "lowgraph.interop"):
            step()
        assert cudart.cudaPeekAtLastError() == 0
        (message,) = caplog.messages
        assert "stale error, 2 cudaErrorMemoryAllocation" in message
        assert "test_case_18_cupy.py:" in message
    assert step.report().refusals == 0 and np.all(download(micro.y, micro.stream) == 2)


def test_after_a_capture_that_was_broken_cupy_computes_what_it_did(micro: Micro) -> None:
    """Its reductions look at no code: a stale one in their runtime would leave parts undone."""
    values = cupy.arange(1 << 20, dtype="f4")
    cupy.cuda.get_current_stream().synchronize()
    y = cupy_view(micro.y)

    def body(stream: int) -> None:
        with cupy_ops(micro.pool, stream):
            if open_window.mine() is not None:
                with contextlib.suppress(Exception):
                    cupy.cuda.runtime.malloc(64)  # 900: the capture is broken
            y[0] = values.sum()

    step = micro.step(body=body)
    step.prime()
    with pytest.raises(CaptureRefused):
        step.capture()
    expected = (2**20 - 1) * 2.0**19
    for _ in range(2):
        # float32, a tree of 2^20 sums: a rounding of 6e-8 for each of its 20 levels.
        np.testing.assert_allclose(float(values.sum()), expected, rtol=2e-6)
    swallow_a_failure()
    np.testing.assert_allclose(float(values.max()), 2**20 - 1)


_LOST = """
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import cupy
from lowgraph import GraphStep, Library, PersistentPool, driver
from lowgraph.errors import ContextPoisoned
from lowgraph.interop import cupy_ops, cupy_view
device = driver.open_device({spec!r})
stream, library, pool = driver.stream.create(), Library(device), PersistentPool(device)
y = cupy_view(pool.take("y", 1000))
wild = cupy.ndarray((1000,), "f4", cupy.cuda.MemoryPointer(
    cupy.cuda.UnownedMemory(0x40, 4000, None, device.ordinal), 0))
def body(s):
    with cupy_ops(pool, s) as theirs:
        y.fill(1)
        cupy.multiply(y, 2, out=wild)  # a kernel: a copy the driver would do itself, and die
        theirs.synchronize()
step = GraphStep(body, device=device, pool=pool, library=library, stream=stream, say=print)
for _ in range(2):
    try:
        step()
        print("ran")
    except ContextPoisoned as error:
        print(error.code, "a call of CuPy" in error.first)
try:
    driver.memory.alloc(64)
except ContextPoisoned as error:
    print("not sent" if "not sent to the driver" in str(error) else error)
"""


def test_a_fault_of_cupys_is_known_from_the_first_call_that_says_so(
    request: pytest.FixtureRequest,
) -> None:
    text = output_of(_LOST.format(spec=str(request.config.getoption("--device"))))
    assert text.splitlines() == ["700 True"] * 2 + ["not sent"]
