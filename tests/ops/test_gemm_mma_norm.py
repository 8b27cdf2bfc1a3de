"""Linear layers with the norm behind them: against float64, and against the two launches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import FusedLinear, LayerNorm, NormedLinear
from lowgraph.precision import Precision
from tests.hostdev.narrow_floats import BFLOAT16
from tests.ops import twins
from tests.ops.compare import Array, Output, assert_same_bits, in_place, normal, output
from tests.support.rig import Rig

pytestmark = pytest.mark.both

C = NormedLinear.COLUMNS
EPSILON = 1e-5
# rows, depth: one row, below, at and past a block of 16 and 32; a depth within a stage of 64, of
# a stage and a part, and of more stages than there are at once.
SIZES = [(1, 8), (31, 40), (33, 136), (257, 384)]
TILES = NormedLinear.TILES
UNIT = 2.0**-24
ROUND = 2.0**-8  # of one rounding to bfloat16


@dataclass
class Case:
    """A layer's tensors: bfloat16 as bits, and all as float64 numbers."""

    rows: int
    depth: int
    seed: int = 0
    mean: float = 0.5

    def __post_init__(self) -> None:
        self.x_bits = BFLOAT16.bits(normal(self.seed, self.rows, self.depth))
        self.weight_bits = BFLOAT16.bits(normal(self.seed + 1, C, self.depth))
        self.residual = normal(self.seed + 2, self.rows, C, mean=self.mean)
        self.bias, self.scale, self.shift = (normal(self.seed + n, C) for n in (3, 4, 5))
        self.x, self.weight = (BFLOAT16.wide(bits) for bits in (self.x_bits, self.weight_bits))

    def read(self, rig: Rig, residual: Output) -> list[object]:
        before = [rig.put(array) for array in (self.x_bits, self.weight_bits, self.bias)]
        return [*before, residual, rig.put(self.scale), rig.put(self.shift)]


@dataclass
class Forward:
    """What a forward call writes."""

    out: Output
    y: Output
    mean: Output
    rstd: Output

    @staticmethod
    def of(rig: Rig, rows: int, out: Output) -> Forward:
        y = output(rig, rows, C, dtype=np.uint16, name="y")
        return Forward(out, y, output(rig, rows, name="mean"), output(rig, rows, name="rstd"))

    @property
    def all(self) -> tuple[Output, ...]:
        return self.out, self.y, self.mean, self.rstd


def run_forward(rig: Rig, case: Case, tile: int = TILES[0], *, joined: bool = False) -> Forward:
    """joined: out is the residual."""
    residual = in_place(rig, case.residual, "residual")
    out = residual if joined else output(rig, case.rows, C, name="out")
    found = Forward.of(rig, case.rows, out)
    layer = NormedLinear(rig.library, case.rows, case.depth, tile)
    layer.forward(rig.stream, *found.all, *case.read(rig, residual))
    return found


def assert_within(got: Array, want: Array, limit: Array | float, what: str) -> None:
    excess = np.abs(got - want) - limit
    assert (excess <= 0).all(), f"{what}: beyond its bound by {excess.max():.2e}"


def assert_normed(found: Forward, case: Case) -> None:
    """out to the error of its sum; the rest to that error, by what it does to a norm."""
    sum_ = case.x @ case.weight.T + case.bias + case.residual.astype(np.float64)
    size = np.abs(case.x) @ np.abs(case.weight.T) + np.abs(case.bias) + np.abs(case.residual)
    # Each addition cuts 2^-22 of the size of the terms off at most (tensor cores do not round).
    slack = (case.depth + 3) * 2.0**-22 * size
    out = found.out.get().astype(np.float64)
    assert_within(out, sum_, slack, "out")
    # Of the out that was written: its rows' sums have 128 terms, a few dozen roundings.
    y, mean, rstd = twins.layernorm_forward(out, case.scale, case.shift, EPSILON)
    far = np.abs(out - out[:, :1]).max(axis=1)
    assert_within(found.mean.get(), mean, 64 * UNIT * (np.abs(mean) + far), "mean")
    assert_within(found.rstd.get(), rstd, 128 * UNIT * rstd, "rstd")
    steps = 128 * UNIT * (np.abs(y) + np.abs(case.shift) + np.abs(case.scale))
    got = BFLOAT16.wide(found.y.get())
    assert_within(got, y, ROUND * np.abs(y) + 2 * steps, "y")


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_forward(rig: Rig, size: tuple[int, int], tile: int, joined: bool) -> None:
    case = Case(*size, seed=size[0])
    assert_normed(run_forward(rig, case, tile, joined=joined), case)


