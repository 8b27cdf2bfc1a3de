from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import BinaryCrossEntropy, Readout
from tests.ops import twins_mamba as twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

# One block; several, the last with a row or a few; chunks of 17 rows, and of 65, which is more than
# a block holds at one time. Widths below a quad, of several tiles, and one that ends in a tile.
SIZES = [(1, 1), (1, 33), (31, 31), (257, 128), (33, 260), (2049, 5), (2065, 12), (8211, 3)]
SIZES += [(8300, 148)]
# Up to 260 products a row, and sums of 8300 rows by parts.
CLOSE = 64 * ROUNDOFF


def make(seed: int, rows: int, channels: int) -> tuple[Array, ...]:
    """x, weight, bias, targets; y of a few units."""
    targets = np.random.default_rng(seed + 30).random(rows).astype(np.float32)
    weight = normal(seed + 20, channels, scale=2 * channels**-0.5)
    return normal(seed + 10, rows, channels), weight, normal(9, 1), targets


def new_ticket(rig: Rig) -> Array:
    return in_place(rig, np.zeros(1, np.uint32), "ticket")


def run_backward(rig: Rig, arrays: tuple[Array, ...], ticket: Array | None = None) -> list[Array]:
    """Return loss, dx, dweight, dbias."""
    rows, channels = arrays[0].shape
    loss, dx = output(rig, 1), output(rig, rows, channels)
    dweight, dbias = output(rig, channels), output(rig, 1)
    partial = output(rig, *Readout.partial_shape(rows, channels), name="partial")
    losses = output(rig, *Readout.losses_shape(rows), dtype=np.float64, name="losses")
    ticket = new_ticket(rig) if ticket is None else ticket
    inputs, layer, sizes = [rig.put(a) for a in arrays], Readout(rig.library), (rows, channels)
    layer.bce_and_gradient(rig.stream, loss, dx, partial, losses, ticket, *inputs, *sizes)
    layer.backward_parameters(rig.stream, dweight, dbias, partial, *sizes)
    for space in (partial, losses):
        assert not np.isnan(space.get()).any()
    assert ticket.get() == 0, "the next launch would have no last block"
    return [piece.get() for piece in (loss, dx, dweight, dbias)]


def reference(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Loss, dx, dweight, dbias in float64, and dy."""
    x, weight, bias, targets = wide(*arrays)
    y = x @ weight + bias
    dy, loss = twins.bce_backward(y, targets), twins.bce_forward(y, targets)
    return np.array([loss]), dy[:, None] * weight, dy @ x, dy.sum(keepdims=True), dy


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, weight, bias, _ = make(seed, rows, channels)
    y, inputs = output(rig, rows), [rig.put(array) for array in (x, weight, bias)]
    Readout(rig.library).forward(rig.stream, y, *inputs, rows, channels)
    assert_close(y.get(), wide(x)[0] @ wide(weight)[0] + wide(bias)[0], CLOSE, "y")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_loss_and_gradients(rig: Rig, rows: int, channels: int, seed: int) -> None:
    """Twice with one ticket: whichever block comes last, the bits are the same."""
    arrays, ticket = make(seed, rows, channels), new_ticket(rig)
    found = run_backward(rig, arrays, ticket)
    *want, dy = reference(arrays)
    for name, got, wanted in zip(("loss", "dx", "dweight", "dbias"), found, want, strict=True):
        # A sum of rows that cancels is small beside its terms, which are what is rounded.
        sums = name in ("dweight", "dbias")
        scale = max(1.0, np.abs(dy).sum() / np.abs(wanted).max()) if sums else 1.0
        assert_close(got, wanted, CLOSE * scale, name)
    for first, second in zip(found, run_backward(rig, arrays, ticket), strict=True):
        assert_same_bits(first, second)


@pytest.mark.host  # a GPU's compiler may fuse other operations where a function is inlined
def test_the_gradient_has_the_bits_of_the_layers_one_by_one(rig: Rig) -> None:
    rows, channels = 257, 128
    arrays = x, weight, bias, targets = make(3, rows, channels)
    y, loss = output(rig, rows), output(rig, 1)
    x_, w_, b_ = (rig.put(array) for array in (x, weight, bias))
    Readout(rig.library).forward(rig.stream, y, x_, w_, b_, rows, channels)
    partial = output(rig, *BinaryCrossEntropy.partial_shape(rows))
    BinaryCrossEntropy(rig.library).forward(
        rig.stream, loss, partial, y, rig.put(targets), rows, dlogits=y, scale=1 / rows
    )
    found = run_backward(rig, arrays)
    assert_same_bits(found[1], y.get()[:, None] * weight, "dx")
    # float64 sums in two orders
    assert_close(found[0], loss.get().astype(np.float64), 2 * ROUNDOFF, "loss")


@pytest.mark.parametrize(("logit", "target"), [(60.0, 1.0), (-60.0, 0.0), (300.0, 0.0), (-300, 1)])
def test_a_sure_answer_keeps_its_digits(rig: Rig, logit: float, target: float) -> None:
    """log(1 - sigmoid) would be infinite or nothing here."""
    arrays = normal(0, 33, 8), np.zeros(8), np.array([logit]), np.full(33, target)
    arrays = tuple(array.astype(np.float32) for array in arrays)
    # exp of -60 in float32: the exponent's own rounding counts 60 times
    assert_close(run_backward(rig, arrays)[0], reference(arrays)[0], CLOSE, "loss")


def test_backward_adds_where_asked(rig: Rig) -> None:
    arrays, before = make(0, 33, 12), (normal(3, 12), normal(4, 1))
    layer, sizes, sums = Readout(rig.library), (33, 12), [rig.put(b) for b in before]
    partial = output(rig, *layer.partial_shape(*sizes))
    losses = output(rig, *layer.losses_shape(33), dtype=np.float64)
    room = output(rig, 1), output(rig, *sizes), partial, losses, new_ticket(rig)
    inputs = [rig.put(array) for array in arrays]
    layer.bce_and_gradient(rig.stream, *room, *inputs, *sizes)
    layer.backward_parameters(rig.stream, *sums, partial, *sizes, accumulate=True)
    want = reference(arrays)
    assert_close(rig.get(sums[0]), before[0] + want[2], CLOSE, "dweight")
    assert_close(rig.get(sums[1]), before[1] + want[3], CLOSE, "dbias")


def test_no_rows_and_no_columns(rig: Rig) -> None:
    layer, nothing = Readout(rig.library), [0] * 9
    layer.forward(rig.stream, 0, 0, 0, 0, 0, 8)
    with pytest.raises(ConfigError, match="channels must be 1 to"):
        layer.forward(rig.stream, 0, 0, 0, 0, 1, 0)
    with pytest.raises(ConfigError, match="rows must be 1 to"):
        layer.bce_and_gradient(rig.stream, *nothing, 0, 8)
    with pytest.raises(ConfigError, match="channels must be 1 to"):
        layer.backward_parameters(rig.stream, 0, 0, 0, 1, 0)
