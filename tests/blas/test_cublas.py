"""The cuBLAS backend over a stand-in: what it calls, and field cases 2 and 17 on any device."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.blas import Blas, Product
from lowgraph.capture import Phase, Window
from lowgraph.errors import CaptureFailed, LibraryError, LibraryNotReady
from lowgraph.memory import PersistentPool, download
from lowgraph.precision import Precision
from tests.blas.bench import Bench
from tests.blas.fake_cublas import NEED, FakeCublasLt, MatmulPreferenceAttribute
from tests.blas.typed import TypedProduct
from tests.support.rig import Rig

SMALL = Product(4, 4, 8)


@pytest.mark.parametrize("form", ["nn", "nt", "tn"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_the_row_major_product_is_the_swapped_column_major_one(
    faked: Bench, form: str, accumulate: bool
) -> None:
    chance = np.random.default_rng(3)
    a, b, c = (chance.standard_normal(s).astype(np.float32) for s in ((5, 7), (7, 3), (5, 3)))
    left, right = form[0] == "t", form[1] == "t"
    out = faked.put("out", c)
    operands = faked.put("a", a.T if left else a), faked.put("b", b.T if right else b)
    faked.blas.gemm(faked.rig.stream, out, *operands, 5, 3, 7, left, right, accumulate)
    wanted = a @ b + (c if accumulate else 0)
    assert np.allclose(download(out, faked.rig.stream), wanted, atol=1e-5)


def test_the_heuristic_is_asked_once_a_product_within_workspace_and_alignment(
    faked: Bench, fake: FakeCublasLt
) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out, other = faked.pool.take("out", (4, 4)), faked.stream()
    faked.rig.sync()
    faked.blas.prepare([SMALL])
    used = set()
    for stream in (faked.rig.stream, other, other, faked.rig.stream):
        faked.blas.gemm(stream, out, a, b, 4, 4, 8)
        workspace = faked.blas.workspaces.get(stream)
        assert workspace is not None
        assert fake.last.stream == stream
        assert fake.last.workspace == (workspace.address, workspace.nbytes)
        used.add(fake.last.algorithm)
        faked.rig.sync()
    assert fake.calls.count("matmul_algo_get_heuristic") == 1 and len(used) == 1
    wishes = MatmulPreferenceAttribute
    aligned = {wishes[f"MIN_ALIGNMENT_{name}_BYTES"]: 4 for name in "ABCD"}
    room = faked.blas.workspace.nbytes
    assert fake.wishes == {
        wishes.MAX_WORKSPACE_BYTES: room, wishes.REDUCTION_SCHEME_MASK: 6, **aligned
    }  # fmt: skip


@pytest.mark.parametrize(
    ("precision", "narrow", "alignment", "reductions"),
    [
        (Precision.FP32, False, 4, 6),
        (Precision.TF32, False, 16, 6),
        (Precision.BF16, False, 16, 6),
        (Precision.BF16, True, 16, 2),
    ],
)
def test_each_type_asks_for_its_alignment_and_sums_in_float32(
    faked: Bench,
    fake: FakeCublasLt,
    precision: Precision,
    narrow: bool,
    alignment: int,
    reductions: int,
) -> None:
    """Reduction scheme 4 adds parts in the type of out: not where that is bfloat16."""
    product = Product(5, 3, 7, trans_b=True, precision=precision, narrow=narrow)
    made = TypedProduct(faked, product)
    made.run(faked.rig.stream)
    made.check()
    wishes = MatmulPreferenceAttribute
    assert {fake.wishes[wishes[f"MIN_ALIGNMENT_{name}_BYTES"]] for name in "ABCD"} == {alignment}
    assert fake.wishes[wishes.REDUCTION_SCHEME_MASK] == reductions
    exact = TypedProduct(faked, Product(5, 3, 7, trans_b=True))
    exact.run(faked.rig.stream)
    assert (made.bits() == exact.bits()) == (precision is Precision.FP32)


def test_a_prepared_product_is_one_library_call(faked: Bench, fake: FakeCublasLt) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    faked.blas.prepare([SMALL])
    before = len(fake.calls)
    for _ in range(3):
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)
    assert fake.calls[before:] == ["matmul"] * 3


def test_the_algorithm_of_each_product_can_be_read(faked: Bench, fake: FakeCublasLt) -> None:
    faked.blas.prepare([SMALL])
    fake.tile = 9999
    faked.blas.prepare([Product(4, 4, 9)])
    stays = "stages 13, split-K 4, reduction 2, workspace 4.00 KiB"
    assert faked.blas.algorithms() == {
        SMALL: f"algorithm 21, tile 128x32, {stays}",
        Product(4, 4, 9): f"algorithm 21, tile number 9999, {stays}",
    }


def test_another_workspace_size_has_the_algorithm_picked_anew(
    faked: Bench, fake: FakeCublasLt
) -> None:
    faked.blas.prepare([SMALL])
    before = len(fake.alive)
    faked.blas.resize(NEED // 2)
    assert faked.blas.algorithms() == {} and len(fake.alive) == before - 4
    faked.blas.prepare([SMALL])
    assert fake.calls.count("matmul_algo_get_heuristic") == 2
    assert faked.blas.algorithms()[SMALL].endswith("workspace 0 bytes")


def test_each_graph_borrows_the_workspace_and_library_kernels_are_counted(faked: Bench) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    step = faked.step(lambda stream: faked.blas.gemm(stream, out, a, b, 4, 4, 8), "train")
    for _ in range(3):
        step()
    assert step.phase is Phase.READY and faked.pool.holders(faked.blas.workspace) == ["train"]
    assert step.report().kernels == 1


def test_an_unseen_shape_never_reaches_the_library_in_a_window(
    faked: Bench, fake: FakeCublasLt
) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    faked.blas.prepare([SMALL])
    calls = len(fake.calls)
    with (
        pytest.raises(LibraryNotReady, match=r"cuBLASLt 13.1.0: Product\(4, 4, 7\) was not seen"),
        Window(faked.rig.stream, pool=faked.pool, library=faked.rig.library),
    ):
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 7)
    assert len(fake.calls) == calls


@pytest.mark.parametrize("status", ["INVALID_VALUE (7)", "INTERNAL_ERROR (14)", "ALLOC_FAILED (3)"])
def test_a_full_devices_answer_comes_with_free_bytes_and_top_owners(
    faked: Bench, fake: FakeCublasLt, status: str
) -> None:
    """Case 17: "invalid value" of a product whose parameters were right; the device was full."""
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out, hog = faked.pool.take("out", (4, 4)), faked.pool.take("hog", (100 << 20,), np.uint8)
    fake.fail = status, "matmul"
    with pytest.raises(LibraryError) as failed:
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)
    error = failed.value
    text = str(error)
    assert text.startswith(
        f"cublasLtMatmul(m=4, n=4, k=8) failed: {status}. cuBLAS answers so also"
    )
    for part in ("bytes) of", "are free on the device", "top owners: slice 'hog' 100.00 MiB",
                 "workspace 'blas workspace of stream"):  # fmt: skip
        assert part in text
    assert not faked.blas.prepared(SMALL), "it has not run yet"
    faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)
    faked.pool.give_back(hog)


def test_another_status_comes_alone(faked: Bench, fake: FakeCublasLt) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    fake.fail = "NOT_SUPPORTED (15)", "matmul"
    with pytest.raises(LibraryError, match=r"NOT_SUPPORTED \(15\)$"):
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)


@pytest.mark.parametrize(
    "call", ["matmul_desc_create", "matrix_layout_create", "matmul_algo_get_heuristic"]
)
def test_a_plan_that_cannot_be_made_leaves_nothing(
    faked: Bench, fake: FakeCublasLt, call: str
) -> None:
    alive = len(fake.alive)
    fake.fail = "ALLOC_FAILED (3)", call
    message = r"cublasLtMatmulAlgoGetHeuristic\(m=4, n=4, k=8\) failed: ALLOC_FAILED .* are free"
    with pytest.raises(LibraryError, match=message):
        faked.blas.prepare([SMALL])
    assert len(fake.alive) == alive and not faked.blas.prepared(SMALL)
    faked.blas.prepare([SMALL])
    assert faked.blas.prepared(SMALL)


@pytest.mark.parametrize(("found", "state"), [(0, 0), (1, 15)])
def test_no_algorithm_for_the_workspace_says_its_size(
    faked: Bench, fake: FakeCublasLt, found: int, state: int
) -> None:
    faked.blas.resize(1 << 20)
    fake.found, fake.state = found, state
    with pytest.raises(LibraryError, match="no algorithm runs in a workspace of 1048576 bytes"):
        faked.blas.prepare([SMALL])


def test_a_failure_in_the_window_is_the_refusal_with_its_own_status(
    faked: Bench, fake: FakeCublasLt
) -> None:
    """Case 2: the original status is raised, never what the end of the capture says."""
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    faked.blas.prepare([SMALL])
    fake.fail = "INTERNAL_ERROR (14)", "matmul"
    with (
        pytest.raises(CaptureFailed, match=r"INTERNAL_ERROR \(14\).* are free on the device") as no,
        Window(faked.rig.stream, pool=faked.pool, library=faked.rig.library),
    ):
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)
    assert no.value.where is not None and "test_cublas.py:" in no.value.where


def test_a_handle_that_cannot_be_made_leaves_no_workspace(rig: Rig, fake: FakeCublasLt) -> None:
    pool = PersistentPool(rig.device)
    fake.fail = "ALLOC_FAILED (3)", "create"
    with pytest.raises(LibraryError, match=r"cublasLtCreate failed: ALLOC_FAILED .* are free"):
        Blas(rig.device, rig.library, rig.stream, pool)
    assert pool.stats().live == 0
    pool.close()
