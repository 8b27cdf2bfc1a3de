"""The twins of a Mamba-2 block against finite differences and against PyTorch, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ops import twins_mamba as twins
from tests.ops.compare import Array
from tests.ops.test_twins import assert_gradient, numbers

EPSILON = 1e-5
CLOSE = 1e-11
"""Of the largest element: float64 sums of some thousand terms, in another order."""

SSD_NAMES = ("dx", "draw", "ddt_bias", "da_log", "db", "dc", "dd")


def ssd_inputs(seed: int, *sizes: int) -> list[Array]:
    batch, length, heads, size, state = sizes
    shapes = [(batch, length, heads, size), (batch, length, heads), (heads,), (heads,),
              (batch, length, state), (batch, length, state), (heads,)]  # fmt: skip
    return [numbers(seed + 10 * n, *shape) for n, shape in enumerate(shapes)]


def assert_gradients(
    forward: Callable[..., Any], arrays: list[Array], dy: Array, gradients: list[Array]
) -> None:
    """Central differences of the sum of dy * forward(*arrays) in each of the arrays."""
    for n, gradient in enumerate(gradients):

        def loss(at: Array, n: int = n) -> float:
            return float((forward(*arrays[:n], at, *arrays[n + 1 :]) * dy).sum())

        assert_gradient(loss, arrays[n], gradient)


def test_conv1d() -> None:
    arrays, dy = [numbers(0, 2, 5, 3), numbers(1, 3, 4), numbers(2, 3)], numbers(3, 2, 5, 3)
    assert_gradients(twins.conv1d_forward, arrays, dy, list(twins.conv1d_backward(dy, *arrays)))


def test_gated_norm() -> None:
    arrays, dy = [numbers(0, 3, 5), numbers(1, 3, 5), numbers(2, 5)], numbers(3, 3, 5)
    gradients = list(twins.gated_norm_backward(dy, *arrays, EPSILON))
    assert_gradients(lambda *at: twins.gated_norm_forward(*at, EPSILON)[0], arrays, dy, gradients)


def test_rms_norm() -> None:
    arrays, dy = [numbers(0, 3, 5), numbers(2, 5)], numbers(3, 3, 5)
    gradients = list(twins.rms_norm_backward(dy, *arrays, EPSILON))
    assert_gradients(lambda *at: twins.rms_norm_forward(*at, EPSILON)[0], arrays, dy, gradients)


def test_gated_update() -> None:
    arrays, dy = (
        [numbers(0, 3, 5), numbers(1, 3, 10), numbers(2, 5), numbers(4, 5)],
        numbers(3, 3, 5),
    )
    dgates = twins.gated_update_backward(dy, *arrays)
    gradients = [dy, dgates, *np.split(dgates.sum(axis=0), 2)]
    assert_gradients(lambda *at: twins.gated_update_forward(*at)[0], arrays, dy, gradients)


def test_bce() -> None:
    logits, targets = numbers(0, 7) * 3, np.random.default_rng(1).random(7)
    gradient = twins.bce_backward(logits, targets)
    assert_gradient(lambda at: twins.bce_forward(at, targets), logits, gradient)


def test_ssd() -> None:
    arrays, dy = ssd_inputs(0, 2, 4, 2, 3, 2), numbers(99, 2, 4, 2, 3)
    gradients = twins.ssd_backward(dy, *arrays)
    assert_gradients(twins.ssd_forward, arrays, dy, [gradients[name] for name in SSD_NAMES])


# ---- PyTorch's operators and its autograd ----


def compare(
    torch: Any, forward: Callable[..., Any], arrays: list[Array], dy: Array, y: Array,
    gradients: list[Array],
) -> None:  # fmt: skip
    """Hold y and the gradients against PyTorch's."""
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    out = forward(*tensors)
    out.backward(torch.tensor(dy))
    pairs = [(y, out.detach().numpy())]
    pairs += [(ours, t.grad.numpy()) for ours, t in zip(gradients, tensors, strict=True)]
    for n, (ours, theirs) in enumerate(pairs):
        assert ours.shape == theirs.shape
        error = np.abs(ours - theirs).max()
        assert error <= CLOSE * max(1.0, float(np.abs(theirs).max())), (n, error)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="the oracle extra is not installed")


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 31, 33), (3, 65, 17)])
def test_conv1d_is_pytorchs(torch: Any, sizes: tuple[int, int, int]) -> None:
    channels = sizes[2]
    arrays = [numbers(0, *sizes), numbers(1, channels, 4), numbers(2, channels)]
    dy = numbers(3, *sizes)

    def forward(x: Any, weight: Any, bias: Any) -> Any:
        x = torch.nn.functional.pad(x.transpose(1, 2), (3, 0))
        pre = torch.nn.functional.conv1d(x, weight[:, None], bias, groups=channels)
        return torch.nn.functional.silu(pre).transpose(1, 2)

    y, gradients = twins.conv1d_forward(*arrays), list(twins.conv1d_backward(dy, *arrays))
    compare(torch, forward, arrays, dy, y, gradients)


