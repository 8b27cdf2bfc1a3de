"""Linear layers with the norm behind them: against float64, and against the two launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import FusedLinear, LayerNorm, NormedLinear
from lowgraph.precision import Precision
from tests.hostdev.narrow_floats import BFLOAT16
from tests.ops import twins
from tests.ops.compare import Array, Output, assert_same_bits, in_place, normal, output, wide
from tests.ops.compare import columns as columns_from
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
    # Rounded once each, of numbers that differ by as much as mean and rstd do.
    far = np.abs(found.out.get() - found.mean.get()[:, None]) * found.rstd.get()[:, None]
    steps = 64 * UNIT * (1 + far) * (np.abs(case.scale) + np.abs(case.shift))
    assert_within(one, two, 2 * ROUND * np.abs(two) + 4 * steps, "y")


@pytest.mark.parametrize("tile", TILES)
def test_forward_repeats_bit_for_bit(rig: Rig, tile: int) -> None:
    case = Case(45, 200)
    first = [tensor.get() for tensor in run_forward(rig, case, tile).all]
    for _ in range(2):
        for one, other in zip(first, run_forward(rig, case, tile).all, strict=True):
            assert_same_bits(one, other.get())


@dataclass
class Backward:
    """What backward reads: dz and the weight as bits, and all as float64 numbers."""

    rows: int
    depth: int
    seed: int = 0
    draw: Callable[..., Array] = normal

    def __post_init__(self) -> None:
        self.dz_bits = BFLOAT16.bits(self.draw(self.seed, self.rows, self.depth))
        self.weight_bits = BFLOAT16.bits(self.draw(self.seed + 1, self.depth, C))
        self.dz, self.weight = (BFLOAT16.wide(bits) for bits in (self.dz_bits, self.weight_bits))
        self.normed = normal(self.seed + 2, self.rows, C, mean=0.5)
        self.scale = normal(self.seed + 3, C)
        _, *rest = twins.layernorm_forward(*wide(self.normed, self.scale, self.scale), EPSILON)
        self.mean, self.rstd = (array.astype(np.float32) for array in rest)
        self.before = normal(self.seed + 4, self.rows, C)

    def read(self, rig: Rig) -> list[object]:
        """All but dz and the weight."""
        return [rig.put(a) for a in (self.normed, self.scale, self.mean, self.rstd)]


class Gradients(NamedTuple):
    """What a backward call writes."""

    dx: Output
    narrow: Output
    partial: Output

    @staticmethod
    def of(rig: Rig, case: Backward, accumulate: bool, columns: int = 2 * C) -> Gradients:
        dx = in_place(rig, case.before) if accumulate else output(rig, case.rows, C, name="dx")
        narrow = output(rig, case.rows, C, dtype=np.uint16, name="narrow")
        chunks = LayerNorm.chunks(case.rows).chunks
        return Gradients(dx, narrow, output(rig, chunks, columns, name="partial"))


def run_backward(
    rig: Rig, case: Backward, tile: int = TILES[0], *, accumulate: bool = False
) -> Gradients:
    found = Gradients.of(rig, case, accumulate)
    layer = NormedLinear(rig.library, case.rows, case.depth, tile)
    given = rig.put(case.dz_bits), rig.put(case.weight_bits), *case.read(rig)
    layer.backward(rig.stream, *found, *given, accumulate=accumulate)
    return found


def assert_gradients(found: Gradients, case: Backward, accumulate: bool) -> None:
    """Everything against float64, to what float32 sums and a row's averages may be off."""
    dy = case.dz @ case.weight
    before = case.before if accumulate else np.zeros(1)
    given = wide(case.normed, case.scale)
    want, dscale, dshift = twins.layernorm_backward(dy, *given, EPSILON)
    # Of dy each addition cuts 2^-22 of the size of the terms off at most; then a few dozen
    # roundings of sums as large as the row's largest term.
    size = np.abs(case.dz) @ np.abs(case.weight)
    slack = (case.depth + 1) * 2.0**-22 * size
    rstd = case.rstd.astype(np.float64)[:, None]
    xhat = np.abs(case.normed - case.mean.astype(np.float64)[:, None]) * rstd
    most = ((slack + 64 * UNIT * size) * np.abs(case.scale)).max(axis=1, keepdims=True)
    limit = rstd * most * (2 + xhat * xhat.max(axis=1, keepdims=True)) + UNIT * np.abs(before)
    dx = found.dx.get()
    assert_within(dx, before + want, limit, "dx")
    np.testing.assert_array_equal(found.narrow.get(), BFLOAT16.bits(dx))
    sums = found.partial.get().astype(np.float64).sum(axis=0)
    error = slack + 32 * UNIT * size  # of dy and of a chunk's sum of 16 rows
    assert_within(sums[:C], dscale, (error * (xhat + 1)).sum(axis=0), "for scale")
    assert_within(sums[C:], dshift, error.sum(axis=0), "for shift")


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_backward(rig: Rig, size: tuple[int, int], tile: int, accumulate: bool) -> None:
    case = Backward(*size, seed=size[0])
    found = run_backward(rig, case, tile, accumulate=accumulate)
    assert_gradients(found, case, accumulate)


