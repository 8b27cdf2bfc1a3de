"""What the routes of a linear layer are made of: steps, and the maker that plans their products."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from lowgraph.blas.backend import Backend, Product
from lowgraph.blas.epilogue import Epilogue
from lowgraph.blas.layer import Layer
from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import Slice, readable

__all__ = ["Maker", "Step"]

Step = Callable[[int, Slice, tuple[Any, ...]], None]
"""Enqueues a part of a call: stream, workspace, and the call's tensors as `Layer.tensors` says."""


class Maker:
    """Plans what the steps of one layer run.

    Attributes: layer, library, texts (how the products planned so far are run).
    """

    def __init__(
        self,
        backend: Backend,
        library: Library,
        layer: Layer,
        workspace_bytes: int,
        made: ExitStack,
    ) -> None:
        """made: takes what is to be freed with the plan."""
        self.layer = layer
        self.library = library
        self.texts: list[str] = []
        self._backend = backend
        self._room = workspace_bytes
        self._made = made

    def product(self, product: Product, epilogue: Epilogue = Epilogue.NONE) -> Callable[..., None]:
        """Plan a product; what is returned is the backend's `run` but for the plan."""
        plan = self._backend.plan(product, self._room, epilogue)
        self._made.callback(self._backend.drop, plan)
        self.texts.append(self._backend.describe(plan))
        return partial(self._backend.run, plan)

    def need(self, floats: tuple[int, int]) -> None:
        """Raise ConfigError if the workspace does not hold a float32 matrix of this shape."""
        nbytes = 4 * floats[0] * floats[1]
        if nbytes > self._room:
            raise ConfigError(
                f"{self.layer.as_call()} sums in {readable(nbytes)}, and the workspace has "
                f"{readable(self._room)}: give the Blas a larger one (blas.resize({nbytes}))"
            )
