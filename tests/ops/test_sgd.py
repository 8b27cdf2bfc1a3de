from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import Control, GradientNorm, Sgd
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.ops.grad_norm import new_stats, stats_bytes
from tests.ops.compare import ROUNDOFF, Array, assert_close, assert_same_bits, in_place, normal
from tests.support.rig import Rig

# A thread owns two quads, a block 1024 elements.
COUNTS = [1, 31, 33, 257, 1024, 2085]
LR, DECAY = 0.1, 0.2


def steps(
    rig: Rig, p: Array, grads: list[Array], *, momentum: float, decayed: int, clip: float = 0.0
) -> tuple[Array, Array]:
    """Parameters and momentum after a step a gradient, at one learning rate."""
    n = p.size
    block = new_control(
        total_steps=9, lr_max=LR, lr_min=LR, weight_decay=DECAY, clip_norm=clip, warmup_steps=0
    )
    control, stats = rig.put(control_bytes(block)), rig.put(stats_bytes(new_stats()))
    norm, kernel = GradientNorm(rig.library), Sgd(rig.library, momentum=momentum)
    partial = rig.put(np.zeros(norm.partial_shape(n)))
    param, m = in_place(rig, p), in_place(rig, np.zeros_like(p))
    for grad in grads:
        Control(rig.library).advance(rig.stream, control)
        given = rig.put(grad)
        norm.measure(rig.stream, stats, partial, given, control, n)
        state: Any = m if momentum else 0
        kernel.step(rig.stream, param, given, stats, control, decayed, n, m=state)
    return param.get(), m.get()


def reference(
    p: Array, grads: list[Array], *, momentum: float, decayed: int, clip: float = 0.0
) -> tuple[Array, Array]:
    """The formula, element by element, in float64."""
    p = p.astype(np.float64)
    m = np.zeros_like(p)
    for grad in grads:
        g = np.where(np.isfinite(grad), grad, 0).astype(np.float64)
        if clip:
            g *= min(1.0, clip / np.linalg.norm(g))
        for i in range(p.size):
            own = g[i] + (DECAY * p[i] if i < decayed else 0.0)
            m[i] = momentum * m[i] + own
            p[i] -= LR * m[i]
    return p, m


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("count", COUNTS)
def test_steps(rig: Rig, count: int, seed: int, momentum: float) -> None:
    p, grads = normal(seed, count), [normal(seed + 10 + k, count) for k in range(3)]
    decayed = count // 2 + 1
    given = {"momentum": momentum, "decayed": decayed}
    got, m = steps(rig, p, grads, **given)
    want, want_m = reference(p, grads, **given)
    # Three steps of three roundings each.
    assert_close(got, want, 9 * ROUNDOFF)
    if momentum:
        assert_close(m, want_m, 9 * ROUNDOFF)
    assert_same_bits(got, steps(rig, p, grads, **given)[0])


def test_clipping_and_gradients_that_are_not_finite(rig: Rig) -> None:
    p, grad = normal(0, 70), normal(1, 70)
    grad[[3, 40]] = np.nan, np.inf
    given = {"momentum": 0.5, "decayed": 0, "clip": 0.25}
    got, _ = steps(rig, p, [grad, grad], **given)
    assert_close(got, reference(p, [grad, grad], **given)[0], 9 * ROUNDOFF)
    assert (got[[3, 40]] == p[[3, 40]]).all()


def test_what_cannot_be_is_refused(rig: Rig) -> None:
    for momentum in (-0.1, 1.0):
        with pytest.raises(ConfigError, match="from 0 to below 1"):
            Sgd(rig.library, momentum=momentum)
    with pytest.raises(ConfigError, match="momentum 0 has no m"):
        Sgd(rig.library).step(rig.stream, 0, 0, 0, 0, 0, 4, m=1)
    with pytest.raises(ConfigError, match=r"momentum 0\.9 needs an m, zero before step 1"):
        Sgd(rig.library, momentum=0.9).step(rig.stream, 0, 0, 0, 0, 0, 4)
    Sgd(rig.library).step(rig.stream, 0, 0, 0, 0, 0, 0)  # nothing to do launches nothing
    rig.sync()
