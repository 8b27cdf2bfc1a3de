"""Blas against NumPy float64: every form, odd sizes, split-K, one workspace, and captures."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph import counters, driver
from lowgraph.blas import Blas, split_k, workspace_bytes
from lowgraph.capture import GraphStep
from lowgraph.errors import ConfigError
from lowgraph.memory import PersistentPool, download, upload
from tests.blas.bench import Bench
from tests.support.rig import Rig

SIZES = [(1, 1, 1), (3, 5, 7), (64, 64, 64), (65, 33, 130), (17, 200, 1000), (128, 96, 515)]


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("form", ["nn", "nt", "tn"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_gemm_is_the_row_major_product(
    bench: Bench, m: int, n: int, k: int, form: str, accumulate: bool
) -> None:
    chance = np.random.default_rng(m + n + k)
    a, b, c = (chance.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    left, right = form[0] == "t", form[1] == "t"
    out = bench.put("out", c)
    bench.blas.gemm(
        bench.rig.stream,
        out,
        bench.put("a", a.T if left else a),
        bench.put("b", b.T if right else b),
        m, n, k, left, right, accumulate,
    )  # fmt: skip
    product = a.astype(np.float64) @ b.astype(np.float64)
    wanted = product + c if accumulate else product
    bound = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + np.abs(c)
    error = np.abs(download(out, bench.rig.stream) - wanted)
    # |error| <= (k + 1) u sum |a||b|: the bound of a float32 sum in any order.
    assert (error <= (k + 1) * np.finfo(np.float32).eps * bound).all()


def test_split_k_is_used_only_where_it_pays_and_fits() -> None:
    assert split_k(64, 64, 1024, 1 << 20) == (4, 256)
    assert split_k(64, 64, 1000, 1 << 20) == (4, 256), "a multiple of the kernel's 64"
    assert split_k(256, 256, 1024, 1 << 20) == (1, 1024), "enough tiles"
    assert split_k(64, 64, 200, 1 << 20) == (1, 200), "too little of k"
    assert split_k(64, 64, 1024, 2 * 4 * 64 * 64) == (2, 512), "room for two slabs"
    assert split_k(64, 64, 1024, 100) == (1, 1024)
    for k in range(256, 700):
        slabs, chunk = split_k(40, 40, k, 1 << 20)
        assert (slabs - 1) * chunk < k <= slabs * chunk
        assert slabs == 1 or chunk % 64 == 0


def test_the_workspace_has_nvidias_sizes() -> None:
    assert workspace_bytes((9, 0)) == workspace_bytes((10, 0)) == 32 << 20
    assert workspace_bytes((8, 0)) == 8 << 20


def test_products_repeat_bit_for_bit(bench: Bench) -> None:
    chance = np.random.default_rng(5)
    a = bench.put("a", chance.standard_normal((33, 900)))
    b = bench.put("b", chance.standard_normal((900, 40)))
    seen = set()
    for number in range(3):
        out = bench.pool.take(f"out{number}", (33, 40))
        bench.blas.gemm(bench.rig.stream, out, a, b, 33, 40, 900)
        seen.add(download(out, bench.rig.stream).tobytes())
    assert len(seen) == 1


def test_bad_operands_are_named(bench: Bench) -> None:
    stream = bench.rig.stream
    a = bench.put("a", np.ones((4, 4)))
    wide = bench.pool.take("wide", (4, 4), np.float64)
    with pytest.raises(ConfigError, match="b 'wide' is float64"):
        bench.blas.gemm(stream, a, a, wide, 4, 4, 4)
    with pytest.raises(ConfigError, match="a 'a' has 64 bytes, its sizes need 80"):
        bench.blas.gemm(stream, a, a, a, 4, 4, 5)
    with pytest.raises(ConfigError, match="not both"):
        bench.blas.gemm(stream, a, a, a, 4, 4, 4, True, True)
    with pytest.raises(ConfigError, match="at least 1"):
        bench.blas.gemm(stream, a, a, a, 0, 4, 4)


def test_the_header_line_names_backend_precision_and_workspace(bench: Bench) -> None:
    wanted = {"cublas": "GEMM by cuBLAS", "kernel": "GEMM by kernels_cu/gemm.cu"}
    assert bench.blas.describe().startswith(wanted[bench.blas.backend])
    assert "float32" in bench.blas.describe() and "MiB" in bench.blas.describe()


def test_a_product_allocates_and_waits_for_nothing(bench: Bench) -> None:
    a = bench.put("a", np.ones((64, 600)))
    b = bench.put("b", np.ones((600, 64)))
    out = bench.pool.take("out", (64, 64))
    bench.blas.gemm(bench.rig.stream, out, a, b, 64, 64, 600)
    with counters.scope() as counts:
        bench.blas.gemm(bench.rig.stream, out, a, b, 64, 64, 600)
    assert set(counts.by_name) <= {"cuLaunchKernelEx"}


def test_in_a_graph_it_equals_eager_and_the_workspace_is_borrowed(bench: Bench) -> None:
    chance = np.random.default_rng(6)
    a = bench.put("a", chance.standard_normal((40, 700)))
    b = bench.put("b", chance.standard_normal((700, 40)))
    out = bench.pool.take("out", (40, 40))

    def body(stream: int) -> None:
        bench.blas.gemm(stream, out, a, b, 40, 40, 700, accumulate=True)

    upload(out, np.zeros((40, 40), np.float32), bench.rig.stream)
    for _ in range(4):
        body(bench.rig.stream)
    eager = download(out, bench.rig.stream).tobytes()
    upload(out, np.zeros((40, 40), np.float32), bench.rig.stream)
    step = GraphStep(
        body, device=bench.rig.device, pool=bench.pool, stream=bench.rig.stream,
        library=bench.rig.library,
    )  # fmt: skip
    for _ in range(4):
        step()
    assert download(out, bench.rig.stream).tobytes() == eager
    report = step.report()
    assert report.refusals == 0 and report.kernels == report.launches_eager_step >= 1
    assert bench.pool.holders(bench.blas.workspace) == ["step"]
    step.close()
    assert bench.pool.holders(bench.blas.workspace) == []
    assert driver.stream.capture_status(bench.rig.stream) == "none"


@pytest.mark.gpu
def test_it_works_on_two_streams_in_turn(bench: Bench) -> None:
    """Each with its own workspace: one that allocates would leave other nodes than kernels."""
    a = bench.put("a", np.ones((128, 128)))
    out = bench.pool.take("out", (128, 128))
    bench.rig.sync()
    other = driver.stream.create()
    bench.blas.gemm(other, out, a, a, 128, 128, 128)
    driver.stream.synchronize(other)
    step = GraphStep(
        lambda stream: bench.blas.gemm(stream, out, a, a, 128, 128, 128),
        device=bench.rig.device, pool=bench.pool, stream=bench.rig.stream,
    )  # fmt: skip
    step()
    bench.blas.gemm(other, out, a, a, 128, 128, 128)
    driver.stream.synchronize(other)
    step()
    assert step.report().refusals == 0 and step.report().nodes_by_type.keys() == {"kernel"}
    step.close()
    bench.blas.release(other)
    driver.stream.destroy(other)


def test_cublas_without_its_bindings_says_what_to_install(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "nvmath.bindings.cublasLt", None)
    monkeypatch.setattr(rig.device, "blas_backend", "cublas", raising=False)
    pool = PersistentPool(rig.device)
    with pytest.raises(ConfigError, match=r"pip install 'lowgraph\[cuda1[23]\]'"):
        Blas(rig.device, rig.library, rig.stream, pool)
    assert pool.stats().live == 0
    pool.close()
