"""The cuBLAS backend over a stand-in: what it calls, and field cases 2 and 17 on any device."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from lowgraph.blas import Blas, Product
from lowgraph.capture import Phase, Window
from lowgraph.errors import CaptureFailed, LibraryError, LibraryNotReady
from lowgraph.memory import PersistentPool, download
from tests.blas.bench import Bench
from tests.blas.fake_cublas import FakeCublas
from tests.support.rig import Rig


@pytest.fixture
def fake(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> FakeCublas:
    made = FakeCublas(rig.library)
    monkeypatch.setitem(sys.modules, "nvmath.bindings.cublas", made)
    monkeypatch.setattr(rig.device, "blas_backend", "cublas", raising=False)
    return made


@pytest.fixture
def faked(rig: Rig, fake: FakeCublas) -> Iterator[Bench]:
    made = Bench(rig)
    yield made
    made.close()
    assert fake.calls.count("create") == fake.calls.count("destroy") == 1


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


def test_the_workspace_is_set_again_after_every_set_stream(faked: Bench, fake: FakeCublas) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out, other = faked.pool.take("out", (4, 4)), faked.stream()
    faked.rig.sync()
    for stream in (faked.rig.stream, other, other, faked.rig.stream):
        faked.blas.gemm(stream, out, a, b, 4, 4, 8)
        workspace = faked.blas.workspaces.get(stream)
        assert workspace is not None
        assert (fake.stream, fake.workspace) == (stream, (workspace.address, workspace.nbytes))
        faked.rig.sync()
    assert fake.calls.count("set_stream") == 3


def test_each_graph_borrows_the_workspace_and_library_kernels_are_counted(faked: Bench) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    step = faked.step(lambda stream: faked.blas.gemm(stream, out, a, b, 4, 4, 8), "train")
    for _ in range(3):
        step()
    assert step.phase is Phase.READY and faked.pool.holders(faked.blas.workspace) == ["train"]


def test_an_unseen_shape_never_reaches_the_library_in_a_window(
    faked: Bench, fake: FakeCublas
) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    faked.blas.prepare([Product(4, 4, 8)])
    calls = len(fake.calls)
    with (
        pytest.raises(LibraryNotReady, match=r"cuBLAS 13.1.0 .*Product\(4, 4, 7\) was not seen"),
        Window(faked.rig.stream, pool=faked.pool, library=faked.rig.library),
    ):
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 7)
    assert len(fake.calls) == calls


@pytest.mark.parametrize("status", ["INVALID_VALUE (7)", "INTERNAL_ERROR (14)", "ALLOC_FAILED (3)"])
def test_a_full_devices_answer_comes_with_free_bytes_and_top_owners(
    faked: Bench, fake: FakeCublas, status: str
) -> None:
    """Case 17: "invalid value" of a product whose parameters were right; the device was full."""
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out, hog = faked.pool.take("out", (4, 4)), faked.pool.take("hog", (100 << 20,), np.uint8)
    fake.fail = status
    with pytest.raises(LibraryError) as failed:
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)
    error = failed.value
    text = str(error)
    assert text.startswith(f"cublasGemmEx(m=4, n=4, k=8) failed: {status}. cuBLAS answers so also")
    for part in ("bytes) of", "are free on the device", "top owners: slice 'hog' 100.00 MiB",
                 "workspace 'blas workspace of stream"):  # fmt: skip
        assert part in text
    assert not faked.blas.prepared(Product(4, 4, 8)), "it has not run yet"
    faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)
    faked.pool.give_back(hog)


def test_another_status_comes_alone(faked: Bench, fake: FakeCublas) -> None:
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    fake.fail = "NOT_SUPPORTED (15)"
    with pytest.raises(LibraryError, match=r"NOT_SUPPORTED \(15\)$"):
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)


def test_a_failure_in_the_window_is_the_refusal_with_its_own_status(
    faked: Bench, fake: FakeCublas
) -> None:
    """Case 2: the original status is raised, never what the end of the capture says."""
    a, b = faked.random("a", 4, 8), faked.random("b", 8, 4)
    out = faked.pool.take("out", (4, 4))
    faked.blas.prepare([Product(4, 4, 8)])
    fake.fail = "INTERNAL_ERROR (14)"
    with (
        pytest.raises(CaptureFailed, match=r"INTERNAL_ERROR \(14\).* are free on the device") as no,
        Window(faked.rig.stream, pool=faked.pool, library=faked.rig.library),
    ):
        faked.blas.gemm(faked.rig.stream, out, a, b, 4, 4, 8)
    assert no.value.where is not None and "test_cublas.py:" in no.value.where


def test_a_handle_that_cannot_be_made_leaves_no_workspace(rig: Rig, fake: FakeCublas) -> None:
    pool = PersistentPool(rig.device)
    fake.fail = "ALLOC_FAILED (3)"
    with pytest.raises(LibraryError, match=r"cublasCreate failed: ALLOC_FAILED .* are free"):
        Blas(rig.device, rig.library, rig.stream, pool)
    assert pool.stats().live == 0
    pool.close()
