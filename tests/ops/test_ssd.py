from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import Ssd
from lowgraph.ops.ssd_tensors import SsdInputs, SsdRows, SsdSaved, SsdSizes, SsdWorkspace
from lowgraph.precision import Precision
from tests.ops import twins_mamba as twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    assert_close,
    assert_same_bits,
    columns,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

SIZES = [
    SsdSizes(1, 1, 1, 1, 1),
    SsdSizes(2, 31, 3, 16, 8),
    SsdSizes(1, 33, 1, 33, 17),
    SsdSizes(2, 65, 3, 1, 17),
    SsdSizes(3, 65, 3, 33, 8),
    SsdSizes(1, 130, 2, 16, 33),
    SsdSizes(1, 32, 3, 16, 1),
    SsdSizes(2, 64, 2, 64, 64),  # the largest that is short
    SsdSizes(2, 17, 3, 20, 36),
    SsdSizes(1, 63, 1, 64, 5),
    SsdSizes(1, 20, 2, 65, 3),
    SsdSizes(1, 40, 2, 8, 65),
]
# A result sums up to 32 steps, P or N products of up to 33 terms, and the states of the chunks
# before: a few hundred roundings. A decay is exp of the difference of two sums of size 32 dt A, so
# the roundings of those count as well: some 30 times over where dt A is near 1.
CLOSE = 256 * ROUNDOFF
NAMES = ("dx", "draw", "ddt_bias", "da_log", "db", "dc", "dd")  # in the order of SsdInputs


def make_inputs(seed: int, sizes: SsdSizes) -> list[Array]:
    """Inputs in the order of SsdInputs."""
    batch, length, heads, size, state = sizes
    steps = (batch, length, state)
    return [
        normal(seed, batch, length, heads, size),
        normal(seed + 10, batch, length, heads, mean=-1.0),
        normal(seed + 20, heads),
        normal(seed + 30, heads, scale=0.7),
        normal(seed + 40, *steps),
        normal(seed + 50, *steps),
        normal(seed + 60, heads),
    ]


class Run:
    """A layer on the device: forward at once, backward when asked."""

    def __init__(
        self,
        rig: Rig,
        sizes: SsdSizes,
        arrays: list[Array],
        precision: Precision = Precision.FP32,
    ) -> None:
        self.rig, self.sizes, self.arrays = rig, sizes, arrays
        self.layer = Ssd(rig.library, precision)
        self.inputs = SsdInputs(*(rig.put(array) for array in arrays))
        self.outputs = [output(rig, *shape) for shape in Ssd.saved_shapes(sizes)]
        y = output(rig, *arrays[0].shape, name="y")
        self.layer.forward(rig.stream, y, SsdSaved(*self.outputs), self.inputs, sizes)
        self.y = y.get()
        for saved in self.outputs:
            assert not np.isnan(saved.get()).any()

    def backward(self, dy: Array) -> list[Array]:
        """Return the gradients in the order of SsdInputs."""
        rig = self.rig
        grads = [output(rig, *a.shape, name=n) for n, a in zip(NAMES, self.arrays, strict=True)]
        space = [output(rig, *shape) for shape in Ssd.workspace_shapes(self.sizes)]
        self.layer.backward(
            rig.stream, SsdInputs(*grads), SsdWorkspace(*space), rig.put(dy), self.inputs,
            SsdSaved(*self.outputs), self.sizes,
        )  # fmt: skip
        for work in space:
            work.get()
        return [grad.get() for grad in grads]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_forward_and_backward(rig: Rig, sizes: SsdSizes, seed: int) -> None:
    arrays, dy = make_inputs(seed, sizes), normal(99, *make_inputs(seed, sizes)[0].shape)
    run = Run(rig, sizes, arrays)
    grads = run.backward(dy)
    assert_close(run.y, twins.ssd_forward(*wide(*arrays)), CLOSE, "y")
    want = twins.ssd_backward(*wide(dy, *arrays))
    for name, got in zip(NAMES, grads, strict=True):
        assert_close(got, want[name], CLOSE, name)
    again = Run(rig, sizes, arrays)
    assert_same_bits(run.y, again.y)
    for first, second in zip(grads, again.backward(dy), strict=True):
        assert_same_bits(first, second)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("sizes", [SsdSizes(2, 64, 2, 64, 64), SsdSizes(1, 41, 2, 7, 12)], ids=str)
