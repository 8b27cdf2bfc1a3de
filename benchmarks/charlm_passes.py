"""Passes of a charlm by side branches and routes: python benchmarks/charlm_passes.py [--only ...].

Microseconds of forward, loss and backward as one graph, in bfloat16 at the sizes of the presets
tiny and small, from events around replays that follow one another: with the gap between two
launches. Right is what the tests of the models say: here nothing is compared.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator

from charlm_kernels import PRESETS, Given
from measure import spread, time_parts
from mma import Bench, Row

from lowgraph import driver
from lowgraph.blas import Blas, Layer, Route, Routes
from lowgraph.blas.routes import Chooser, choose
from lowgraph.capture import GraphStep
from lowgraph.driver import event
from lowgraph.models import CharLM, CharLMConfig
from lowgraph.models.parameters import initial_values
from lowgraph.precision import Precision


class Timed(Bench):
    """It times replays too."""

    def __init__(self, device: driver.Device, repeats: int, rounds: int) -> None:
        super().__init__(device, repeats, rounds)
        self.device = device

    def time_calls(self, act: Callable[[], object]) -> dict[str, float]:
        """Microseconds of one of `repeats` calls."""
        begin, end = event.create(timing=True), event.create(timing=True)
        found = []
        for _ in range(self.rounds + 3):
            event.record(begin, self.stream)
            for _ in range(self.repeats):
                act()
            event.record(end, self.stream)
            driver.stream.synchronize(self.stream)
            found.append(event.elapsed_ms(begin, end) * 1e-3 / self.repeats)
        event.destroy(begin)
        event.destroy(end)
        return spread(found[3:])


def _norms_apart(layer: Layer, backend: str) -> Routes:
    """The table's, but for a norm in the launch of a product."""
    apart = Routes(Route.SEPARATE, Route.SEPARATE)
    return apart if layer.form.has_norm else choose(layer, backend)


def _one_way(layer: Layer, backend: str, route: Route) -> Routes:
    """That route where cuBLAS is, for there alone are all of them; a norm is where the table is."""
    if layer.form.has_norm:
        return choose(layer, backend)
    return Routes(route, route) if backend == "cublas" else choose(layer, backend)


def _half(layer: Layer, backend: str, *, backward: bool) -> Routes:
    """The library's way in one direction, the table's in the other."""
    if layer.form.is_backward is backward:
        return _one_way(layer, backend, Route.LIBRARY)
    return choose(layer, backend)


ROUTES: dict[str, Chooser] = {
    "the table's": choose,
    "library": lambda layer, backend: _one_way(layer, backend, Route.LIBRARY),
    "library forward": lambda layer, backend: _half(layer, backend, backward=False),
    "library backward": lambda layer, backend: _half(layer, backend, backward=True),
    "own": lambda layer, backend: _one_way(layer, backend, Route.OWN),
    "the table's, norms apart": _norms_apart,
}


def passes(bench: Timed, name: str) -> Iterator[Row]:
    """A pass with each number of side branches and each way of linear layers."""
    batch, length, width, vocabulary, layers = PRESETS[name]
    heads = width // 32
    config = CharLMConfig(length, width, heads, layers, vocabulary=vocabulary)
    given = Given(bench, name)
    tokens = given.put(given.tokens_values.reshape(batch, length))
    for way, branches in itertools.product(ROUTES, (0, 1, 2)):
        stream, pool = bench.stream, bench.pool
        blas = Blas(bench.device, bench.library, stream, pool, routes=ROUTES[way])
        made = {"library": bench.library, "blas": blas, "pool": pool, "stream": stream}
        model = CharLM(config, **made, precision=Precision.BF16, branches=branches)
        model.load_state(initial_values(config, 0), stream)

        def body(stream: int) -> None:
            trace = model.forward(stream, tokens)  # noqa: B023
            loss = model.loss_and_gradient(stream, trace, tokens)  # noqa: B023
            model.backward(stream, trace)  # noqa: B023
            pool.give_back(loss)  # noqa: B023

        step = GraphStep(
            body, device=bench.device, pool=pool, stream=stream, library=bench.library, label=name
        )
        step()
        step()
        us = bench.time_calls(step)
        yield {"case": name, "what": "forward, loss and backward", "routes": way,
               "branches": branches, "us": us}  # fmt: skip
        step.close()
        blas.close()
        for arena in (model.parameters, model.gradients, model.shadow):
            if arena is not None:
                arena.close()


def main() -> int:
    """Run the command line."""
    return time_parts(__doc__ or "", ("tiny", "small"), Timed, passes, rounds=10)


if __name__ == "__main__":
    sys.exit(main())
