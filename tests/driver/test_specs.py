"""TensorSpec: sizes in elements and bytes, and bad shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.specs import TensorSpec


def test_sizes() -> None:
    spec = TensorSpec("weight", (3, 5), np.dtype(np.float16))
    assert (spec.elements, spec.nbytes, str(spec)) == (15, 30, "weight: float16 3x5")
    scalar = TensorSpec("loss", ())
    assert (scalar.elements, scalar.nbytes, str(scalar)) == (1, 4, "loss: float32 scalar")
    assert TensorSpec("none", (0, 7)).nbytes == 0


def test_equal_by_value_whatever_integers_were_given() -> None:
    given: Any = (np.int64(3), 5)
    assert TensorSpec("w", given) == TensorSpec("w", (3, 5))


@pytest.mark.parametrize("size", [-1, 1.0, "3", True, None])
def test_bad_dimension_is_named(size: Any) -> None:
    with pytest.raises(ConfigError, match=f"tensor 'w': {size!r} is no dimension"):
        TensorSpec("w", (2, size))
