"""The AdamW kernel: update, clipping, average of the weights, bfloat16 copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import AdamW, Control, GradientNorm
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.ops.grad_norm import new_stats, stats_bytes
from tests.ops import twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    Output,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

SCHEDULE = {"total_steps": 50, "warmup_steps": 7, "lr_max": 1e-3, "lr_min": 1e-5}
BETAS = {"beta1": 0.9, "beta2": 0.95}
SETTINGS: dict[str, Any] = {**SCHEDULE, **BETAS, "weight_decay": 0.1, "epsilon": 1e-8}

# (n, n_decay): around a quad, a block's turn of 1024 elements, and with the bound inside a quad.
SIZES = [(1, 0), (1, 1), (31, 10), (33, 33), (257, 257), (1023, 0), (1024, 513), (1030, 514),
         (3001, 2049)]  # fmt: skip

# About ten roundings a step, three steps; the moments' cancel no more than the gradients do.
CLOSE = 32 * ROUNDOFF


class Run:
    """An optimizer's buffers, and steps through the kernels as the optimizer makes them."""

    def __init__(
        self, rig: Rig, param: Array, *, ema: bool = False, shadow: bool = False, **settings: Any
    ) -> None:
        self.rig, self.n = rig, param.size
        zeros = np.zeros_like(param)
        self.param, self.m, self.v = (in_place(rig, array) for array in (param, zeros, zeros))
        self.ema: Any = in_place(rig, param, "ema") if ema else 0
        self.shadow: Any = output(rig, self.n, dtype=np.uint16, name="shadow") if shadow else 0
        self.stats = rig.put(np.zeros(40, np.uint8))
        self.control = rig.put(control_bytes(new_control(**{**SETTINGS, **settings})))
        self.kernel = AdamW(rig.library, ema=ema, shadow=shadow)
        self.norm = GradientNorm(rig.library)

    def step(self, grad: Array, n_decay: int) -> None:
        rig, n = self.rig, self.n
        device_grad = in_place(rig, grad, "grad")
        partial = rig.empty(self.norm.partial_shape(n), np.float64)
        Control(rig.library).advance(rig.stream, self.control)
        self.norm.measure(rig.stream, self.stats, partial, device_grad, self.control, n)
        self.kernel.step(rig.stream, self.param, self.m, self.v, device_grad, self.stats,
                         self.control, n_decay, n, ema=self.ema, shadow=self.shadow)  # fmt: skip
        assert_same_bits(device_grad.get(), grad, "the gradients are only read")

    @property
    def state(self) -> dict[str, Output]:
        return {"param": self.param, "m": self.m, "v": self.v}


def reference(param: Array, grads: list[Array], n_decay: int, clip: float = 0.0) -> list[Array]:
    """param, m, v in float64 after the steps, masked and clipped by the twins."""
    want = list(wide(param, np.zeros_like(param), np.zeros_like(param)))
    for step, grad in enumerate(grads, start=1):
        _, coefficient, _ = twins.gradient_norm(grad, clip)
        masked = np.where(np.isfinite(grad), grad, 0.0).astype(np.float64)
        want = list(
            twins.adamw(
                *want, coefficient * masked, lr=twins.learning_rate(step, 50, 7, 1e-3, 1e-5),
                **BETAS, epsilon=1e-8, weight_decay=0.1, step=step, n_decay=n_decay,
            )
        )  # fmt: skip
    return want


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("n", "n_decay"), SIZES)
def test_adamw(rig: Rig, n: int, n_decay: int, seed: int) -> None:
    param, grads = normal(seed, n), [normal(10 + i, n) for i in range(3)]
    run = Run(rig, param)
    for grad in grads:
        run.step(grad, n_decay)
    for (name, got), want in zip(run.state.items(), reference(param, grads, n_decay), strict=True):
        assert_close(got.get(), want, CLOSE, name)
    moved = (np.abs(run.param.get() - param) > 0).mean()
    assert moved > 0.9, "an update that vanished would pass a loose comparison"


