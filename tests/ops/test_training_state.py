"""The control block: what carries a run from step to step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import Control
from lowgraph.ops.control import (
    CONTROL_DTYPE,
    SCHEDULES,
    control_bytes,
    new_control,
    read_control,
)
from tests.ops import twins
from tests.ops.compare import ROUNDOFF, assert_same_bits
from tests.support.rig import Rig

SCHEDULE = {"total_steps": 50, "warmup_steps": 7, "lr_max": 1e-3, "lr_min": 1e-5}
BETAS = {"beta1": 0.9, "beta2": 0.95}


def put_control(rig: Rig, **settings: Any) -> Any:
    return rig.put(control_bytes(new_control(**settings)), name="control")


def test_the_layout_is_the_kernels() -> None:
    """128 bytes without padding; control.cuh asserts the same size, the tests below the offsets."""
    assert CONTROL_DTYPE.itemsize == 128
    assert CONTROL_DTYPE.fields is not None
    assert CONTROL_DTYPE.fields["step"][1] == 80


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 1, 7, 50])
def test_advance_follows_the_schedule(rig: Rig, warmup: int, schedule: str) -> None:
    settings = SCHEDULE | {"warmup_steps": warmup, "schedule": schedule}
    control = put_control(rig, **settings, **BETAS, weight_decay=0.1, seed=2**63 + 5)
    ops = Control(rig.library)
    for step in range(1, 54):
        ops.advance(rig.stream, control)
        block = read_control(rig.get(control))
        ends = float(np.float32(1e-3)), float(np.float32(1e-5))
        lr = twins.learning_rate(step, 50, warmup, *ends, schedule)
        assert block["step"] == step
        # Computed in double and rounded once; another cosine may land on the other side.
        assert block["lr"] == pytest.approx(lr, rel=2 * ROUNDOFF)
        assert block["decay"] == pytest.approx(1 - lr * float(np.float32(0.1)), rel=2 * ROUNDOFF)
        assert block["step_size"] == pytest.approx(lr / (1 - 0.9**step), rel=2 * ROUNDOFF)
        assert block["root_bias2"] == pytest.approx((1 - 0.95**step) ** 0.5, rel=2 * ROUNDOFF)
    gains = [block[name] for name in ("keep1", "gain1", "keep2", "gain2")]
    assert gains == [float(np.float32(x)) for x in (0.9, 1 - 0.9, 0.95, 1 - 0.95)]
    assert block["seed"] == 2**63 + 5, "settings are left alone"
    assert block["schedule"] == schedule


@pytest.mark.parametrize(("schedule", "end"), [("cosine", 0.25), ("linear", 0.25), ("constant", 1)])
def test_a_schedule_ends_exactly_where_it_is_to(rig: Rig, schedule: str, end: float) -> None:
    """At the last step and long after it; and for a run that is all warm-up."""
    for warmup in (0, 4):
        control = put_control(rig, total_steps=4, warmup_steps=warmup, lr_max=1.0, lr_min=0.25,
                              schedule=schedule, step=3)  # fmt: skip
        for step in (4, 5):
            Control(rig.library).advance(rig.stream, control)
            at_peak = warmup == 4 and step == 4
            assert read_control(rig.get(control))["lr"] == (1.0 if at_peak else end)


@pytest.mark.parametrize("warmup", [False, True])
def test_advance_follows_the_decay_of_the_average(rig: Rig, warmup: bool) -> None:
    control = put_control(rig, **SCHEDULE, ema_decay=0.5, ema_warmup=warmup)
    keeps = []
    for step in range(1, 12):
        Control(rig.library).advance(rig.stream, control)
        block = read_control(rig.get(control))
        # The average of a parameter that is 0 from 1 on is what is kept; of 1 from 0, what comes.
        keep = float(twins.moving_average(np.ones(1), np.zeros(1), 0.5, step, warmup=warmup)[0])
        assert block["ema_keep"] == np.float32(keep)
        assert block["ema_gain"] == np.float32(1 - keep)
        keeps.append(block["ema_keep"])
    assert keeps[0] == (np.float32(2 / 11) if warmup else 0.5), "the first step is number 1"
    assert keeps[-1] == 0.5
    assert (block["ema_decay"], block["ema_warmup"]) == (0.5, warmup)


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
        ({"schedule": "triangle"}, "must be cosine or linear or constant, got 'triangle'"),
        ({"clip_norm": -1.0}, "0: no clipping"),
        ({"clip_norm": float("inf")}, "clip_norm"),
        ({"clip_norm": float("nan")}, "clip_norm"),
        ({"ema_decay": 1.0}, "ema_decay"),
        ({"ema_decay": -0.1}, "ema_decay"),
        ({"seed": -1}, "seed"),
        ({"step": -1}, "step"),
    ],
)
def test_settings_that_make_no_schedule_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        new_control(**(SCHEDULE | bad))
