"""Control block and AdamW: what carries a run from step to step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import AdamW, Control
from lowgraph.ops.control import CONTROL_DTYPE, control_bytes, new_control, read_control
from tests.ops import twins
from tests.ops.compare import ROUNDOFF, assert_close, assert_same_bits, in_place, normal, wide
from tests.support.rig import Rig

SCHEDULE = {"total_steps": 50, "warmup_steps": 7, "lr_max": 1e-3, "lr_min": 1e-5}
BETAS = {"beta1": 0.9, "beta2": 0.95}


def put_control(rig: Rig, **settings: Any) -> Any:
    return rig.put(control_bytes(new_control(**settings)), name="control")


def test_the_layout_is_the_kernels() -> None:
    """96 bytes without padding; control.cuh asserts the same size, the tests below the offsets."""
    assert CONTROL_DTYPE.itemsize == 96
    assert CONTROL_DTYPE.fields is not None
    assert CONTROL_DTYPE.fields["step"][1] == 56


@pytest.mark.parametrize("warmup", [0, 1, 7, 50])
def test_advance_follows_the_schedule(rig: Rig, warmup: int) -> None:
    settings = SCHEDULE | {"warmup_steps": warmup}
    control = put_control(rig, **settings, **BETAS, weight_decay=0.1, seed=2**63 + 5)
    ops = Control(rig.library)
    for step in range(1, 54):
        ops.advance(rig.stream, control)
        block = read_control(rig.get(control))
        lr = twins.learning_rate(step, 50, warmup, float(np.float32(1e-3)), float(np.float32(1e-5)))
        assert block["step"] == step
        # Computed in double and rounded once; another cosine may land on the other side.
        assert block["lr"] == pytest.approx(lr, rel=2 * ROUNDOFF)
        assert block["decay"] == pytest.approx(1 - lr * float(np.float32(0.1)), rel=2 * ROUNDOFF)
        assert block["step_size"] == pytest.approx(lr / (1 - 0.9**step), rel=2 * ROUNDOFF)
        assert block["root_bias2"] == pytest.approx((1 - 0.95**step) ** 0.5, rel=2 * ROUNDOFF)
    gains = [block[name] for name in ("keep1", "gain1", "keep2", "gain2")]
    assert gains == [float(np.float32(x)) for x in (0.9, 1 - 0.9, 0.95, 1 - 0.95)]
    assert block["seed"] == 2**63 + 5, "settings are left alone"


def test_a_resumed_block_has_the_bits_of_one_that_ran_through(rig: Rig) -> None:
    ops = Control(rig.library)
    through = put_control(rig, **SCHEDULE, **BETAS)
    for _ in range(23):
        ops.advance(rig.stream, through)
    resumed = put_control(rig, **SCHEDULE, **BETAS, step=22)
    ops.advance(rig.stream, resumed)

    assert_same_bits(rig.get(through), rig.get(resumed), "control block")


def test_bias_corrections_do_not_drift(rig: Rig) -> None:
    """At step a million; a running product in float32 would have lost the correction by then."""
    control = put_control(
        rig, total_steps=2_000_000, lr_max=1.0, beta1=0.0, beta2=0.9999999, step=999_999
    )

    Control(rig.library).advance(rig.stream, control)

    block = read_control(rig.get(control))
    assert block["root_bias2"] == pytest.approx((1 - 0.9999999**1_000_000) ** 0.5, rel=2 * ROUNDOFF)
    assert block["step_size"] == block["lr"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"total_steps": 0}, "total_steps"),
        ({"warmup_steps": 51}, "warmup_steps"),
        ({"lr_min": 2.0}, "lr_min"),
        ({"beta1": 1.0}, "betas"),
        ({"seed": -1}, "seed"),
        ({"step": -1}, "step"),
    ],
)
def test_settings_that_make_no_schedule_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        new_control(**(SCHEDULE | bad))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("n", "n_decay"), [(1, 0), (1, 1), (31, 10), (257, 257), (1030, 513)])
def test_adamw(rig: Rig, n: int, n_decay: int, seed: int) -> None:
    settings = {**SCHEDULE, **BETAS, "weight_decay": 0.1, "epsilon": 1e-8}
    param, grads = normal(seed, n), [normal(10 + i, n) for i in range(3)]
    state = [in_place(rig, array) for array in (param, np.zeros_like(param), np.zeros_like(param))]
    control = put_control(rig, **settings)
    want = list(wide(param, np.zeros_like(param), np.zeros_like(param)))
    for step, grad in enumerate(grads, start=1):
        Control(rig.library).advance(rig.stream, control)
        AdamW(rig.library).step(rig.stream, *state, rig.put(grad), control, n_decay, n)
        lr = twins.learning_rate(step, 50, 7, 1e-3, 1e-5)
        want = list(
            twins.adamw(
                *want, *wide(grad), lr=lr, **BETAS, epsilon=1e-8, weight_decay=0.1, step=step,
                n_decay=n_decay,
            )
        )  # fmt: skip

    # About ten roundings a step, three steps; the moments' cancel no more than the gradients do.
    for name, got, wanted in zip(("param", "m", "v"), state, want, strict=True):
        assert_close(got.get(), wanted, 32 * ROUNDOFF, name)
    moved = (np.abs(state[0].get() - param) > 0).mean()
    assert moved > 0.9, "an update that vanished would pass a loose comparison"


def test_adamw_epsilon_damps_small_gradients(rig: Rig) -> None:
    param, grad = normal(0, 33), normal(1, 33, scale=1e-7)
    state = [in_place(rig, array) for array in (param, np.zeros_like(param), np.zeros_like(param))]
    control = put_control(rig, total_steps=9, lr_max=1.0, lr_min=1.0, epsilon=1e-6, weight_decay=0)

    Control(rig.library).advance(rig.stream, control)
    AdamW(rig.library).step(rig.stream, *state, rig.put(grad), control, 33, 33)

    want, _, _ = twins.adamw(
        *wide(param, np.zeros_like(param), np.zeros_like(param), grad), lr=1.0, beta1=0.9,
        beta2=0.999, epsilon=1e-6, weight_decay=0.0, step=1, n_decay=33,
    )  # fmt: skip
    assert_close(state[0].get(), want, 32 * ROUNDOFF)


def test_adamw_of_nothing_launches_nothing(rig: Rig) -> None:
    untouched = rig.empty((4,))
    AdamW(rig.library).step(rig.stream, untouched, untouched, untouched, untouched, 0, 0, 0)
    assert np.isnan(rig.get(untouched)).all()
