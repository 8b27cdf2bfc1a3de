"""Case 9, products: a size that was not primed is refused, whichever backend runs the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lowgraph.blas import Blas, Product
from lowgraph.capture import GraphStep, Phase
from lowgraph.errors import FrozenScalar
from lowgraph.memory import open_window
from tests.capture.micro import Micro

FILE = Path(__file__).name


class Products:
    """A Blas, and a step whose body knows whether it primes or is recorded."""

    def __init__(self, micro: Micro) -> None:
        self.micro = micro
        rig = micro.rig
        self.blas = Blas(rig.device, rig.library, rig.stream, micro.pool, workspace=1 << 20)

    def step(self, body: Callable[[int, bool], None]) -> GraphStep:
        return self.micro.step(body=lambda stream: body(stream, open_window.mine() is not None))

    def gemm(self, stream: int, k: int) -> None:
        take = self.micro.pool.take
        out, a, b = take("c", (31, 31)), take("a", (31, 33)), take("b", (33, 31))
        self.blas.gemm(stream, out, a, b, 31, 31, k)

    def close(self) -> None:
        for step in self.micro.steps:
            step.close()
        self.blas.close()


@pytest.fixture
def products(micro: Micro) -> Iterator[Products]:
    made = Products(micro)
    yield made
    made.close()


def test_a_product_of_another_size_is_refused_as_frozen(products: Products) -> None:
    sizes = Product(31, 31, 33), Product(31, 31, 32)
    products.blas.prepare(sizes)
    step = products.step(lambda stream, window: products.gemm(stream, 32 if window else 33))
    step.prime()
    with pytest.raises(FrozenScalar) as raised:
        step.capture()
    error = raised.value
    assert (error.kernel, error.parameter) == ("gemm", "sizes")
    assert (error.primed, error.recorded) == sizes
    told = "product 0 was Product(31, 31, 33) in the priming pass and Product(31, 31, 32) in the"
    assert told in str(error) and "ShapeKeyedSteps" in error.remedy
    assert f"/{FILE}:" in (error.where or "")
    assert error.differs == "", "it says so itself"


def test_one_product_more_is_a_warning(products: Products) -> None:
    def body(stream: int, window: bool) -> None:
        for _ in range(2 if window else 1):
            products.gemm(stream, 33)

    step = products.step(body)
    step()
    pool, said = products.micro.pool, products.micro.said
    pool.give_back(pool.take("room", (3, 33 * 33)))  # for the slices that were not primed
    step()
    assert step.phase is Phase.READY, step.report().text()
    assert len(said) == 1 and "has slice 'c' of " in said[0]
    assert "slices 6, products 2; primed: " in said[0] and "slices 3, products 1; " in said[0]
