"""Sizes that no launch can have are refused by name before the driver, which answers 1 to each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.driver import stream as streams
from lowgraph.errors import ArgTypeError
from lowgraph.kernels import Kernel, Library
from tests.support.rig import Rig

pytestmark = pytest.mark.both

STATIC = 8192
TEXT = f"""
extern "C" __global__ void __launch_bounds__(64) small(int* y) {{ y[threadIdx.x] = threadIdx.x; }}

// y[i] = i for the n numbers that dynamic shared memory has room for.   Launch: one block.
extern "C" __global__ void dynamic(int* y, int n)
{{
    extern __shared__ int numbers[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) numbers[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = numbers[i];
}}

// The same beside {STATIC} bytes of its own.
extern "C" __global__ void both(int* y, int n)
{{
    __shared__ int own[{STATIC // 4}];
    extern __shared__ int numbers[];
    for (int i = threadIdx.x; i < {STATIC // 4}; i += blockDim.x) own[i] = 1;
    for (int i = threadIdx.x; i < n; i += blockDim.x) numbers[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = numbers[i] * own[i % {STATIC // 4}];
}}
"""


@pytest.fixture
def kernels(rig: Rig, tmp_path: Path) -> dict[str, Kernel]:
    file = tmp_path / "limits.cu"
    file.write_text(TEXT)  # by its path a module of its own for each test, of one cached image
    return {name: rig.library.kernel(file, name) for name in ("small", "dynamic", "both")}


def refused(rig: Rig, kernel: Kernel, grid: Any, block: Any, *args: Any, shared: Any = 0) -> str:
    """The refusal, which no launch was made for, and which leaves an open capture whole."""
    streams.begin_capture(rig.stream)
    try:
        with rig.device.count_calls() as count, pytest.raises(ArgTypeError) as caught:
            kernel(rig.stream, grid, block, *args, shared=shared)
        assert not any("Launch" in call or "Set" in call for call in count.calls), count.calls
        assert streams.capture_status(rig.stream) == "active"
    finally:
        driver.graph.destroy(streams.end_capture(rig.stream))
    assert caught.value.kernel == kernel.name
    return str(caught.value)


@pytest.mark.parametrize("more", [1, 100_000])
def test_shared_memory_beyond_the_devices(rig: Rig, kernels: dict[str, Kernel], more: int) -> None:
    limit = rig.device.most_shared
    assert limit > 48 * 1024
    said = refused(rig, kernels["dynamic"], 1, 32, 0, 0, shared=limit + more)
    assert said == (
        f"dynamic: shared wants at most {limit} bytes (a block on {rig.device.spec} has {limit}), "
        f"given {limit + more}: let a block work on a smaller tile"
    )
    most = limit - STATIC
    said = refused(rig, kernels["both"], 1, 32, 0, 0, shared=most + more)
    assert said.startswith(
        f"both: shared wants at most {most} bytes (a block on {rig.device.spec} has {limit}, of "
        f"which its __shared__ variables take {STATIC}), given {most + more}: "
    )
    with pytest.raises(ArgTypeError, match=f"at most {most} bytes"):
        kernels["both"].allow_shared(most + more)


@pytest.mark.parametrize("name", ["dynamic", "both"])
@pytest.mark.parametrize("below", [48 * 1024, 48 * 1024 - STATIC, None])
def test_what_the_device_has_is_there(
    rig: Rig, kernels: dict[str, Kernel], name: str, below: int | None
) -> None:
    """To the last byte; and where static and dynamic bytes only together pass the first 48 KiB."""
    limit = rig.device.most_shared - (STATIC if name == "both" else 0)
    for nbytes in (limit,) if below is None else (below, below + 4):
        y = rig.put(np.full(nbytes // 4, -1, np.int32))
        kernels[name](rig.stream, 1, 33, y, nbytes // 4, shared=nbytes)
        np.testing.assert_array_equal(rig.get(y), np.arange(nbytes // 4))


def test_another_kernel_of_the_same_function_takes_nothing_away(
    rig: Rig, kernels: dict[str, Kernel]
) -> None:
    kernel = kernels["dynamic"]
    other = Library(rig.device).kernel(kernel.signature.file or "", kernel.name)
    assert other is not kernel and other.handle == kernel.handle
    y = rig.put(np.full(20_000, -1, np.int32))
    kernel(rig.stream, 1, 32, y, 0, shared=100_000)
    other(rig.stream, 1, 32, y, 0, shared=60_000)
    kernel(rig.stream, 1, 64, y, 20_000, shared=80_000)
    np.testing.assert_array_equal(rig.get(y), np.arange(20_000))


@pytest.mark.parametrize(
    ("name", "grid", "block", "said"),
    [
        ("small", 1, 65, "block wants at most 64 threads, which is what the kernel was compiled "
         "for, given 65, 65 threads: take smaller blocks, or raise its __launch_bounds__"),
        ("small", 1, (9, 9), "block wants at most 64 threads, which is what the kernel was "
         r"compiled for, given (9, 9), 81 threads: take smaller blocks"),
        ("dynamic", 1, 1025, "block wants at most (1024, 1024, 64) and 1024 threads in all, given "
         "1025: take smaller blocks and more of them"),
        ("dynamic", 1, (1, 1, 65), "block wants at most (1024, 1024, 64) and 1024 threads in all"),
        ("dynamic", 1, (33, 32), "block wants at most (1024, 1024, 64) and 1024 threads in all"),
        ("dynamic", 1, 0, "block wants one to three integers of at least 1, given 0: leave the "),
        ("dynamic", 0, 32, "grid wants one to three integers of at least 1, given 0: leave the "
         "launch out where there is nothing to do"),
        ("dynamic", (1, 65536), 32, "grid wants at most (2147483647, 65535, 65535) blocks, given "
         "(1, 65536): put the longest axis first (x), or let a thread do several elements"),
        ("dynamic", 2**31, 32, "grid wants at most (2147483647, 65535, 65535) blocks, given "),
        ("dynamic", (1, 1, 1, 1), 32, "grid wants one to three integers of at least 1, given "),
    ],
)  # fmt: skip
def test_sizes_of_grids_and_blocks(
    rig: Rig, kernels: dict[str, Kernel], name: str, grid: Any, block: Any, said: str
) -> None:
    args = (0,) if name == "small" else (0, 0)
    assert refused(rig, kernels[name], grid, block, *args).startswith(f"{name}: {said}")


@pytest.mark.parametrize("shared", [-1, 1.5, "much", None])
def test_shared_memory_is_a_number_of_bytes(
    rig: Rig, kernels: dict[str, Kernel], shared: Any
) -> None:
    said = refused(rig, kernels["dynamic"], 1, 32, 0, 0, shared=shared)
    assert said == f"dynamic: shared wants a number of bytes, at least 0, given {shared!r}"


def test_the_largest_block_that_it_was_compiled_for_runs(
    rig: Rig, kernels: dict[str, Kernel]
) -> None:
    y = rig.put(np.full(64, -1, np.int32))
    kernels["small"](rig.stream, 1, 64, y)
    np.testing.assert_array_equal(rig.get(y), np.arange(64))