def test_short_sequences_with_rounded_factors(rig: Rig, sizes: SsdSizes, seed: int) -> None:
    """TF32 is 2^-11 of a factor at most; two factors, and twice where a product feeds another.

    What a head has one of sums all steps, and their terms cancel: more of the rounding is left.
    """
    arrays, dy = make_inputs(seed, sizes), normal(99, *make_inputs(seed, sizes)[0].shape)
    run = Run(rig, sizes, arrays, Precision.TF32)
    grads = run.backward(dy)
    rounded = 4 * 2.0**-11
    assert_close(run.y, twins.ssd_forward(*wide(*arrays)), rounded, "y")
    want = twins.ssd_backward(*wide(dy, *arrays))
    for name, got in zip(NAMES, grads, strict=True):
        assert_close(got, want[name], rounded * (4 if got.ndim == 1 else 1), name)
    again = Run(rig, sizes, arrays, Precision.TF32)
    assert_same_bits(run.y, again.y)
    for first, second in zip(grads, again.backward(dy), strict=True):
        assert_same_bits(first, second)
    assert (Run(rig, sizes, arrays).y != run.y).mean() > 0.9


@pytest.mark.parametrize("precision", Precision)
def test_longer_sequences_are_not_rounded(rig: Rig, precision: Precision) -> None:
    sizes = SsdSizes(1, 65, 2, 8, 8)
    run = Run(rig, sizes, make_inputs(0, sizes), precision)
    assert_same_bits(run.y, Run(rig, sizes, run.arrays).y)


@pytest.mark.parametrize("length", [64, 97])
@pytest.mark.parametrize("a_log", [-9.0, 4.0])
def test_a_head_that_forgets_nothing_or_at_once(rig: Rig, a_log: float, length: int) -> None:
    """In the second hardly anything decays into a later step: da_log is what is left of it.

    A formula that subtracts equal terms of size 1 leaves their rounding there.
    """
    sizes = SsdSizes(1, length, 1, 5, 6)
    arrays = make_inputs(3, sizes)
    arrays[3] = np.full(1, a_log, np.float32)
    dy = normal(9, *arrays[0].shape)
    run = Run(rig, sizes, arrays)
    assert_close(run.y, twins.ssd_forward(*wide(*arrays)), CLOSE, "y")
    want = twins.ssd_backward(*wide(dy, *arrays))
    for name, got in zip(NAMES, run.backward(dy), strict=True):
        assert_close(got, want[name], CLOSE, name)


def test_the_step_size_far_from_zero(rig: Rig) -> None:
    """Softplus of 100 is 100, and of -30 exp(-30): log(1 + exp) in float32 has neither."""
    sizes = SsdSizes(1, 2, 1, 1, 1)
    arrays = make_inputs(0, sizes)
    arrays[1] = np.array([100.0, -30.0], np.float32).reshape(1, 2, 1)
    arrays[2] = np.zeros(1, np.float32)
    dt = Run(rig, sizes, arrays).outputs[0].get().ravel()
    np.testing.assert_allclose(dt, [100.0, np.exp(-30.0)], rtol=4 * ROUNDOFF)


@pytest.mark.parametrize("length", [33, 67])
def test_backward_adds_where_asked(rig: Rig, length: int) -> None:
    sizes = SsdSizes(2, length, 3, 4, 5)
    arrays = make_inputs(0, sizes)
    dy, before = normal(5, *arrays[0].shape), normal(6, 3)
    run = Run(rig, sizes, arrays)
    grads = [rig.put(before) if a.ndim == 1 else output(rig, *a.shape) for a in arrays]
    space = [output(rig, *shape) for shape in Ssd.workspace_shapes(sizes)]
    run.layer.backward(
        rig.stream, SsdInputs(*grads), SsdWorkspace(*space), rig.put(dy), run.inputs,
        SsdSaved(*run.outputs), sizes, accumulate=True,
    )  # fmt: skip
    want = twins.ssd_backward(*wide(dy, *arrays))
    for name, grad, array in zip(NAMES, grads, arrays, strict=True):
        if array.ndim == 1:
            assert_close(rig.get(grad), before + want[name], CLOSE, name)
        else:
            assert_close(grad.get(), want[name], CLOSE, name)  # type: ignore[union-attr]


