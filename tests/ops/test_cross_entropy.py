from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError, ModuleLoadDuringCapture
from lowgraph.kernels import Library
from lowgraph.kernels import library as libraries
from lowgraph.ops import CrossEntropy, LayerNorm
from tests.ops import twins
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

# Up to 256 classes a row lies in registers; from 4096 on a block has it, in shared memory as far as
# it fits: of 50304 floats 57%. Rows of 50257 begin at each of the four places of a vector.
SIZES = [(1, 1), (1, 257), (31, 33), (257, 31), (65, 256), (9, 1111), (3, 4095), (1, 4096),
         (33, 4097), (3, 50304), (5, 50257)]  # fmt: skip
# Exponentials of differences up to 20, each rounded once: 20 units, and the sum of a lane.
CLOSE = 64 * ROUNDOFF


def make(seed: int, rows: int, classes: int) -> tuple[Array, Array]:
    targets = np.random.default_rng(seed + 100).integers(0, classes, rows).astype(np.int32)
    return normal(seed, rows, classes, scale=3.0), targets


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "classes"), SIZES)
def test_forward(rig: Rig, rows: int, classes: int, seed: int) -> None:
    logits, targets = make(seed, rows, classes)
    row_loss, kept = output(rig, rows), in_place(rig, logits)

    CrossEntropy(rig.library).forward(rig.stream, row_loss, kept, rig.put(targets), rows, classes)

    want = twins.cross_entropy_forward(*wide(logits), targets)
    # Absolute: a loss is the difference of numbers up to 12.
    assert np.abs(row_loss.get() - want).max() <= 12 * CLOSE
    assert_same_bits(kept.get(), logits)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "classes"), SIZES)
def test_forward_backward(rig: Rig, rows: int, classes: int, seed: int) -> None:
    logits, targets = make(seed, rows, classes)
    row_loss, dlogits = output(rig, rows), in_place(rig, logits)

    CrossEntropy(rig.library).forward_backward(
        rig.stream, row_loss, dlogits, rig.put(targets), rows, classes, 1 / rows
    )

    (exact,) = wide(logits)
    loss = twins.cross_entropy_forward(exact, targets)
    want = twins.cross_entropy_backward(exact, targets, 1 / rows)
    assert np.abs(row_loss.get() - loss).max() <= 12 * CLOSE
    assert np.abs(dlogits.get() - want).max() <= CLOSE / rows


@pytest.mark.parametrize(("rows", "classes"), [(70, 256), (7, 5003)])
def test_both_entries_give_the_same_loss(rig: Rig, rows: int, classes: int) -> None:
    """Held-out loss and training loss must be one number for one batch."""
    logits, targets = make(4, rows, classes)
    alone, beside = output(rig, rows), output(rig, rows)
    ops, sizes = CrossEntropy(rig.library), (rows, classes)

    ops.forward(rig.stream, alone, rig.put(logits), rig.put(targets), *sizes)
    ops.forward_backward(rig.stream, beside, in_place(rig, logits), rig.put(targets), *sizes, 1.0)

    assert_close(alone.get(), beside.get().astype(np.float64), 4 * ROUNDOFF)