def test_forward_of_the_rows_of_tiny(rig: Rig) -> None:
    case = Case(2048, 8, seed=9)
    assert_normed(run_forward(rig, case), case)


def test_a_small_spread_on_a_large_mean_is_kept(rig: Rig) -> None:
    """Mean of squares minus square of the mean would lose every digit here."""
    case = Case(33, 8, mean=1000.0)
    case.x_bits[:] = 0
    case.x[:] = 0
    assert_normed(run_forward(rig, case), case)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("rows", [1, 31, 33, 257])
def test_forward_is_what_two_launches_give(rig: Rig, rows: int, tile: int) -> None:
    """Of whole numbers, whose sums are exact: out has the bits, and y those of a rounding less."""
    case = Case(rows, 72, seed=rows)
    case.x_bits, case.weight_bits = (
        BFLOAT16.bits(np.random.default_rng(n).integers(-4, 5, s).astype(np.float32))
        for n, s in enumerate([case.x.shape, case.weight.shape])
    )
    found = run_forward(rig, case, tile)

    residual = in_place(rig, case.residual)
    branch = output(rig, rows, C)
    other = Forward.of(rig, rows, branch)
    x, weight, bias, _, scale, shift = case.read(rig, residual)
    FusedLinear(rig.library, rows, case.depth, C).forward_wide(rig.stream, branch, x, weight)
    norm = LayerNorm(rig.library, precision=Precision.BF16)
    read = residual, branch, bias, scale, shift
    norm.residual_forward(rig.stream, *other.all, *read, rows, C)

    assert_same_bits(found.out.get(), other.out.get(), "out")
    for name in ("mean", "rstd"):
        one, two = getattr(found, name).get(), getattr(other, name).get()
        # The rows' sums have the same terms in another order, of up to 16 rounding steps each.
        assert_within(one, two, 64 * UNIT * (np.abs(two) + np.abs(one).max()), name)
    one, two = (BFLOAT16.wide(result.y.get()) for result in (found, other))
    assert_within(one, two, 2 * ROUND * np.abs(two) + 1e-4, "y")


@pytest.mark.parametrize("tile", TILES)
def test_forward_repeats_bit_for_bit(rig: Rig, tile: int) -> None:
    case = Case(45, 200)
    first = [tensor.get() for tensor in run_forward(rig, case, tile).all]
    for _ in range(2):
        for one, other in zip(first, run_forward(rig, case, tile).all, strict=True):
            assert_same_bits(one, other.get())


def test_no_rows_are_no_launch(rig: Rig) -> None:
    layer, untouched = NormedLinear(rig.library, 0, 8), output(rig, 4)
    layer.forward(rig.stream, *[untouched] * 4, *[0] * 6)
    assert np.isnan(untouched.get()).all()


@pytest.mark.parametrize("depth", [0, 12, -8])
def test_a_depth_it_cannot_run_is_refused(rig: Rig, depth: int) -> None:
    with pytest.raises(ConfigError, match=r"multiple of 8 .*pad it|must be 8 to"):
        NormedLinear(rig.library, 32, depth)


def test_a_tile_it_does_not_have_is_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match=r"tile must be one of \(32, 16\), got 64"):
        NormedLinear(rig.library, 32, 8, 64)
