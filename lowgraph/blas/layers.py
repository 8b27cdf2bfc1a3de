"""Linear layers over a backend: the steps of each route, planned once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from lowgraph import ops
from lowgraph.blas.backend import Backend, Product
from lowgraph.blas.layer import Form, Layer
from lowgraph.blas.routes import Chooser, Route
from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import Slice, readable
from lowgraph.precision import Precision

__all__ = ["LayerPlan", "Layers"]

Step = Callable[[int, Slice, tuple[Any, ...]], None]
"""Enqueues a part of a call: stream, workspace, and the tensors of the call."""


class LayerPlan(NamedTuple):
    """What a call runs, in order; `made` frees what it holds."""

    steps: tuple[Step, ...]
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

    def plan(self, layer: Layer, workspace_bytes: int) -> LayerPlan:
        """Load the kernels and plan the products; outside windows.

        Raises ConfigError where the route does not take the layer, LibraryError where cublasLt does
        not.
        """
        first, weight = self._choose(layer, self._name)
        with ExitStack() as made:
            maker = _Maker(self._backend, self._library, layer, workspace_bytes, made)
            if Route.OWN in (first, weight):
                if first is not weight and layer.form.is_backward:
                    raise ConfigError("routes: OWN computes both gradients at once, or none")
                steps, text = [maker.own()], Route.OWN.value
            elif layer.form.is_backward:
                steps = [maker.first(first), maker.weight(weight)]
                text = f"dx {first.value}, dweight {weight.value}"
            else:
                steps, text = [maker.first(first)], first.value
            products = [text, *maker.texts]
            return LayerPlan(tuple(steps), "; ".join(products), made.pop_all())

    def run(self, plan: LayerPlan, stream: int, workspace: Slice, *tensors: Any) -> None:
        """Enqueue a call on `stream`."""
        for step in plan.steps:
            step(stream, workspace, tensors)

    def describe(self, plan: LayerPlan) -> str:
        """Its routes, and how its products are run."""
        return plan.text

    def drop(self, plan: LayerPlan) -> None:
        """Free what the plan holds; it is not run again."""
        plan.made.close()


class _Maker:
    """Makes the steps of one layer. texts: how its products are run."""

    def __init__(
        self,
        backend: Backend,
        library: Library,
        layer: Layer,
        workspace_bytes: int,
        made: ExitStack,
    ) -> None:
        self._backend = backend
        self._library = library
        self._layer = layer
        self._room = workspace_bytes
        self._made = made
        self.texts: list[str] = []

    def own(self) -> Step:
        """The whole call by gemm_mma.cu."""
        layer = self._layer
        if layer.precision is not Precision.BF16:
            raise ConfigError(f"route OWN is for bfloat16, not for {layer.precision}")
        fused = ops.FusedLinear(self._library, *layer[1:4])
        if layer.form.is_backward:
            rows, columns = fused.workspace_shape()
            self._need(4 * rows * columns)
            return _own_backward(fused, layer.form)
        calls: dict[Form, Callable[..., None]] = {
            Form.BIAS: fused.forward_bias,
            Form.GELU: fused.forward_gelu,
            Form.RESIDUAL: fused.forward_residual,
        }
        call = calls[layer.form]
        return lambda stream, workspace, tensors: call(stream, *tensors)

    def first(self, route: Route) -> Step:
        """The product of a forward form, or the one for dx, and what follows it."""
        if route is Route.LIBRARY:
            raise ConfigError("route LIBRARY needs cuBLASLt")
        makers = {
            Form.BIAS: self._bias,
            Form.GELU: self._gelu,
            Form.RESIDUAL: self._residual,
            Form.BACKWARD: self._dx,
            Form.BACKWARD_GELU: self._dhidden,
        }
        return makers[self._layer.form]()

    def weight(self, route: Route) -> Step:
        """The gradients of weight and bias."""
        if route is Route.LIBRARY:
            raise ConfigError("route LIBRARY needs cuBLASLt")
        layer, product = self._layer, self._product(self._layer.of_dweight)
        bias = ops.Bias(self._library, layer.precision)
        sums, columns = ops.Bias.partial_shape(layer.rows, layer.outputs)
        self._need(4 * sums * columns)

        def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
            _, dweight, dbias, dy, x = tensors[:5]
            product(stream, workspace, dweight, dy, x)
            if dbias is not None:
                sizes = layer.rows, layer.outputs
                bias.backward(stream, dbias, workspace.address, dy, *sizes)

        return run

    # ---- plain products, then kernels ----

    def _bias(self) -> Step:
        layer, product = self._layer, self._product(self._layer.of_y)
        bias = ops.Bias(self._library, layer.precision, layer.precision)

        def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
            y, x, weight, add = tensors
            product(stream, workspace, y, x, weight)
            bias.forward(stream, y, add, layer.rows, layer.outputs)

        return run

    def _gelu(self) -> Step:
        layer, product = self._layer, self._product(self._layer.of_y)
        gelu = ops.BiasGelu(self._library, layer.precision, layer.precision)

        def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
            active, hidden, x, weight, bias = tensors
            product(stream, workspace, hidden, x, weight)
            gelu.forward(stream, active, hidden, bias, layer.rows, layer.outputs)

        return run

    def _residual(self) -> Step:
        layer, product = self._layer, self._product(self._layer.of_y)
        joined = ops.Residual(self._library)

        def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
            out, x, weight, bias, residual = tensors
            product(stream, workspace, out, x, weight)
            joined.bias_add(stream, out, residual, out, bias, layer.rows, layer.outputs)

        return run

    def _dx(self) -> Step:
        product = self._product(self._layer.of_dx)

        def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
            dx, _, _, dy, _, weight = tensors
            product(stream, workspace, dx, dy, weight)

        return run

    def _dhidden(self) -> Step:
        layer, product = self._layer, self._product(self._layer.of_dx)
        gelu = ops.BiasGelu(self._library, layer.precision)

        def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
            dhidden, _, _, dy, _, weight, hidden = tensors
            product(stream, workspace, dhidden, dy, weight)
            gelu.backward(stream, dhidden, dhidden, hidden, layer.rows, layer.inputs)

        return run

    def _product(self, product: Product) -> Callable[..., None]:
        plan = self._backend.plan(product, self._room)
        self._made.callback(self._backend.drop, plan)
        self.texts.append(self._backend.describe(plan))
        return partial(self._backend.run, plan)

    def _need(self, nbytes: int) -> None:
        if nbytes > self._room:
            raise ConfigError(
                f"{self._layer.as_call()} sums in {readable(nbytes)}, and the workspace has "
                f"{readable(self._room)}: give the Blas a larger one (blas.resize({nbytes}))"
            )


def _own_backward(fused: ops.FusedLinear, form: Form) -> Step:
    call = fused.backward_gelu if form is Form.BACKWARD_GELU else fused.backward

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dx, dweight, dbias, *read = tensors
        call(stream, dx, dweight, dbias, workspace.address, *read)

    return run
