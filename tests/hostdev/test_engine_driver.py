"""The engine under the driver: the same kernels through modules, streams and sticky errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.process import output_of
from tests.support.rig import Rig

pytestmark = pytest.mark.host
KERNELS = Path(__file__).parent / "kernels"


@pytest.mark.parametrize("threads", (1, 31, 33, 257, 1024))
def test_block_sum(rig: Rig, threads: int) -> None:
    kernel = rig.library.kernel(KERNELS / "barriers.cu", "block_sum")
    x = np.arange(50 * threads, dtype=np.float32) % 13
    y = rig.empty(50)
    kernel(rig.stream, 50, threads, y, rig.put(x), x.size, shared=4 * threads)
    np.testing.assert_array_equal(rig.get(y), x.reshape(50, threads).sum(1))


def test_warp_operations_and_atomics(rig: Rig) -> None:
    tiles = rig.library.kernel(KERNELS / "warps.cu", "tile_sums")
    x, out = np.arange(128, dtype=np.float32), rig.empty((128, 2))
    tiles(rig.stream, 1, 128, out, rig.put(x))
    np.testing.assert_array_equal(rig.get(out)[:, 0], np.repeat(x.reshape(16, 8).sum(1), 8))
    count = rig.library.kernel(KERNELS / "barriers.cu", "count_atomically")
    total, summed = rig.put(np.zeros(1, np.int32)), rig.put(np.zeros(1, np.float32))
    highest = rig.put(np.zeros(1, np.uint32))
    for _ in range(50):
        count(rig.stream, 100, 33, total, summed, highest, 2)
    assert rig.get(total)[0] == rig.get(summed)[0] == 50 * 100 * 33 * 2
    assert rig.get(highest)[0] == 3299


FAULT = """
from lowgraph.driver import gate, open_device, stream
from lowgraph.errors import ContextPoisoned, DriverError
from lowgraph.kernels import Library
import numpy as np
from tests.support.rig import Rig

rig = Rig(open_device("host"), Library(open_device("host")))
kernel = rig.library.kernel({file!r}, {kernel!r})
out = rig.put(np.zeros(64, np.int32))
kernel(rig.stream, {grid}, 64, {args}, shared={shared})
for _ in range(2):
    try:
        rig.sync()
    except ContextPoisoned as error:
        print(error.code, error)
"""
FAULTS = {
    "recurse": ("out, 5000", 700, "stack overflow"),
    "write_static": (
        "rig.put(np.zeros(192, np.int32)), 50, 1",
        700,
        "wrote 68 bytes past the end of __shared__ 'words'",
    ),
    "half_at_barrier": ("out", 719, "32 wait at a barrier (faults.cu:47"),
    "divide": ("out, out, out", 719, "integer division by zero"),
    "shuffle_from_absent": ("out", 719, "takes no part"),
    "trap_in": ("33", 719, "thread (33,0,0): __trap()"),
    "assert_below": ("out, 0", 710, "assert failed: x[threadIdx.x] < limit"),
    "write_shared": ("1000", 700, "outside the 256 bytes of dynamic shared memory"),
}


@pytest.mark.parametrize("kernel", FAULTS)
def test_fault_is_sticky_and_named_and_python_lives(kernel: str) -> None:
    args, code, says = FAULTS[kernel]
    file = str(KERNELS / "faults.cu")
    lines = output_of(FAULT.format(file=file, kernel=kernel, grid=3, args=args, shared=256))
    first, second = lines.splitlines()
    assert second.startswith(f"{code} ") and says in second, "the error must be sticky"
    assert first.startswith(f"{code} ") and says in first and f"kernel '{kernel}'" in first
