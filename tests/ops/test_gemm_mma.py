from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import FusedLinear
from tests.hostdev.narrow_floats import BFLOAT16
from tests.ops import twins
from tests.ops.compare import Array, Output, assert_same_bits, in_place, normal, output
from tests.support.rig import Rig

pytestmark = pytest.mark.both

# rows, inputs, outputs: one, and below, at and past every tile and the depth of 32; 257 and 300
# rows are summed in three parts for the gradient of the weight.
SIZES = [(1, 8, 8), (31, 40, 24), (33, 136, 72), (64, 64, 64), (257, 32, 136), (300, 96, 40)]
TILES = [(128, 64), (64, 64), (32, 64), (32, 32)]
ROUND = 2.0**-8  # relative error of one rounding to bfloat16
STEEPEST = 1.13  # slope of gelu


@dataclass
class Case:
    """A layer's tensors: bfloat16 as bits, and all as float64 numbers."""

    rows: int
    inputs: int
    outputs: int
    seed: int
    draw: Callable[..., Array] = normal

    def __post_init__(self) -> None:
        shapes = {
            "x": (self.rows, self.inputs),
            "weight": (self.outputs, self.inputs),
            "dy": (self.rows, self.outputs),
            "hidden": (self.rows, self.inputs),
        }
        numbers = {name: self.draw(self.seed + i, *s) for i, (name, s) in enumerate(shapes.items())}
        self.bits = {name: BFLOAT16.bits(array) for name, array in numbers.items()}
        self.narrow_bias = BFLOAT16.bits(self.draw(self.seed + 8, self.outputs))
        self.bias = BFLOAT16.wide(self.narrow_bias).astype(np.float32)
        self.residual = self.draw(self.seed + 9, self.rows, self.outputs).astype(np.float32)
        self.x, self.weight, self.dy, self.hidden = (BFLOAT16.wide(b) for b in self.bits.values())

    def layer(self, rig: Rig, tile: tuple[int, int] | None = None) -> FusedLinear:
        return FusedLinear(rig.library, self.rows, self.inputs, self.outputs, tile)


def whole(seed: int, *shape: int) -> Array:
    """Whole numbers, of which float32 sums exactly in any order."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def narrow(rig: Rig, *shape: int, name: str) -> Output:
    return output(rig, *shape, dtype=np.uint16, name=name)


def assert_rounded(got: Output, want: Array, slack: Array, what: str) -> None:
    """Compare with a result rounded once to the output's type, `slack` before that."""
    is_wide = got.dtype == np.float32
    numbers = got.get() if is_wide else BFLOAT16.wide(got.get())
    limit = (2.0**-24 if is_wide else ROUND) * np.abs(want) + (1 + ROUND) * slack
    excess = np.abs(numbers - want) - limit
    assert (excess <= 0).all(), f"{what}: beyond its bound by {excess.max():.2e}"


