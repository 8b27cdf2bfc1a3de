"""Linear layers in every precision, with activations that are float32 around the products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.errors import ConfigError
from lowgraph.memory import PersistentPool, Slice, download, upload
from lowgraph.models.linear import Linear
from lowgraph.models.model import Model
from lowgraph.precision import Precision
from lowgraph.specs import TensorSpec
from tests.ops.compare import ROUNDOFF, Array, normal
from tests.ops.rounding import to_bfloat16, to_tf32
from tests.support.rig import Rig

INPUTS, OUTPUTS = 31, 17  # odd: the weights' rows begin anywhere
SPECS = [TensorSpec("a.weight", (OUTPUTS, INPUTS)), TensorSpec("a.bias", (OUTPUTS,))]
ROUNDED = {
    Precision.FP32: lambda values: values,
    Precision.TF32: to_tf32,
    Precision.BF16: to_bfloat16,
}
FP32, TF32, BF16 = Precision


class Bench:
    """One layer, its model, and what it should give."""

    def __init__(self, rig: Rig, precision: Precision, seed: int) -> None:
        self.rig, self.precision = rig, precision
        self.pool = PersistentPool(rig.device)
        self.blas = Blas(rig.device, rig.library, rig.stream, self.pool)
        cast = ops.Cast(rig.library) if precision is BF16 else None
        self.model = Model(SPECS, 1, self.pool, rig.stream, cast)
        shapes = {spec.name: spec.shape for spec in SPECS}
        self.state = {name: normal(seed, *shape) for name, shape in shapes.items()}
        self.model.load_state(self.state, rig.stream)
        self.layers = Linear(
            rig.library, self.blas, self.pool, self.model.parameters, self.model.gradients,
            self.model.shadow, precision,
        )  # fmt: skip

    def put(self, name: str, values: Array) -> Slice:
        piece = self.pool.take(name, values.shape)
        upload(piece, values, self.rig.stream)
        return piece

    def rounded(self, values: Array) -> Array:
        return ROUNDED[self.precision](values).astype(np.float64)

    def check(self, piece: Slice, left: Array, right: Array, added: Any = 0.0) -> None:
        """piece = left right + added: with operands that are exact, but for float32's sums."""
        got = download(piece, self.rig.stream)
        assert got.dtype == np.float32
        # TF32: a GPU may round its operands otherwise than to nearest, by two units at most.
        slack = 2.0**-9 if self.precision is TF32 else 0.0
        size = np.abs(left) @ np.abs(right) + np.abs(added)
        limit = (2 * (left.shape[1] + 2) * ROUNDOFF + slack) * size
        assert (np.abs(got - (left @ right + added)) <= limit).all()

    def close(self) -> None:
        self.rig.sync()
        self.blas.close()
        self.pool.close()


@pytest.fixture(params=[(precision, seed) for precision in Precision for seed in (0, 1)], ids=str)
def bench(rig: Rig, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(rig, *request.param)
    yield made
    made.close()


@pytest.mark.parametrize("rows", [1, 33])
def test_float32_around_the_products(bench: Bench, rows: int) -> None:
    """The way of a model whose kernels know float32 alone: cast, product, float32 again."""
    stream, layers = bench.rig.stream, bench.layers
    x, dy, before = normal(3, rows, INPUTS), normal(4, rows, OUTPUTS), normal(5, rows, INPUTS)
    weight, bias = bench.rounded(bench.state["a.weight"]), bench.state["a.bias"]

    wide_x, wide_dy = bench.put("x", x), bench.put("dy", dy)
    x_flow, dy_flow = layers.flow(stream, "x", wide_x), layers.flow(stream, "dy", wide_dy)
    operand, gradient = x_flow.operand, dy_flow.operand
    y = layers.linear(stream, "a", operand, wide=True)
    layers.bias_gradient(stream, "a", wide_dy)
    dx = layers.project_backward(stream, "a", gradient, operand, wide=True)
    added = layers.project_backward(stream, "a", gradient, operand, bench.put("dx", before))

    bench.check(y, bench.rounded(x), weight.T, bias)
    bench.check(dx, bench.rounded(dy), weight)
    bench.check(added, bench.rounded(dy), weight, before)
    bench.check(bench.model.gradients["a.weight"], bench.rounded(dy).T, bench.rounded(x))
    dbias = download(bench.model.gradients["a.bias"], stream)
    np.testing.assert_allclose(dbias, dy.astype(np.float64).sum(axis=0), rtol=0, atol=1e-5)
    bf16 = bench.precision is BF16
    assert x_flow.pieces == ((wide_x, operand) if bf16 else (wide_x,))
    assert x_flow.narrow == (operand if bf16 else 0)


def test_a_float32_operand_is_refused_with_bf16(rig: Rig) -> None:
    bench = Bench(rig, BF16, 0)
    try:
        with pytest.raises(ConfigError, match=r"a 'x' is float32, not bfloat16"):
            bench.layers.project(rig.stream, "a", bench.put("x", normal(3, 2, INPUTS)))
    finally:
        bench.close()
