"""Norm, clip coefficient and masked elements of the gradients, against PyTorch and math.fsum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.ops import GradientNorm
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.ops.grad_norm import STATS_DTYPE, GradientStats, new_stats, read_stats, stats_bytes
from tests.ops import twins
from tests.ops.compare import Array, assert_same_bits, in_place, normal, output
from tests.support.rig import Rig

# A float64 sum of at most 2^23 squares in another order, and one root: 1e-12 is far above both.
CLOSE = 1e-12
# 70 001 are 35 blocks, 600 001 more than the last one has threads.
SIZES = [1, 3, 31, 33, 257, 2047, 2049, 8191, 8193, 70_001, 600_001]


def put_control(rig: Rig, clip_norm: float) -> Any:
    return rig.put(control_bytes(new_control(total_steps=9, lr_max=1.0, clip_norm=clip_norm)))


def measure(
    rig: Rig, grad: Array, clip_norm: float = 0.0, steps: int = 1, shift: int = 0
) -> GradientStats:
    """Measured `steps` times over; shift: how many floats the gradients lie off 256 bytes."""
    kernels, n = GradientNorm(rig.library), grad.size
    stats = in_place(rig, np.zeros(STATS_DTYPE.itemsize, np.uint8), "stats")
    partial = output(rig, *kernels.partial_shape(n), dtype=np.float64, name="partial")
    before = np.concatenate([np.full(shift, np.nan, np.float32), grad])
    gradients = in_place(rig, before, "grad")
    control = put_control(rig, clip_norm)
    for _ in range(steps):
        address = gradients.address + 4 * shift
        kernels.measure(rig.stream, stats, partial, address, control, n)
    assert_same_bits(gradients.get(), before, "the gradients are only read")
    if n:
        assert not np.isnan(partial.get()).any()
    return read_stats(stats.get())


def test_the_layout_is_the_kernels() -> None:
    """gradient.cuh asserts the same size; the tests below hold the offsets."""
    assert STATS_DTYPE.itemsize == 40
    neutral = read_stats(stats_bytes(new_stats()))
    assert neutral == GradientStats(0.0, 0, 0, 0, 1.0)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n", SIZES)
def test_norm(rig: Rig, n: int, seed: int) -> None:
    grad = normal(seed, n)
    found = measure(rig, grad)
    norm, _, _ = twins.gradient_norm(grad, 0.0)
    assert found.norm == pytest.approx(norm, rel=CLOSE, abs=0.0)
    assert (found.masked, found.coefficient) == (0, 1.0)


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_gradients_may_lie_at_any_float(rig: Rig, shift: int) -> None:
    grad = normal(3, 4099)
    want = twins.gradient_norm(grad, 0.0)[0]
    assert measure(rig, grad, shift=shift).norm == pytest.approx(want, rel=CLOSE, abs=0.0)


@pytest.mark.parametrize("clip_norm", [0.25, 1.0, 5.0, 1000.0])
@pytest.mark.parametrize("n", [1, 33, 257, 8193])
def test_the_coefficient_is_torchs(rig: Rig, n: int, clip_norm: float) -> None:
    """The clipped gradients of clip_grad_norm_ in float64, from which the coefficient follows."""
    torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
    grad = normal(n, n)
    found = measure(rig, grad, clip_norm)
    parameter = torch.nn.Parameter(torch.zeros(n, dtype=torch.float64))
    parameter.grad = torch.from_numpy(grad.astype(np.float64))
    norm = torch.nn.utils.clip_grad_norm_([parameter], clip_norm)
    coefficient = float(parameter.grad[0]) / float(grad[0])
    assert found.norm == pytest.approx(float(norm), rel=CLOSE)
    # One rounding to float32.
    assert found.coefficient == pytest.approx(coefficient, rel=2.0**-24)
    assert (found.coefficient < 1) == (float(norm) > clip_norm - 1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [1, 31, 33, 257, 8193, 70_001])
def test_what_is_not_finite_is_counted_and_counts_as_zero(rig: Rig, n: int, bad: float) -> None:
    grad = normal(5, n)
    places = sorted({0, n // 3, n // 2 + 1 if n > 3 else 0, n - 1})
    grad[places] = bad
    found = measure(rig, grad, clip_norm=1.0, steps=3)
    norm, coefficient, masked = twins.gradient_norm(grad, 1.0)
    assert masked == len(places)
    assert found.norm == pytest.approx(norm, rel=CLOSE, abs=0.0)
    assert found.coefficient == pytest.approx(coefficient, rel=2.0**-24)
    assert (found.masked, found.masked_total, found.masked_steps) == (masked, 3 * masked, 3)


@pytest.mark.parametrize("pattern", [0x7F800001, 0xFF800001, 0x7FC0DEAD, 0xFFFFFFFF])
def test_every_kind_of_nan_is_masked(rig: Rig, pattern: int) -> None:
    grad = normal(6, 100)
    grad.view(np.uint32)[[7, 50]] = pattern
    assert measure(rig, grad).masked == 2


def test_all_masked(rig: Rig) -> None:
    found = measure(rig, np.full(257, np.nan, np.float32), clip_norm=1.0)
    assert found == GradientStats(0.0, 257, 257, 1, 1.0)


def test_the_ends_of_float32_neither_overflow_nor_vanish(rig: Rig) -> None:
    """Their squares do in float32; and the largest number is finite, the smallest not zero."""
    largest, smallest = float(np.finfo(np.float32).max), float(np.float32(1e-45))
    for value in (largest, -largest, smallest):
        found = measure(rig, np.full(1000, value, np.float32), clip_norm=1.0)
        assert found.masked == 0
        assert found.norm == pytest.approx(abs(value) * 1000**0.5, rel=CLOSE, abs=0.0)
        if value == largest:
            assert found.coefficient == pytest.approx(1 / found.norm, rel=1e-6) or (
                # 1 / norm is below float32's normal numbers: that many bits of it are there.
                found.coefficient == pytest.approx(1 / found.norm, abs=2.0**-149)
            )


def test_steps_without_any_leave_the_totals(rig: Rig) -> None:
    kernels, control = GradientNorm(rig.library), put_control(rig, 0.0)
    stats = rig.put(np.zeros(STATS_DTYPE.itemsize, np.uint8))
    good, bad = normal(0, 50), normal(1, 50)
    bad[[4, 40]] = np.inf
    seen = []
    for grad in (good, bad, good, bad, bad):
        partial = rig.empty(kernels.partial_shape(50), np.float64)
        kernels.measure(rig.stream, stats, partial, rig.put(grad), control, 50)
        found = read_stats(rig.get(stats))
        seen.append((found.masked, found.masked_total, found.masked_steps))
    assert seen == [(0, 0, 0), (2, 2, 1), (0, 2, 1), (2, 4, 2), (2, 6, 3)]


def test_sizes_may_follow_one_another(rig: Rig) -> None:
    """Each launch leaves the ticket at 0 for the next, whatever its number of blocks."""
    kernels, control = GradientNorm(rig.library), put_control(rig, 0.0)
    stats = rig.put(np.zeros(STATS_DTYPE.itemsize, np.uint8))
    for n in (70_001, 1, 4096, 70_001, 0, 33):
        partial, grad = rig.empty(kernels.partial_shape(n), np.float64), normal(n, n)
        kernels.measure(rig.stream, stats, partial, rig.put(grad), control, n)
        data = rig.get(stats)
        want = twins.gradient_norm(grad, 0.0)[0]
        assert read_stats(data).norm == pytest.approx(want, rel=CLOSE, abs=0.0)
        assert data.view(STATS_DTYPE)["ticket"][0] == 0


def test_no_gradients_have_norm_zero(rig: Rig) -> None:
    assert measure(rig, np.zeros(0, np.float32), 1.0) == GradientStats(0.0, 0, 0, 0, 1.0)


def test_the_same_gradients_give_the_same_bits(rig: Rig) -> None:
    grad = normal(8, 70_001, scale=1e3)
    assert len({measure(rig, grad, 0.1) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("n", "blocks"), [(0, 1), (1, 1), (2048, 1), (2049, 2), (2048 * 2048, 2048), (10**9, 2048)]
)
def test_the_workspace_depends_on_the_size_alone(n: int, blocks: int) -> None:
    assert GradientNorm.partial_shape(n) == (blocks, 2)
