from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import LinearTf32
from tests.ops.compare import Array, assert_same_bits, normal, output
from tests.ops.rounding import to_tf32
from tests.support.rig import Rig

pytestmark = pytest.mark.both

# rows, inputs, outputs: one, and below, at and past tiles of 16 and 32, what a block's eight warps
# take at once of a depth (256, of rows 128), and rows of y and dy that are no quads.
SIZES = [
    (1, 4, 1), (1, 36, 4), (31, 4, 36), (33, 36, 10), (129, 260, 31), (16, 256, 32),
    (128, 32, 260), (300, 68, 257),
]  # fmt: skip


class Made(NamedTuple):
    """What a layer's two calls gave."""

    y: Array
    dx: Array
    dweight: Array
    dbias: Array


class Case:
    """A layer's tensors."""

    def __init__(
        self, size: tuple[int, int, int], seed: int, draw: Callable[..., Array] = normal
    ) -> None:
        self.size = rows, inputs, outputs = size
        self.x, self.weight = draw(seed, rows, inputs), draw(seed + 1, outputs, inputs)
        self.bias, self.dy = draw(seed + 2, outputs), draw(seed + 3, rows, outputs)
        # Of another call than the one under test, so that gates and signs of y are apart.
        self.y = np.maximum(draw(seed + 4, rows, outputs), 0)

    def run(self, rig: Rig, *, relu: bool) -> Made:
        rows, inputs, outputs = self.size
        layer = LinearTf32(rig.library, rows, inputs, outputs)
        x, weight, bias, dy, gates = map(rig.put, (self.x, self.weight, self.bias, self.dy, self.y))
        y, dx = output(rig, rows, outputs, name="y"), output(rig, rows, inputs, name="dx")
        dweight, dbias = output(rig, outputs, inputs, name="dw"), output(rig, outputs, name="db")
        if relu:
            layer.forward_relu(rig.stream, y, x, weight, bias)
            layer.backward_relu(rig.stream, dx, dweight, dbias, dy, x, weight, gates)
        else:
            layer.forward(rig.stream, y, x, weight, bias)
            layer.backward(rig.stream, dx, dweight, dbias, dy, x, weight)
        return Made(*(tensor.get() for tensor in (y, dx, dweight, dbias)))

    def wanted(self, *, relu: bool) -> dict[str, tuple[Array, Array]]:
        """Each result in float64, of operands rounded to TF32, and its error bound."""
        z, slack = product(self.x, self.weight.T, self.bias)
        dz = np.where(self.y > 0, self.dy, 0) if relu else self.dy
        # dbias: of numbers that are not rounded, in float32.
        dbias = dz.astype(np.float64).sum(axis=0), len(dz) * 2.0**-24 * np.abs(dz).sum(axis=0)
        return {
            "y": (np.maximum(z, 0) if relu else z, slack),
            "dx": product(dz, self.weight),
            "dweight": product(dz.T, self.x),
            "dbias": dbias,
        }


def product(a: Array, b: Array, *more: Array) -> tuple[Array, Array]:
    """The product of rounded operands, and what its sum may be off.

    TF32 rounding is to nearest on both devices, and products of rounded numbers are exact in the
    tensor cores, so only additions err: each cuts 2^-22 of the size of the terms off at most.
    """
    left, right = to_tf32(a), to_tf32(b)
    size = np.abs(left) @ np.abs(right) + sum(np.abs(term) for term in more)
    slack = (a.shape[1] + len(more)) * 2.0**-22 * size
    return left @ right + sum(term.astype(np.float64) for term in more), slack


