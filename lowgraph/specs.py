"""TensorSpec: the name, shape and element type of a tensor, before it has memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowgraph.errors import ConfigError

__all__ = ["TensorSpec"]


@dataclass(frozen=True)
class TensorSpec:
    """What a tensor is: its name, shape (row-major) and NumPy dtype.

    Raises ConfigError when a dimension is negative or not an integer.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))

    def __post_init__(self) -> None:
        for size in self.shape:
            if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 0:
                raise ConfigError(f"tensor {self.name!r}: {size!r} is no dimension of {self.shape}")
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "dtype", np.dtype(self.dtype))

    @property
    def elements(self) -> int:
        """Number of elements: 1 for a scalar (shape ())."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes, without padding."""
        return self.elements * self.dtype.itemsize

    def __str__(self) -> str:
        sizes = "x".join(str(size) for size in self.shape) or "scalar"
        return f"{self.name}: {self.dtype.name} {sizes}"