def sum_slack(a: Array, b: Array, *more: Array) -> Array:
    """The error of float32 sums: each addition cuts 2^-22 of the size of the terms off at most."""
    size = np.abs(a) @ np.abs(b) + sum(np.abs(term) for term in more)
    return np.asarray((a.shape[1] + len(more)) * 2.0**-22 * size)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_forward(rig: Rig, size: tuple[int, int, int], tile: tuple[int, int]) -> None:
    case = Case(*size, seed=size[0])
    layer, shape = case.layer(rig, tile), (case.rows, case.outputs)
    x, weight, bias = rig.put(case.bits["x"]), rig.put(case.bits["weight"]), rig.put(case.bias)
    narrow_bias = rig.put(case.narrow_bias)
    y, biased, hidden, active = (narrow(rig, *shape, name=n) for n in ("y", "b", "h", "a"))
    wide, out = output(rig, *shape, name="wide"), in_place(rig, case.residual, "out")

    layer.forward(rig.stream, y, x, weight)
    layer.forward_wide(rig.stream, wide, x, weight)
    layer.forward_bias(rig.stream, biased, x, weight, narrow_bias)
    layer.forward_gelu(rig.stream, active, hidden, x, weight, narrow_bias)
    layer.forward_residual(rig.stream, out, x, weight, bias, out)

    product = case.x @ case.weight.T
    slack = sum_slack(case.x, case.weight.T, case.bias, case.residual)
    assert_rounded(y, product, slack, "y")
    assert_rounded(wide, product, slack, "y_wide")
    assert_rounded(biased, product + case.bias, slack, "y with bias")
    assert_rounded(hidden, product + case.bias, slack, "hidden")
    # The gate is a few float32 operations; its argument's error grows by the exponent's size.
    gate_slack = STEEPEST * slack + 40 * 2.0**-24 * np.abs(product + case.bias)
    assert_rounded(active, twins.gelu_forward(product + case.bias), gate_slack, "active")
    assert_rounded(out, case.residual + product + case.bias, slack, "residual")


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_backward(
    rig: Rig, size: tuple[int, int, int], tile: tuple[int, int], accumulate: bool
) -> None:
    case = Case(*size, seed=size[0])
    layer = case.layer(rig, tile)
    x, weight, dy, hidden = (rig.put(case.bits[n]) for n in ("x", "weight", "dy", "hidden"))
    dx, dhidden = (narrow(rig, case.rows, case.inputs, name=n) for n in ("dx", "dhidden"))
    before = normal(1, *case.weight.shape), normal(2, case.outputs)
    if accumulate:
        sums = [[in_place(rig, array) for array in before] for _ in range(2)]
    else:
        sums = [[output(rig, *array.shape) for array in before] for _ in range(2)]
    room = output(rig, *layer.workspace_shape(), name="workspace")

    layer.backward(rig.stream, dx, *sums[0], room, dy, x, weight, accumulate=accumulate)
    layer.backward_gelu(
        rig.stream, dhidden, *sums[1], room, dy, x, weight, hidden, accumulate=accumulate
    )

    product, slack = case.dy @ case.weight, sum_slack(case.dy, case.weight)
    assert_rounded(dx, product, slack, "dx")
    slope_slack = STEEPEST * slack + 80 * 2.0**-24 * np.abs(product)
    assert_rounded(dhidden, twins.gelu_backward(product, case.hidden), slope_slack, "dhidden")
    ones = np.ones((case.rows, 1))
    added = before if accumulate else (np.zeros(1), np.zeros(1))
    for dweight, dbias in sums:
        assert_rounded(
            dweight, case.dy.T @ case.x + added[0], sum_slack(case.dy.T, case.x, added[0]), "dw"
        )
        slack = sum_slack(case.dy.T, ones, added[1][:, None])[:, 0]
        assert_rounded(dbias, case.dy.sum(axis=0) + added[1], slack, "dbias")
    room.get()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("size", [(200, 72, 136), (384, 104, 40)], ids=str)
def test_whole_numbers_are_exact(rig: Rig, size: tuple[int, int, int], seed: int) -> None:
    case = Case(*size, seed=seed, draw=whole)
    layer = case.layer(rig)
    x, weight, dy = (rig.put(case.bits[name]) for name in ("x", "weight", "dy"))
    wide = output(rig, case.rows, case.outputs)
    dx = narrow(rig, case.rows, case.inputs, name="dx")
    dweight, dbias = output(rig, *case.weight.shape), output(rig, case.outputs)
    room = output(rig, *layer.workspace_shape())

    layer.forward_wide(rig.stream, wide, x, weight)
    layer.backward(rig.stream, dx, dweight, dbias, room, dy, x, weight)

    np.testing.assert_array_equal(wide.get(), case.x @ case.weight.T)
    np.testing.assert_array_equal(dx.get(), BFLOAT16.bits(case.dy @ case.weight))
    np.testing.assert_array_equal(dweight.get(), case.dy.T @ case.x)
    np.testing.assert_array_equal(dbias.get(), case.dy.sum(axis=0))


@pytest.mark.parametrize("rows", [100, 300])
def test_gradients_that_nobody_wants_are_not_written(rig: Rig, rows: int) -> None:
    case = Case(rows, 16, 24, seed=0)
    layer = case.layer(rig)
    x, weight, dy = (rig.put(case.bits[name]) for name in ("x", "weight", "dy"))
    dweight, room = output(rig, *case.weight.shape), output(rig, *layer.workspace_shape())

    layer.backward(rig.stream, None, dweight, None, room, dy, x, weight)

    slack = sum_slack(case.dy.T, case.x)
    assert_rounded(dweight, case.dy.T @ case.x, slack, "dweight")
    assert np.isnan(room.get()[:, case.weight.size :]).all()


