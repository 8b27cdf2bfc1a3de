"""Case 2: a library makes its handle or workspace at its first use, and that is in the window.

`LazyLibrary` stands for cuBLAS on both devices: its first call allocates, as cublasCreate does,
past our gate, and it says only that it is not initialised. With cuBLAS itself: the GPU test below.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.blas import Blas
from lowgraph.capture import Phase
from lowgraph.errors import CaptureFailed, LibraryNotReady
from lowgraph.memory import download, open_window, upload
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound
from tests.field_cases.bare import INVALIDATED, NOT_PERMITTED, Bare, foreign, types_of
from tests.field_cases.remedy import names_the_line, refusal_of

FILE = Path(__file__).name
BYTES = 1 << 20


class NotInitialized(Exception):
    """The library's own status, from which nobody can tell that a capture is why."""


class LazyLibrary:
    """Allocates its workspace when it is first called."""

    def __init__(self) -> None:
        self.workspace = 0
        self.code = 0

    def call(self) -> None:
        if not self.workspace:
            self.code, address = foreign("cuMemAlloc", BYTES)
            if self.code:
                raise NotInitialized("STATUS_NOT_INITIALIZED")
            self.workspace = int(address)

    def close(self) -> None:
        if self.workspace:
            driver.memory.free(self.workspace)


@pytest.mark.parametrize("mode", ["thread_local", "global"])
def test_bare_the_end_says_901_and_nothing_of_the_cause(bare: Bare, mode: str) -> None:
    library = LazyLibrary()

    def first_call() -> None:
        with pytest.raises(NotInitialized):
            library.call()

    assert bare.end_code(first_call, mode) == INVALIDATED
    assert library.code == NOT_PERMITTED
    library.call()  # as a warm-up before the capture would have
    fill = bare.kernel("fill")
    out = bare.rig.empty(1)
    assert types_of(
        bare.record(lambda: (library.call(), fill(bare.stream, 1, 1, out, 1.0, 1)))
    ) == {"kernel": 1}
    library.close()


def test_the_librarys_own_error_is_the_one_raised(micro: Micro) -> None:
    library = LazyLibrary()
    micro.extra = lambda number: library.call() if open_window.mine() is not None else None
    step = micro.step()
    step()
    with pytest.raises(NotInitialized, match="STATUS_NOT_INITIALIZED"):
        step()
    assert step.phase is Phase.INVALIDATED
    assert_sound(micro)
    library.call()
    step()
    step()
    assert step.phase is Phase.READY
    step.close()
    library.close()


def test_a_library_that_hides_its_error_is_no_bare_901(micro: Micro) -> None:
    library = LazyLibrary()

    def hiding() -> None:
        with pytest.raises(NotInitialized):
            library.call()

    refusal = refusal_of(micro, hiding, CaptureFailed)
    assert "in the window of 'step'" in str(refusal) or "the capture of 'step'" in str(refusal)
    assert refusal.remedy


def test_priming_is_the_warm_up(micro: Micro) -> None:
    library = LazyLibrary()
    micro.extra = lambda number: library.call()
    step = micro.step()
    step()
    step()
    assert step.phase is Phase.READY and library.code == 0
    step.close()
    library.close()


def test_our_blas_is_made_before_the_window_or_refused(micro: Micro) -> None:
    rig = micro.rig
    refusal = refusal_of(
        micro, lambda: Blas(rig.device, rig.library, rig.stream, micro.pool), LibraryNotReady
    )
    assert "a Blas was made" in str(refusal) and "make it before the step" in str(refusal)
    assert names_the_line(refusal, FILE)


def test_a_shape_that_was_not_prepared_is_refused_by_name(micro: Micro) -> None:
    rig, pool = micro.rig, micro.pool
    blas = Blas(rig.device, rig.library, rig.stream, pool)
    a, b, out = pool.take("a", (8, 64)), pool.take("b", (64, 8)), pool.take("c", (8, 8))
    for piece in (a, b):
        upload(piece, np.ones(piece.shape, np.float32), rig.stream)
    blas.gemm(rig.stream, out, a, b, 4, 8, 64)  # the warm-up of another shape

    def product() -> None:
        blas.gemm(rig.stream, out, a, b, 8, 8, 64)

    refusal = refusal_of(micro, product, LibraryNotReady)
    for part in ("Product(8, 8, 64) was not seen before", "call blas.prepare([Product(8, 8, 64)])"):
        assert part in str(refusal), str(refusal)
    assert names_the_line(refusal, FILE)
    blas.prepare([(8, 8, 64, False, False, False)])
    micro.steps[-1].close()
    micro.extra = lambda number: product()
    step = micro.step()
    step()
    step()
    assert step.phase is Phase.READY and np.all(download(out, rig.stream) == 64.0)
    step.close()
    blas.close()


@pytest.mark.gpu
def test_bare_cublas_without_a_workspace_records_memory_nodes(bare: Bare) -> None:
    """Measured: 128x32x128 becomes MEM_ALLOC, KERNEL, KERNEL, MEM_FREE."""
    from nvmath.bindings import cublas

    a, b, out = (bare.rig.empty(n) for n in (128 * 128, 128 * 32, 128 * 32))
    one = np.ones(1, np.float32)
    handle = cublas.create()
    cublas.set_stream(handle, bare.stream)
    try:
        graph = bare.record(
            lambda: cublas.sgemm(
                handle, 0, 0, 128, 32, 128, one.ctypes.data, a.address, 128, b.address, 128,
                one.ctypes.data, out.address, 128,
            )
        )  # fmt: skip
        assert types_of(graph).get("mem_alloc") == 1
    finally:
        cublas.destroy(handle)