@pytest.mark.parametrize("classes", [256, 4099])
def test_every_place_of_the_target(rig: Rig, classes: int) -> None:
    """One thread owns the target: in front of a row's vectors, in them and behind the last."""
    rows = 64
    logits, targets = make(5, rows, classes)
    targets[: rows // 2] = np.arange(rows // 2) % 12
    targets[rows // 2 :] = classes - 1 - np.arange(rows // 2) % 12
    row_loss, dlogits = output(rig, rows), in_place(rig, logits)

    CrossEntropy(rig.library).forward_backward(
        rig.stream, row_loss, dlogits, rig.put(targets), rows, classes, 1.0
    )

    (exact,) = wide(logits)
    want = twins.cross_entropy_backward(exact, targets, 1.0)
    assert np.abs(row_loss.get() - twins.cross_entropy_forward(exact, targets)).max() <= 12 * CLOSE
    assert np.abs(dlogits.get() - want).max() <= CLOSE


@pytest.mark.parametrize("classes", [3, 4099])
def test_masked_logits_have_no_gradient(rig: Rig, classes: int) -> None:
    """Minus infinity is a logit like any other, also for a thread that has no other."""
    logits = np.full((2, classes), -np.inf, np.float32)
    logits[:, [1, classes - 1]] = 0.5
    row_loss, dlogits = output(rig, 2), in_place(rig, logits)
    targets = rig.put(np.array([1, classes - 1], np.int32))

    CrossEntropy(rig.library).forward_backward(
        rig.stream, row_loss, dlogits, targets, 2, classes, 1.0
    )

    want = np.zeros((2, classes))
    want[:, [1, classes - 1]] = [[-0.5, 0.5], [0.5, -0.5]]
    assert_close(row_loss.get(), np.full(2, np.log(2)), 4 * ROUNDOFF)
    assert_close(dlogits.get(), want, 4 * ROUNDOFF)


@pytest.mark.parametrize("classes", [256, 9001])
def test_the_same_logits_give_the_same_bits(rig: Rig, classes: int) -> None:
    logits, targets = make(6, 9, classes)
    runs = []
    for _ in range(3):
        row_loss, dlogits = output(rig, 9), in_place(rig, logits)
        CrossEntropy(rig.library).forward_backward(
            rig.stream, row_loss, dlogits, rig.put(targets), 9, classes, 0.5
        )
        runs.append((row_loss.get(), dlogits.get()))
    for later in runs[1:]:
        for first, second in zip(runs[0], later, strict=True):
            assert_same_bits(first, second)


def test_large_logits_neither_overflow_nor_lose_the_loss(rig: Rig) -> None:
    logits = np.array([[1e4, -1e4, 0.0], [-3e4, -3e4, -3e4]], np.float32)
    targets = np.array([1, 2], np.int32)
    row_loss, dlogits = output(rig, 2), in_place(rig, logits)

    CrossEntropy(rig.library).forward_backward(
        rig.stream, row_loss, dlogits, rig.put(targets), 2, 3, 1.0
    )

    # The second row: the loss is log 3 beside logits of 3e4, exact because the peak cancels first.
    assert_close(row_loss.get(), np.array([2e4, np.log(3)]), 1e-7)
    assert abs(row_loss.get()[1] - np.log(3)) < 1e-6
    want = np.array([[1, -1, 0], [1 / 3, 1 / 3, -2 / 3]])
    assert_close(dlogits.get(), want, 4 * ROUNDOFF)


@pytest.mark.parametrize("rows", [1, 63, 511, 512, 513, 4099])
def test_mean(rig: Rig, rows: int) -> None:
    row_loss = normal(rows, rows, mean=3.0)
    loss = output(rig, 1)

    CrossEntropy(rig.library).mean(rig.stream, loss, rig.put(row_loss), rows)

    # Summed in double and rounded once.
    assert loss.get()[0] == pytest.approx(row_loss.astype(np.float64).mean(), rel=ROUNDOFF * 1.01)


def test_the_mean_of_nothing_is_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="rows must be 1"):
        CrossEntropy(rig.library).mean(rig.stream, 0, 0, 0)


def test_no_rows(rig: Rig) -> None:
    untouched = output(rig, 4)
    ops = CrossEntropy(rig.library)

    ops.forward(rig.stream, untouched, 0, 0, 0, 4)
    ops.forward_backward(rig.stream, untouched, 0, 0, 0, 4, 1.0)

    assert np.isnan(untouched.get()).all()


@pytest.mark.parametrize("wide", ["cross_entropy_wide.cu", "layernorm.cu"])
def test_wide_kernels_want_an_eager_call_before_a_capture(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, wide: str
) -> None:
    """In a process that has not loaded them; the call after the window does."""
    monkeypatch.setattr(libraries._loaded, "modules", {})
    library = Library(rig.device)
    entropy, norm, row = CrossEntropy(library), LayerNorm(library), output(rig, 5000)
    targets, stream = rig.put(np.zeros(1, np.int32)), rig.stream

    def call() -> None:
        if wide == "layernorm.cu":
            norm.forward(stream, row, row, row, row, row, row, 1, 257)
        else:
            entropy.forward(stream, row, row, targets, 1, 4096)

    library.sealed = "the window of step 'train'"
    try:
        with pytest.raises(ModuleLoadDuringCapture, match=rf"{wide}.* step 'train'") as refusal:
            call()
    finally:
        library.sealed = None
    assert "before the step" in str(refusal.value)
    call()
    rig.sync()
