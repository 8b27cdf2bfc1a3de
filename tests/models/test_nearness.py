"""The rule for gradients in bfloat16 passes equally good programs and fails worse ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.nearness import SEEDS, Draw, assert_as_near

NOISE = 0.01  # of a gradient's norm, as bfloat16's
SHAPES = {"one": (1,), "few": (3,), "many": (20, 20)}


def draws(name: str = "", times: float = 1.0, lean: float = 0.0, seed: int = 0) -> list[Draw]:
    """Two equally good programs; ours gets `times` the noise and a lean in the tensor `name`."""
    generator = np.random.default_rng(seed)

    def noisy(double: dict[str, np.ndarray], wanted: str) -> dict[str, np.ndarray]:
        return {
            each: value * (1 + (lean if each == wanted else 0.0))
            + NOISE * (times if each == wanted else 1.0) * generator.standard_normal(value.shape)
            for each, value in double.items()
        }

    found = []
    for _ in SEEDS:
        double = {each: generator.standard_normal(shape) for each, shape in SHAPES.items()}
        found.append(Draw(noisy(double, name), noisy(double, ""), double))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_equally_good_programs_pass(seed: int) -> None:
    """Where the rule for one seed would not: one number is farther than twice theirs in some."""
    found = draws(seed=seed)
    off = [[abs(each["one"] - exact["one"])[0] for each in pair] for *pair, exact in found]
    assert sum(ours > 2 * theirs for ours, theirs in off) > 3
    assert_as_near(found)


@pytest.mark.parametrize("name", SHAPES)
def test_three_times_the_noise_is_seen(name: str) -> None:
    with pytest.raises(AssertionError, match=rf"{{'{name}': 'off by [^']*, theirs by [^']*'}}"):
        assert_as_near(draws(name, times=3.0))


@pytest.mark.parametrize(("lean", "side"), [(-0.015, "short"), (0.015, "long")])
def test_a_lean_is_seen_in_noise_that_hides_it(lean: float, side: str) -> None:
    told = rf"{{'many': 'too {side} in \d\d seeds, by 1\.[456]e-02'}}"
    with pytest.raises(AssertionError, match=told):
        assert_as_near(draws("many", lean=lean))


def test_a_lean_of_one_rounding_is_none() -> None:
    assert_as_near(draws("many", lean=2.0**-9))


def test_a_gradient_of_zero_may_have_float32s_rounding() -> None:
    found = draws()
    tiny = 1e-7 * np.random.default_rng(1).standard_normal(5)
    zero = np.zeros(5)
    assert_as_near(
        [Draw({**a, "z": tiny}, {**b, "z": zero}, {**c, "z": zero}) for a, b, c in found]
    )
    with pytest.raises(AssertionError, match="'z': 'off by"):
        assert_as_near(
            [Draw({**a, "z": 1e4 * tiny}, {**b, "z": zero}, {**c, "z": zero}) for a, b, c in found]
        )


def test_draws_are_as_many_as_the_limits_are_for_and_name_the_same() -> None:
    found = draws()
    with pytest.raises(AssertionError, match="31 draws, the limits are for 32"):
        assert_as_near(found[1:])
    with pytest.raises(AssertionError):
        assert_as_near([found[0]._replace(ours={}), *found[1:]])
