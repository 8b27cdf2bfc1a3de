"""One algorithm a product: float32 throughout, the same bits each time, kernels only in a graph."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.blas import Product
from lowgraph.memory import Slice, download, upload
from tests.blas.bench import Bench

SIZES = [(1, 1, 1), (31, 33, 257), (257, 1, 33), (128, 32, 128), (65, 257, 1025)]
EPS = float(np.finfo(np.float32).eps)
# Of sum|a||b|. The worst case of a float32 sum is (k + 1)/2 eps; these operands stay below 2 eps in
# any order tried, and with operands rounded to TF32's 11 bits the worst element is 500 eps or more.
TOLERANCE = 16 * EPS


class Made:
    """One product's operands on the device, and what it must give."""

    def __init__(self, bench: Bench, product: Product) -> None:
        self.bench, self.product = bench, product
        m, n, k, left, right, accumulate = product[:6]
        chance = np.random.default_rng(m + n + k)
        a, b, self.start = (
            chance.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))
        )
        self.a, self.b = bench.put("a", a.T if left else a), bench.put("b", b.T if right else b)
        self.out = bench.pool.take("out", (m, n))
        self.wanted = a.astype(np.float64) @ b + (self.start if accumulate else 0.0)
        self.scale = np.abs(a.astype(np.float64)) @ np.abs(b) + np.abs(self.start)

    def run(self, stream: int) -> None:
        self.bench.blas.gemm(stream, self.out, self.a, self.b, *self.product[:6])

    def again(self) -> np.ndarray:
        """The product on what `out` holds first: finite numbers, or poison if they do not count."""
        self.poison()
        self.run(self.bench.rig.stream)
        return download(self.out, self.bench.rig.stream)

    def poison(self) -> None:
        first = self.start if self.product.accumulate else np.full_like(self.start, np.nan)
        upload(self.out, first, self.bench.rig.stream)


def _products(form: str, accumulate: bool) -> list[Product]:
    return [Product(*sizes, form[0] == "t", form[1] == "t", accumulate) for sizes in SIZES]


@pytest.mark.parametrize("form", ["nn", "nt", "tn"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_a_product_is_float32_the_same_twice_and_the_same_replayed(
    bench: Bench, form: str, accumulate: bool
) -> None:
    products = _products(form, accumulate)
    bench.blas.prepare(products)
    for product in products:
        made = Made(bench, product)
        eager = made.again()
        assert (np.abs(eager - made.wanted) <= TOLERANCE * made.scale).all(), product
        assert made.again().tobytes() == eager.tobytes(), product
        step = bench.step(made.run, product.as_call())
        step.prime()
        step.capture()
        assert step.report().nodes_by_type.keys() == {"kernel"}, product
        made.poison()
        step.replay()
        assert download(made.out, bench.rig.stream).tobytes() == eager.tobytes(), product
    assert list(bench.blas.algorithms()) == products


def test_the_algorithm_of_a_product_stays_on_every_stream_and_can_be_read(bench: Bench) -> None:
    bench.blas.prepare([Product(40, 40, 700)])
    picked = bench.blas.algorithms()
    other = bench.stream()
    bench.blas.prepare([Product(40, 40, 700)], stream=other)
    bench.blas.prepare([Product(8, 8, 8)])
    assert bench.blas.algorithms()[Product(40, 40, 700)] == picked[Product(40, 40, 700)]
    begin = {"cublas": "algorithm ", "kernel": "gemm_nn, split-K 4"}
    assert picked[Product(40, 40, 700)].startswith(begin[bench.blas.backend])
    bench.blas.resize(1 << 20)
    assert bench.blas.algorithms() == {}


@pytest.mark.parametrize("odd", ["out", "a", "b", "all"])
def test_a_part_may_begin_at_any_element(bench: Bench, odd: str) -> None:
    """What `prepare` picked for scratch at multiples of 256 bytes runs on any part of a slice."""
    m, n, k = 36, 28, 260  # multiples of 4: nothing but the beginning keeps wide loads away
    bench.blas.prepare([Product(m, n, k)])
    chance = np.random.default_rng(7)
    a, b = (chance.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    values = {"out": np.full((m, n), np.nan, np.float32), "a": a, "b": b}
    parts: dict[str, Slice] = {}
    for name, value in values.items():
        whole = bench.put(name, np.full(value.size + 2, np.nan))
        parts[name] = whole.part(1 if odd in (name, "all") else 0, value.shape)
        upload(parts[name], value, bench.rig.stream)
    bench.blas.gemm(bench.rig.stream, parts["out"], parts["a"], parts["b"], m, n, k)
    error = np.abs(download(parts["out"], bench.rig.stream) - a.astype(np.float64) @ b)
    assert (error <= TOLERANCE * (np.abs(a).astype(np.float64) @ np.abs(b))).all()