@pytest.mark.parametrize("size", [(1, 8, 8), (300, 40, 72)], ids=str)
@pytest.mark.parametrize("gelu", [False, True])
def test_each_gradient_alone_has_the_bits_of_both(
    rig: Rig, size: tuple[int, int, int], gelu: bool
) -> None:
    case = Case(*size, seed=5)
    layer = case.layer(rig)
    call = layer.backward_gelu if gelu else layer.backward
    names = ("dy", "x", "weight", "hidden") if gelu else ("dy", "x", "weight")
    read = [rig.put(case.bits[name]) for name in names]
    room = output(rig, *layer.workspace_shape())

    def outputs() -> list[Output]:
        dweight, dbias = output(rig, *case.weight.shape), output(rig, case.outputs)
        return [narrow(rig, case.rows, case.inputs, name="dx"), dweight, dbias]

    both, alone = outputs(), outputs()
    call(rig.stream, *both, room, *read)
    call(rig.stream, alone[0], None, None, 0, *read)
    assert np.isnan(alone[1].get()).all()
    call(rig.stream, None, *alone[1:], room, *read)
    for one, other in zip(both, alone, strict=True):
        assert_same_bits(one.get(), other.get())


@pytest.mark.parametrize("size", [(300, 40, 72), (50, 264, 16)], ids=str)
def test_repeats_bit_for_bit(rig: Rig, size: tuple[int, int, int]) -> None:
    case = Case(*size, seed=3)
    layer = case.layer(rig)
    x, weight, dy, bias = (
        rig.put(a) for a in (*(case.bits[n] for n in ("x", "weight", "dy")), case.narrow_bias)
    )

    def run() -> list[Array]:
        y = narrow(rig, case.rows, case.outputs, name="y")
        dx = narrow(rig, case.rows, case.inputs, name="dx")
        dweight, dbias = output(rig, *case.weight.shape), output(rig, case.outputs)
        room = output(rig, *layer.workspace_shape())
        layer.forward_bias(rig.stream, y, x, weight, bias)
        layer.backward(rig.stream, dx, dweight, dbias, room, dy, x, weight)
        return [tensor.get() for tensor in (y, dx, dweight, dbias)]

    first = run()
    for _ in range(2):
        for one, other in zip(first, run(), strict=True):
            assert_same_bits(one, other)


def test_no_rows_give_no_gradient(rig: Rig) -> None:
    layer = FusedLinear(rig.library, 0, 8, 16)
    untouched = narrow(rig, 4, name="y")
    dweight, dbias = output(rig, 16, 8), output(rig, 16)
    room = output(rig, *layer.workspace_shape())

    layer.forward(rig.stream, untouched, 0, 0)
    layer.backward(rig.stream, untouched, dweight, dbias, room, 0, 0, 0)

    assert (untouched.get() == 0xFFFF).all()
    assert (dweight.get() == 0).all()
    assert (dbias.get() == 0).all()


@pytest.mark.parametrize(("rows", "columns", "tile"), [
    (4096, 768, (128, 64)), (2048, 384, (64, 64)), (2048, 128, (32, 64)), (100, 128, (32, 32))
])  # fmt: skip
def test_a_result_gets_as_large_tiles_as_keep_a_gpu_busy(
    rig: Rig, rows: int, columns: int, tile: tuple[int, int]
) -> None:
    layers = [FusedLinear(rig.library, rows, 8, columns, t) for t in (None, tile)]
    assert layers[0]._grid == layers[1]._grid


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 8), (8, 0), (12, 8), (8, 20), (-8, 8)])
def test_columns_it_cannot_run_are_refused(rig: Rig, inputs: int, outputs: int) -> None:
    with pytest.raises(ConfigError, match=r"multiples of 8 .*pad them|must be 8 to"):
        FusedLinear(rig.library, 32, inputs, outputs)


def test_a_tile_it_does_not_have_is_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match=r"tile must be one of \(\(128, 64\)"):
        FusedLinear(rig.library, 32, 8, 8, (64, 128))
