"""Linear layers over a backend: the steps of each, planned once by the routes it is given."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple

from lowgraph.blas import route_library, route_own, route_separate
from lowgraph.blas.backend import Backend
from lowgraph.blas.layer import Form, Layer
from lowgraph.blas.routes import Chooser, Route, Routes
from lowgraph.blas.steps import Maker, Step
from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import Slice

__all__ = ["LayerPlan", "Layers"]

_FIRST = {Route.LIBRARY: route_library.first, Route.SEPARATE: route_separate.first}
_WEIGHT = {Route.LIBRARY: route_library.weight, Route.SEPARATE: route_separate.weight}


class LayerPlan(NamedTuple):
    """What a call runs; `made` frees what it holds.

    steps: on one stream, in order. apart: backward, on two streams: dx, and what else there is,
    unless it is one launch.
    """

    steps: tuple[Step, ...]
    apart: tuple[Step, ...]
    text: str
    made: ExitStack


class Layers:
    """Plans of layers, by the routes that `choose` gives them."""

    def __init__(self, backend: Backend, name: str, library: Library, choose: Chooser) -> None:
        """name: the backend's, as `choose` knows it."""
        self._backend = backend
        self._name = name
        self._library = library
        self._choose = choose

    def routes(self, layer: Layer) -> Routes:
        """The ways that a layer is computed."""
        return self._choose(layer, self._name)

    def plan(self, layer: Layer, workspace_bytes: int) -> LayerPlan:
        """Load the kernels and plan the products; outside windows.

        Raises ConfigError where the route does not take the layer, LibraryError where cublasLt does
        not.
        """
        first, weight = self.routes(layer)
        with ExitStack() as made:
            maker = Maker(self._backend, self._library, layer, workspace_bytes, made)
            steps: tuple[Step, ...]
            apart: tuple[Step, ...]
            text = first.value
            if layer.form.has_norm and first is not Route.OWN:
                raise ConfigError(
                    f"route {first.name} has no form {layer.form.value!r}: where blas.takes_norm "
                    "says no, launch the product, and the norm behind it"
                )
            if not layer.form.sums_parameters:
                make = route_own.whole if first is Route.OWN else _FIRST[first]
                steps = apart = (make(maker),)
            elif first is weight is Route.OWN:
                steps, apart = (route_own.whole(maker),), route_own.apart(maker)
            elif Route.OWN in (first, weight):
                raise ConfigError("routes: OWN computes both gradients at once, or none")
            elif layer.input_gradient or layer.form is Form.BACKWARD_RELU:
                steps = apart = _FIRST[first](maker), _WEIGHT[weight](maker)
                text = f"dx {first.value}, dweight {weight.value}"
            else:
                steps = apart = (_WEIGHT[weight](maker),)
                text = f"dweight {weight.value}"
            return LayerPlan(steps, apart, "; ".join([text, *maker.texts]), made.pop_all())

    def run(
        self,
        plan: LayerPlan,
        stream: int,
        workspace: Slice,
        *tensors: Any,
        side: tuple[int, Slice] | None = None,
    ) -> None:
        """Enqueue a call on `stream`; with a side stream the gradients of the parameters there.

        side: stream and workspace, of a backward call.
        """
        if side is None:
            for step in plan.steps:
                step(stream, workspace, tensors)
            return
        first, *rest = plan.apart
        first(stream, workspace, tensors)
        for step in rest:
            step(*side, tensors)

    def describe(self, plan: LayerPlan) -> str:
        """Its routes, and how its products are run."""
        return plan.text

    def drop(self, plan: LayerPlan) -> None:
        """Free what the plan holds; it is not run again."""
        plan.made.close()