@pytest.mark.parametrize("sizes", [(1, 1), (33, 31), (65, 257)])
def test_gated_norm_is_pytorchs(torch: Any, sizes: tuple[int, int]) -> None:
    arrays, dy = [numbers(0, *sizes), numbers(1, *sizes), numbers(2, sizes[1])], numbers(3, *sizes)

    def forward(x: Any, z: Any, weight: Any) -> Any:
        gated = x * torch.nn.functional.silu(z)
        return torch.nn.functional.rms_norm(gated, (sizes[1],), weight, EPSILON)

    y, _ = twins.gated_norm_forward(*arrays, EPSILON)
    compare(torch, forward, arrays, dy, y, list(twins.gated_norm_backward(dy, *arrays, EPSILON)))


@pytest.mark.parametrize("sizes", [(1, 1), (33, 31), (65, 257)])
def test_rms_norm_is_pytorchs(torch: Any, sizes: tuple[int, int]) -> None:
    arrays, dy = [numbers(0, *sizes), numbers(2, sizes[1])], numbers(3, *sizes)

    def forward(x: Any, weight: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (sizes[1],), weight, EPSILON)

    y, _ = twins.rms_norm_forward(*arrays, EPSILON)
    compare(torch, forward, arrays, dy, y, list(twins.rms_norm_backward(dy, *arrays, EPSILON)))


@pytest.mark.parametrize("count", [1, 257])
def test_bce_is_pytorchs(torch: Any, count: int) -> None:
    logits, targets = numbers(0, count) * 5, np.random.default_rng(1).random(count)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    y, gradient = np.array(twins.bce_forward(logits, targets)), twins.bce_backward(logits, targets)

    def forward(x: Any) -> Any:
        return entropy(x, torch.tensor(targets))

    compare(torch, forward, [logits], np.array(1.0), y, [gradient])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1, 1), (2, 31, 3, 16, 8), (1, 33, 1, 33, 17), (2, 65, 3, 1, 8)], ids=str
)
def test_ssd_is_pytorchs(torch: Any, sizes: tuple[int, ...], seed: int) -> None:
    """Against the other form of the duality: one [T,T] matrix a head, in one piece."""
    arrays = ssd_inputs(seed, *sizes)
    dy = numbers(99, *arrays[0].shape)

    def forward(x: Any, raw: Any, bias: Any, a_log: Any, b: Any, c: Any, d: Any) -> Any:
        dt = torch.nn.functional.softplus(raw + bias)
        sums = torch.cumsum(dt * -torch.exp(a_log), dim=1)
        seen = torch.ones(sizes[1], sizes[1]).tril()[None, :, :, None] > 0
        span = (sums[:, :, None] - sums[:, None]).masked_fill(~seen, -torch.inf)
        mix = torch.einsum("btn,bsn->bts", c, b)[..., None] * torch.exp(span) * dt[:, None]
        return torch.einsum("btsh,bshp->bthp", mix, x) + d[:, None] * x

    gradients = twins.ssd_backward(dy, *arrays)
    y, ours = twins.ssd_forward(*arrays), [gradients[name] for name in SSD_NAMES]
    compare(torch, forward, arrays, dy, y, ours)


@pytest.mark.slow  # the import takes seconds
def test_the_block_is_the_mixer_of_transformers(torch: Any) -> None:
    """What lies between the two projections of Mamba2Mixer, with its parameters.

    That computes the layer and the norm in float32 whatever comes in: some ten roundings of 6e-8 of
    the largest element.
    """
    modeling = pytest.importorskip(
        "transformers.models.mamba2.modeling_mamba2", reason="the oracle extra is not installed"
    )
    config = modeling.Mamba2Config(
        hidden_size=12, expand=2, num_heads=3, head_dim=8, state_size=5, n_groups=1, chunk_size=16
    )
    torch.manual_seed(0)
    mixer = modeling.Mamba2Mixer(config, layer_idx=0).double()
    with torch.no_grad():
        for parameter in (mixer.dt_bias, mixer.A_log, mixer.D, mixer.norm.weight):
            parameter.copy_(torch.randn_like(parameter))
        hidden = torch.randn(2, 37, 12, dtype=torch.float64)
        want = mixer(hidden).numpy()
        projected = mixer.in_proj(hidden).numpy()
        weight, bias, norm, a_log, d, dt_bias, out = (
            p.numpy() for p in (mixer.conv1d.weight[:, 0], mixer.conv1d.bias, mixer.norm.weight,
                                mixer.A_log, mixer.D, mixer.dt_bias, mixer.out_proj.weight)
        )  # fmt: skip
    gate, mixed, raw = np.split(projected, [24, 24 + 34], axis=2)
    x, b, c = np.split(twins.conv1d_forward(mixed, weight, bias), [24, 29], axis=2)
    y = twins.ssd_forward(x.reshape(2, 37, 3, 8), raw, dt_bias, a_log, b, c, d)
    rows = y.reshape(-1, 24), gate.reshape(-1, 24)
    normed, _ = twins.gated_norm_forward(*rows, norm, config.layer_norm_epsilon)
    ours = (normed @ out.T).reshape(want.shape)
    assert np.abs(ours - want).max() <= 1e-6 * np.abs(want).max()