@pytest.mark.parametrize("head_size", [4, 65])
def test_no_steps(rig: Rig, head_size: int) -> None:
    """Of either kind; a sum over nothing is 0."""
    sizes = SsdSizes(2, 0, 3, head_size, 5)
    arrays = make_inputs(0, sizes)
    grads = Run(rig, sizes, arrays).backward(arrays[0])
    assert not any(grad.any() for grad in grads)


def test_a_head_needs_channels(rig: Rig) -> None:
    nothing = SsdInputs(0, 0, 0, 0, 0, 0, 0)
    with pytest.raises(ConfigError, match="head_size must be 1 to"):
        Ssd(rig.library).forward(
            rig.stream, 0, SsdSaved(0, 0, 0, 0), nothing, SsdSizes(1, 1, 1, 0, 1)
        )


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_columns_of_wider_matrices(rig: Rig, sizes: SsdSizes) -> None:
    """The same bits as from matrices of their own; what lies beside the columns stays."""
    batch, length, heads, size, state = sizes
    arrays = make_inputs(1, sizes)
    dy, inner = normal(5, *arrays[0].shape), heads * size
    packed = normal(8, batch, length, inner + 2 * state + 3)
    steps = normal(9, batch, length, heads + 2)
    rows = SsdRows(packed.shape[2], packed.shape[2], steps.shape[2])

    def fill(x: Array, raw: Array, b: Array, c: Array) -> tuple[Array, Array]:
        one, two = packed.copy(), steps.copy()
        one[..., 1 : 1 + inner] = x.reshape(batch, length, inner)
        one[..., 1 + inner : 1 + inner + state] = b
        one[..., 1 + inner + state : 1 + inner + 2 * state] = c
        two[..., 1 : 1 + heads] = raw
        return one, two

    def spread(whole: Any, raw: Any, heads_own: list[Any]) -> SsdInputs:
        at_b = 1 + inner
        return SsdInputs(
            columns(whole, 1), columns(raw, 1), heads_own[0], heads_own[1], columns(whole, at_b),
            columns(whole, at_b + state), heads_own[2],
        )  # fmt: skip

    x, raw, dt_bias, a_log, b, c, d = arrays
    inputs = spread(
        *(rig.put(array) for array in fill(x, raw, b, c)),
        [rig.put(array) for array in (dt_bias, a_log, d)],
    )
    dense, layer = Run(rig, sizes, arrays), Ssd(rig.library)
    y, saved = output(rig, *x.shape), [output(rig, *s) for s in layer.saved_shapes(sizes)]
    layer.forward(rig.stream, y, SsdSaved(*saved), inputs, sizes, rows)
    assert_same_bits(y.get(), dense.y)

    whole, dsteps = in_place(rig, packed), in_place(rig, steps)
    own = [output(rig, heads) for _ in range(3)]
    space = SsdWorkspace(*(output(rig, *s) for s in layer.workspace_shapes(sizes)))
    layer.backward(
        rig.stream, spread(whole, dsteps, own), space, rig.put(dy), inputs, SsdSaved(*saved), sizes,
        rows,
    )  # fmt: skip
    dx, draw, ddt_bias, da_log, db, dc, dd = dense.backward(dy)
    wanted = [*fill(dx, draw, db, dc), ddt_bias, da_log, dd]
    for got, want in zip((whole, dsteps, *own), wanted, strict=True):
        assert_same_bits(got.get(), want)


@pytest.mark.parametrize(("kind", "least"), [("x", 12), ("bc", 5), ("raw", 3)])
def test_rows_that_overlap_are_refused(rig: Rig, kind: str, least: int) -> None:
    rows = SsdRows(99, 99, 99)._replace(**{kind: least - 1})
    nothing = SsdInputs(0, 0, 0, 0, 0, 0, 0)
    with pytest.raises(ConfigError, match=f"{kind}_row must be {least} to"):
        Ssd(rig.library).forward(
            rig.stream, 0, SsdSaved(0, 0, 0, 0), nothing, SsdSizes(1, 1, 3, 4, 5), rows
        )