def test_backward_of_the_rows_of_tiny(rig: Rig) -> None:
    case = Backward(2048, 8, seed=9)
    assert_gradients(run_backward(rig, case, accumulate=True), case, True)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("rows", [1, 31, 33, 257])
def test_backward_is_what_two_launches_give(rig: Rig, rows: int, tile: int) -> None:
    """Of whole numbers below 256, which dy in bfloat16 holds: nothing is rounded in between."""

    def draw(seed: int, *shape: int) -> Array:
        return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float32)

    case = Backward(rows, 72, rows, draw)
    assert np.abs(case.dz @ case.weight).max() < 256
    found, other = run_backward(rig, case, tile), Gradients.of(rig, case, False)
    dz, weight, read = rig.put(case.dz_bits), rig.put(case.weight_bits), case.read(rig)
    dy = output(rig, rows, C, dtype=np.uint16)
    product = FusedLinear(rig.library, rows, C, case.depth)
    product.backward(rig.stream, dy, None, None, 0, dz, 0, weight)
    norm = LayerNorm(rig.library, precision=Precision.BF16)
    dx, narrow, partial = other
    normed, *rest = read
    norm.backward(rig.stream, dx, partial, dy, normed, *rest, rows, C, narrow=narrow)

    # Chunk by chunk the same products in the same order, of which a compiler may join one and an
    # addition; of dx, rows' averages that were added up in another order.
    one, two = (result.partial.get().astype(np.float64) for result in (found, other))
    assert_within(one, two, 16 * UNIT * np.abs(two).max(), "partial")
    one, two = (result.dx.get().astype(np.float64) for result in (found, other))
    assert_within(one, two, 32 * UNIT * np.abs(two).max(), "dx")


@pytest.mark.parametrize("tile", TILES)
def test_several_norms_share_the_rows_of_one_workspace(rig: Rig, tile: int) -> None:
    case, columns = Backward(45, 16), 6 * C
    alone, shared = run_backward(rig, case, tile), Gradients.of(rig, case, False, columns)
    given = rig.put(case.dz_bits), rig.put(case.weight_bits), *case.read(rig)
    layer = NormedLinear(rig.library, case.rows, case.depth, tile)
    dx, narrow, partial = shared
    part = columns_from(partial.buffer, 2 * C)
    layer.backward(rig.stream, dx, narrow, part, *given, stride=columns)

    whole = partial.get()
    assert_same_bits(np.ascontiguousarray(whole[:, 2 * C : 4 * C]), alone.partial.get())
    assert np.isnan(whole[:, : 2 * C]).all()
    assert np.isnan(whole[:, 4 * C :]).all()


@pytest.mark.parametrize("tile", TILES)
def test_backward_repeats_bit_for_bit(rig: Rig, tile: int) -> None:
    case = Backward(45, 200)
    first = [tensor.get() for tensor in run_backward(rig, case, tile)]
    for _ in range(2):
        for one, other in zip(first, run_backward(rig, case, tile), strict=True):
            assert_same_bits(one, other.get())


def test_no_rows_leave_sums_of_nothing(rig: Rig) -> None:
    partial, layer = output(rig, 1, 2 * C), NormedLinear(rig.library, 0, 8)
    weight = rig.put(Backward(1, 8).weight_bits)
    layer.backward(rig.stream, 0, 0, partial, 0, weight, *[0] * 4)
    assert (partial.get() == 0).all()


def test_rows_that_a_norm_sums_otherwise_are_refused(rig: Rig) -> None:
    NormedLinear(rig.library, 4096, 8)
    with pytest.raises(ConfigError, match=r"4097 rows are more than .* LayerNorm behind it"):
        NormedLinear(rig.library, 4097, 8)


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