def whole(seed: int, *shape: int) -> Array:
    """Whole numbers, of which float32 sums exactly in any order."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_layer_and_its_gradients(
    rig: Rig, size: tuple[int, int, int], relu: bool, seed: int
) -> None:
    case = Case(size, 10 * seed)
    made = case.run(rig, relu=relu)._asdict()
    for name, (want, slack) in case.wanted(relu=relu).items():
        excess = np.abs(made[name] - want) - slack
        assert (excess <= 0).all(), f"{name}: beyond its bound by {excess.max():.2e}"


@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("size", [(129, 100, 36), (257, 260, 10)], ids=str)
def test_whole_numbers_are_exact(rig: Rig, size: tuple[int, int, int], relu: bool) -> None:
    case = Case(size, 5, whole)
    made = case.run(rig, relu=relu)._asdict()
    for name, (want, _) in case.wanted(relu=relu).items():
        np.testing.assert_array_equal(made[name], want, err_msg=name)


@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("size", [(129, 260, 36), (33, 288, 10)], ids=str)
def test_repeats_bit_for_bit(rig: Rig, size: tuple[int, int, int], relu: bool) -> None:
    case = Case(size, 3)
    first = case.run(rig, relu=relu)
    for _ in range(2):
        for one, other in zip(first, case.run(rig, relu=relu), strict=True):
            assert_same_bits(one, other)


def test_operands_are_rounded_to_nearest_and_sums_of_columns_are_not(rig: Rig) -> None:
    """By one product: cutting low bits off, or not rounding at all, would show in its bits."""
    case = Case((1, 4, 1), 0)
    case.x[:] = [[1 + 2.0**-11, 0, 0, 0]]  # half way between two TF32 numbers: away from zero
    case.weight[:], case.bias[:] = [[1 - 2.0**-13, 0, 0, 0]], 0
    case.dy[:] = 1 + 2.0**-20
    made = case.run(rig, relu=False)
    assert made.y[0, 0] == 1 + 2.0**-10
    assert made.dx[0, 0] == 1
    assert made.dweight[0, 0] == 1 + 2.0**-10
    assert made.dbias[0] == case.dy[0, 0]


@pytest.mark.parametrize("outputs", [8, 10])
def test_a_nan_is_not_hidden(rig: Rig, outputs: int) -> None:
    """A maximum would turn it into a zero, and a broken run would look like a dead layer."""
    case = Case((20, 8, outputs), 1)
    case.x[3, 5], case.y[7, 2], case.dy[9, 1], case.y[9, 1] = np.nan, np.nan, np.nan, 1
    made = case.run(rig, relu=True)
    assert np.isnan(made.y[3]).all() and np.isfinite(np.delete(made.y, 3, 0)).all()
    assert np.isnan(made.dx[9]).all() and np.isfinite(np.delete(made.dx, 9, 0)).all()
    assert np.isnan(made.dweight[1]).all() and np.isnan(made.dweight[:, 5]).all()
    assert np.flatnonzero(np.isnan(made.dbias)).tolist() == [1]


def test_what_lies_behind_the_depth_is_not_read_into_it(rig: Rig) -> None:
    """The next row's numbers would be: here they are infinite, and 0 times infinity is NaN."""
    case = Case((5, 36, 12), 2)
    case.x[1:], case.weight[1:] = np.inf, np.inf
    want, slack = product(case.x[:1], case.weight[:1].T, case.bias[:1])
    assert abs(case.run(rig, relu=False).y[0, 0] - want[0, 0]) <= slack[0, 0]


def test_gradients_that_nobody_wants_are_not_written(rig: Rig) -> None:
    case = Case((33, 36, 40), 4)
    layer = LinearTf32(rig.library, *case.size)
    dy, x, weight, y = map(rig.put, (case.dy, case.x, case.weight, case.y))
    dweights = [output(rig, *case.weight.shape) for _ in range(2)]
    layer.backward(rig.stream, None, dweights[0], None, dy, x, weight)
    layer.backward_relu(rig.stream, None, dweights[1], None, dy, x, weight, y)
    for relu, got in enumerate(dweights):
        assert_same_bits(got.get(), case.run(rig, relu=bool(relu)).dweight)


def test_no_rows_give_no_gradient(rig: Rig) -> None:
    layer = LinearTf32(rig.library, 0, 8, 6)
    untouched, dweight, dbias = output(rig, 4), output(rig, 6, 8), output(rig, 6)
    layer.forward(rig.stream, untouched, 0, 0, 0)
    layer.backward(rig.stream, untouched, dweight, dbias, 0, 0, 0)
    LinearTf32(rig.library, 3, 8, 0).forward_relu(rig.stream, untouched, 0, 0, 0)
    assert np.isnan(untouched.get()).all()
    assert (dweight.get() == 0).all() and (dbias.get() == 0).all()


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 8), (6, 8), (-4, 8), (8, -1)])
def test_columns_it_cannot_run_are_refused(rig: Rig, inputs: int, outputs: int) -> None:
    with pytest.raises(ConfigError, match=r"multiple of 4 .*pad them|must be [04] to"):
        LinearTf32(rig.library, 32, inputs, outputs)


@pytest.mark.parametrize(
    ("sizes", "product"),
    [
        ((1 << 16, 1 << 15, 1), "rows . inputs"),
        ((1 << 16, 4, 1 << 15), "rows . outputs"),
        ((1, 1 << 15, 1 << 16), "outputs . inputs"),
    ],
)
def test_a_matrix_beyond_an_int_is_refused(
    rig: Rig, sizes: tuple[int, int, int], product: str
) -> None:
    with pytest.raises(ConfigError, match=rf"{product} must be 0 to 2147483647, got 2147483648"):
        LinearTf32(rig.library, *sizes)
