"""Field case 2: what a product needs is made before the window, or refused in it by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lowgraph import counters, driver
from lowgraph.blas import Blas, Form, Layer, Product
from lowgraph.capture import Phase, Window
from lowgraph.errors import ConfigError, LibraryNotReady
from lowgraph.memory import PersistentPool, download
from tests.blas.bench import Bench
from tests.support.rig import Rig


def test_prepare_runs_each_product_once_and_gives_its_scratch_back(bench: Bench) -> None:
    live = bench.pool.stats().live
    wanted = [Product(40, 40, 700), Product(8, 24, 16, trans_b=True, accumulate=True)]
    with counters.scope() as counts:
        bench.blas.prepare(wanted)
    assert counts.syncs >= 1 and bench.pool.stats().live == live
    assert all(bench.blas.prepared(product) for product in wanted)
    assert not bench.blas.prepared(Product(40, 40, 701))
    assert not bench.blas.prepared(wanted[0], stream=bench.stream())
    if bench.blas.backend == "kernel":
        assert counts.launches == 3, "two for the split, one for the small one"


def test_a_prepared_product_is_recorded_without_any_pass_before(bench: Bench) -> None:
    a, b = bench.random("a", 40, 700), bench.random("b", 700, 40, 2)
    out, again = bench.pool.take("out", (40, 40)), bench.pool.take("again", (40, 40))
    bench.blas.prepare([Product(40, 40, 700)])
    window = Window(bench.rig.stream, pool=bench.pool, library=bench.rig.library)
    with window:
        bench.blas.gemm(bench.rig.stream, out, a, b, 40, 40, 700)
    assert window.recording is not None and set(window.recording.census.types) == {"kernel"}
    window.discard()
    bench.blas.gemm(bench.rig.stream, again, a, b, 40, 40, 700)
    assert np.isfinite(download(again, bench.rig.stream)).all()


def test_an_unseen_shape_in_a_window_is_refused_with_the_call_to_make(bench: Bench) -> None:
    """Priming at one shape and recording at another: the driver is not asked, the run goes on."""
    a, b = bench.random("a", 40, 700), bench.random("b", 700, 40)
    out = bench.pool.take("out", (40, 40))
    passes: list[int] = []

    def body(stream: int) -> None:
        passes.append(1)
        k = 600 if len(passes) == 2 else 700
        bench.blas.gemm(stream, out, a, b, 40, 40, k, accumulate=True)

    step = bench.step(body, "train")
    step()
    before = bench.pool.free_blocks()
    step()
    report = step.report()
    assert report.refusals == 1 and "LibraryNotReady" in bench.said[0]
    for part in ("test_prepare.py:", "window of 'train'",
                 "blas.prepare([Product(40, 40, 600, accumulate=True)])",
                 "Product(40, 40, 600, accumulate=True) was not seen"):  # fmt: skip
        assert part in report.first_refusal
    assert bench.pool.free_blocks() == before
    assert driver.stream.capture_status(bench.rig.stream) == "none"
    step()
    assert step.phase is Phase.READY, "the third pass runs a shape that was seen"


def test_a_stream_without_a_workspace_is_refused_in_a_window(bench: Bench) -> None:
    a, b = bench.random("a", 40, 700), bench.random("b", 700, 40)
    out = bench.pool.take("out", (40, 40))
    bench.blas.prepare([Product(40, 40, 700)])
    other = bench.stream()
    bench.rig.sync()
    with (
        pytest.raises(LibraryNotReady, match=rf"prepare\(\[Product.*\], stream={other:#x}\)"),
        Window(other, pool=bench.pool, library=bench.rig.library),
    ):
        bench.blas.gemm(other, out, a, b, 40, 40, 700)
    bench.blas.prepare(stream=other)
    window = Window(other, pool=bench.pool, library=bench.rig.library)
    with window:
        bench.blas.gemm(other, out, a, b, 40, 40, 700)
    assert window.recording is not None
    window.discard()


@pytest.mark.parametrize("call", ["make", "prepare", "resize", "release", "close"])
def test_nothing_is_made_or_dropped_in_a_window(bench: Bench, call: str) -> None:
    workspace = bench.blas.workspace
    calls = {
        "make": lambda: Blas(bench.rig.device, bench.rig.library, bench.rig.stream, bench.pool),
        "prepare": bench.blas.prepare,
        "resize": lambda: bench.blas.resize(1 << 20),
        "release": lambda: bench.blas.release(bench.rig.stream),
        "close": bench.blas.close,
    }
    with (
        pytest.raises(LibraryNotReady, match=r"in the capture window of 'capture'; .*step"),
        Window(bench.rig.stream, pool=bench.pool, library=bench.rig.library),
    ):
        calls[call]()
    assert bench.blas.workspace is workspace and workspace.alive
    assert driver.stream.capture_status(bench.rig.stream) == "none"


def test_the_first_product_on_a_stream_makes_a_workspace_that_outlives_the_pass(
    bench: Bench,
) -> None:
    a, b = bench.random("a", 40, 700), bench.random("b", 700, 40)
    out, other = bench.pool.take("out", (40, 40)), bench.stream()
    bench.rig.sync()
    step = bench.step(lambda stream: bench.blas.gemm(stream, out, a, b, 40, 40, 700), "side",
                      stream=other)  # fmt: skip
    step()
    made = bench.blas.workspaces.get(other)
    assert made is not None and made.alive and made is not bench.blas.workspace
    step()
    step()
    assert step.phase is Phase.READY and bench.pool.holders(made) == ["side"]
    assert bench.pool.holders(bench.blas.workspace) == []


def test_a_closed_blas_says_so(rig: Rig) -> None:
    pool = PersistentPool(rig.device)
    blas = Blas(rig.device, rig.library, rig.stream, pool)
    piece = pool.take("x", (4, 4))
    blas.close()
    for call in (
        blas.prepare,
        lambda: blas.resize(1 << 20),
        lambda: blas.gemm(rig.stream, piece, piece, piece, 4, 4, 4),
    ):
        with pytest.raises(ConfigError, match="this Blas is closed"):
            call()
    pool.close()


def test_an_impossible_product_is_refused_by_prepare(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        bench.blas.prepare([Product(0, 1, 1)])
    with pytest.raises(ConfigError, match="not both"):
        bench.blas.prepare([Product(1, 1, 1, True, True)])


@pytest.mark.parametrize(
    ("one", "call"),
    [
        (Product(40, 40, 700, trans_b=True), "Product(40, 40, 700, trans_b=True)"),
        (Layer(Form.GELU, 8, 16, 24), "Layer(Form.GELU, 8, 16, 24, Precision.FP32)"),
    ],
)
def test_one_product_or_layer_for_the_list_is_told_with_the_call(
    bench: Bench, one: Product | Layer, call: str
) -> None:
    """Each is a tuple: it was taken for a list of products, which are numbers (TypeError)."""
    with pytest.raises(ConfigError, match=f"takes a list.*blas.prepare\\(\\[{re.escape(call)}\\]"):
        bench.blas.prepare(one)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [5, (40, 40, 700), "bias", [Form.BIAS], [(40, 40)], [None], [tuple(range(1, 10))]]
)
def test_what_is_no_list_of_products_and_layers_is_told_what_to_give(
    bench: Bench, given: Any
) -> None:
    with pytest.raises(ConfigError, match="give a list of products and layers, as in"):
        bench.blas.prepare(given)


def test_a_list_with_one_that_cannot_be_runs_none_of_it(bench: Bench) -> None:
    good = Product(40, 40, 24)
    with counters.scope() as counts, pytest.raises(ConfigError, match="k=0: each must be at least"):
        bench.blas.prepare([good, Product(40, 40, 0)])
    assert counts.launches == 0 and not bench.blas.prepared(good)


def test_a_plain_tuple_of_sizes_in_the_list_is_a_product(bench: Bench) -> None:
    bench.blas.prepare([(40, 40, 24)])  # type: ignore[list-item]
    assert bench.blas.prepared(Product(40, 40, 24))
