"""A charlm whose products take the norms behind them into their launches, as on a GPU.

With the Blas of the host device they are two launches; here the route is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lowgraph.blas import Layer, Route, Routes
from lowgraph.blas.routes import Chooser, choose
from lowgraph.driver.launch import LaunchConfig
from lowgraph.kernels import Kernel, launch
from lowgraph.models import CharLM, CharLMConfig
from lowgraph.precision import Precision
from tests.models.bench import Bench
from tests.models.branched_step import routes as in_one
from tests.models.cases import batch_of, perturbed
from tests.models.oracle import split_key_bias
from tests.models.passes import assert_captured_equals_eager
from tests.support.closing import all_closed
from tests.support.rig import Rig

pytestmark = pytest.mark.both

Array = npt.NDArray[Any]
Make = Callable[..., "Passes"]

CONFIG = CharLMConfig(context=11, width=128, heads=4, layers=2, vocabulary=72)
BATCH = batch_of(CONFIG, 3, seed=2)  # 33 rows: a block and a row


def apart(layer: Layer, backend: str) -> Routes:
    if layer.form.has_norm:
        return Routes(Route.SEPARATE, Route.SEPARATE)
    return choose(layer, backend)


class Passes:
    """The model with a Blas of these routes."""

    def __init__(self, rig: Rig, routes: Chooser, precision: Precision, branches: int) -> None:
        def build(config: CharLMConfig, **given: Any) -> CharLM:
            return CharLM(config, **given, branches=branches)

        weights = perturbed(CONFIG, 1)
        self.bench = Bench(rig, CONFIG, weights, build, precision, routes)

    def gradients(self) -> dict[str, Array]:
        return self.bench.gradients(*BATCH)[1]

    def close(self) -> None:
        self.bench.close()


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    def build(routes: Chooser, precision: Precision = Precision.BF16, branches: int = 1) -> Passes:
        return Passes(rig, routes, precision, branches)

    with all_closed(build) as make:
        yield make


def off(found: dict[str, Array], exact: dict[str, Array]) -> dict[str, float]:
    """Each gradient's distance, of its size."""
    parts = split_key_bias(exact)
    return {
        name: float(np.linalg.norm(value - parts[name]) / np.linalg.norm(parts[name]))
        for name, value in split_key_bias(found).items()
    }


def test_gradients_are_no_farther_from_float32_than_those_of_two_launches(make: Make) -> None:
    exact = make(choose, Precision.FP32).gradients()
    one, two = (off(make(routes).gradients(), exact) for routes in (in_one, apart))
    # Both are the same roundings to bfloat16 of numbers that differ in their last bits, or fewer:
    # two draws of one error, tensor by tensor. A term that is left out is an error of its size.
    assert max(two.values()) < 0.1
    for name, distance in one.items():
        assert distance <= 2 * two[name], (name, distance, two[name])


@pytest.mark.parametrize("branches", [0, 2])
def test_the_bits_do_not_depend_on_branches(make: Make, branches: int) -> None:
    found = make(in_one).gradients()
    for name, gradient in make(in_one, branches=branches).gradients().items():
        np.testing.assert_array_equal(gradient, found[name], name)


def test_a_captured_pass_gives_the_eager_bits(rig: Rig, make: Make) -> None:
    assert_captured_equals_eager(make(in_one).bench, *BATCH)


def kernels_of(monkeypatch: pytest.MonkeyPatch, passes: Passes) -> Counter[str]:
    seen: Counter[str] = Counter()

    def watch(kernel: Kernel, values: object, config: LaunchConfig, args: object) -> None:
        seen[kernel.name] += 1

    monkeypatch.setattr(launch, "observer", watch)
    passes.gradients()
    monkeypatch.undo()
    return seen


def test_a_pass_has_a_launch_less_for_each_norm_behind_a_product(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = make(in_one), make(apart)
    backend = passes[0].bench.blas.backend
    one, two = (kernels_of(monkeypatch, each) for each in passes)
    forward = 2 * CONFIG.layers
    assert two["layernorm_residual_forward"] == one["linear_mma_norm_forward"] == forward
    assert two["layernorm_backward"] == one["linear_mma_norm_backward"] == forward + 1
    assert not {"layernorm_residual_forward", "layernorm_backward"} & one.keys()
    for seen in (one, two):  # a second launch of some products of the host device
        seen.pop("gemm_reduce", None)
    fewer = two.total() - one.total()
    if backend == "kernel":
        assert fewer == 2 * forward + 1
    else:  # the products of the two launches are the library's, which are no kernels of ours
        assert fewer == 0