@pytest.mark.parametrize("bad", [None, np.nan, np.inf])
@pytest.mark.parametrize("clip", [0.5, 8.0])
@pytest.mark.parametrize(("n", "n_decay"), [(1, 1), (31, 10), (257, 257), (1030, 514)])
def test_clipped_and_masked(rig: Rig, n: int, n_decay: int, clip: float, bad: float | None) -> None:
    """Gradients of norms around the limit; elements that are not finite at odd places."""
    param, grads = normal(0, n), [normal(10 + i, n, scale=4.0 ** (i - 1)) for i in range(3)]
    if bad is not None:
        grads[1][[0, n // 2, n - 1]] = bad
    run = Run(rig, param, clip_norm=clip)
    for grad in grads:
        run.step(grad, n_decay)
    want = reference(param, grads, n_decay, clip)
    for (name, got), wanted in zip(run.state.items(), want, strict=True):
        assert_close(got.get(), wanted, CLOSE, name)
    if clip == 0.5 and n > 1:
        unclipped = reference(param, grads, n_decay)
        assert np.abs(want[1] - unclipped[1]).max() > 100 * CLOSE * np.abs(want[1]).max()


@pytest.mark.parametrize("warmup", [False, True])
@pytest.mark.parametrize(("n", "n_decay"), [(1, 1), (33, 10), (257, 257), (1030, 514), (3001, 9)])
def test_average_of_the_weights(rig: Rig, n: int, n_decay: int, warmup: bool) -> None:
    param, grads = normal(0, n), [normal(10 + i, n) for i in range(4)]
    run = Run(rig, param, ema=True, ema_decay=0.75, ema_warmup=warmup, lr_max=0.5)
    (want,) = wide(param)
    for step, grad in enumerate(grads, start=1):
        run.step(grad, n_decay)
        # The parameters of the kernel itself: the average is what is tested.
        want = twins.moving_average(want, *wide(run.param.get()), 0.75, step, warmup=warmup)
    # Four steps of three roundings.
    assert_close(run.ema.get(), want, 12 * ROUNDOFF)
    assert np.abs(run.ema.get() - run.param.get()).max() > 1e-3


@pytest.mark.parametrize("n", [1, 2, 3, 31, 33, 257, 1023, 1025, 3001])
def test_bfloat16_copy_is_torchs(rig: Rig, n: int) -> None:
    param = normal(0, n)
    run = Run(rig, param, shadow=True)
    run.kernel.refresh(rig.stream, run.shadow, run.param, n)
    assert_same_bits(run.shadow.get(), bfloat16(param), "before the first step")
    run.step(normal(1, n), n)
    assert_same_bits(run.shadow.get(), bfloat16(run.param.get()), "after a step")
    assert (run.param.get() != param).any()


def test_bfloat16_copy_rounds_ties_to_even_and_keeps_the_ends(rig: Rig) -> None:
    patterns = [0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x00000001,
                0x80000000, 0x007FFFFF, 0x00008000, 0x00018000, 0x7F800000, 0xFF800000]  # fmt: skip
    param = np.array(patterns, np.uint32).view(np.float32)
    shadow = output(rig, param.size, dtype=np.uint16)
    AdamW(rig.library, shadow=True).refresh(rig.stream, shadow, rig.put(param), param.size)
    assert_same_bits(shadow.get(), bfloat16(param))


def bfloat16(values: Array) -> Array:
    torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
    rounded: Array = torch.from_numpy(values.copy()).to(torch.bfloat16).view(torch.int16).numpy()
    return rounded.view(np.uint16)


@pytest.mark.parametrize(("ema", "shadow"), [(True, False), (False, True), (True, True)])
def test_options_do_not_change_the_update(rig: Rig, ema: bool, shadow: bool) -> None:
    param, grads = normal(0, 2100), [normal(i, 2100) for i in range(3)]
    plain, run = Run(rig, param), Run(rig, param, ema=ema, shadow=shadow, ema_decay=0.5)
    for grad in grads:
        plain.step(grad, 700)
        run.step(grad, 700)
    for name in plain.state:
        assert_same_bits(plain.state[name].get(), run.state[name].get(), name)


@pytest.mark.parametrize("n", [1, 1023, 1500, 2047])
@pytest.mark.parametrize(("turn", "each"), [(0, 0), (3, 0), (0, 1), (1, 1), (2, 1), (3, 1)])
def test_arrays_may_lie_at_any_float(rig: Rig, n: int, turn: int, each: int) -> None:
    """Array k lies (each * k + turn) % 4 floats off 16 bytes; what is around it is left alone.

    Numbers around it: a kernel that went too far would write a NaN's own bits over a NaN.
    """
    grad = normal(1, n)
    param, zeros = normal(0, n), np.zeros(n, np.float32)
    aligned = Run(rig, param, ema=True, shadow=True, ema_decay=0.5)
    aligned.step(grad, 77)

    firsts = [8 + (each * k + turn) % 4 for k in range(6)]
    arrays = [param, zeros, zeros, param, grad, np.zeros(n, np.uint16)]
    buffers = []
    for array, first in zip(arrays, firsts, strict=True):
        buffers.append(rig.put(np.pad(array, (first, 16), constant_values=3)))
    p, m, v, ema, gradients, shadow = (
        buffer.address + first * buffer.dtype.itemsize
        for buffer, first in zip(buffers, firsts, strict=True)
    )
    aligned.kernel.step(rig.stream, p, m, v, gradients, aligned.stats, aligned.control, 77, n,
                        ema=ema, shadow=shadow)  # fmt: skip

    wants = [*(output.get() for output in (*aligned.state.values(), aligned.ema)), grad,
             aligned.shadow.get()]  # fmt: skip
    for buffer, first, want in zip(buffers, firsts, wants, strict=True):
        assert_same_bits(rig.get(buffer), np.pad(want, (first, 16), constant_values=3))


def test_epsilon_damps_small_gradients(rig: Rig) -> None:
    param, grad = normal(0, 33), normal(1, 33, scale=1e-7)
    run = Run(rig, param, total_steps=9, warmup_steps=0, lr_max=1.0, lr_min=1.0, epsilon=1e-6,
              weight_decay=0, beta2=0.999)  # fmt: skip
    run.step(grad, 33)
    want, _, _ = twins.adamw(
        *wide(param, np.zeros_like(param), np.zeros_like(param), grad), lr=1.0, beta1=0.9,
        beta2=0.999, epsilon=1e-6, weight_decay=0.0, step=1, n_decay=33,
    )  # fmt: skip
    assert_close(run.param.get(), want, CLOSE)


def test_of_nothing_launches_nothing(rig: Rig) -> None:
    untouched = rig.empty((4,))
    AdamW(rig.library).step(rig.stream, *[untouched] * 4, 0, 0, 0, 0)
    assert np.isnan(rig.get(untouched)).all()


@pytest.fixture
def buffers(rig: Rig) -> Iterator[tuple[Any, Any, Any]]:
    stats = rig.put(stats_bytes(new_stats()))
    yield rig.put(np.zeros(8, np.float32)), stats, rig.put(control_bytes(new_control(**SCHEDULE)))


@pytest.mark.parametrize("name", ["ema", "shadow"])
def test_what_the_kernel_was_not_made_for_is_refused(
    rig: Rig, buffers: tuple[Any, Any, Any], name: str
) -> None:
    flat, stats, control = buffers
    arguments = (rig.stream, *[flat] * 4, stats, control, 0, 8)
    with pytest.raises(ConfigError, match=f"made without {name}; make it with {name}=True"):
        AdamW(rig.library).step(*arguments, **{name: flat})
    with pytest.raises(ConfigError, match=f"give the step its {name}"):
        AdamW(rig.library, **{name: True}).step(*arguments)
    with pytest.raises(ConfigError, match="make it with shadow=True"):
        AdamW(rig.library).refresh(rig.stream, flat, flat, 8)
