"""Layers with the norm that follows them in one launch: the route OWN, in bfloat16."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from lowgraph import counters
from lowgraph.blas import Form, Layer, Route
from lowgraph.blas.routes import choose
from lowgraph.errors import ConfigError
from lowgraph.precision import Precision
from tests.blas.bench import Bench
from tests.blas.layers import LayerCase, blas_with

pytestmark = pytest.mark.both

BF16 = Precision.BF16
FORMS = [form for form in Form if form.has_norm]
each = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.value)


def layer_of(form: Form, rows: int, depth: int, width: int = 128, **given: Any) -> Layer:
    """depth: the columns that are summed over. width: the norm's."""
    sizes = (width, depth) if form.is_backward else (depth, width)
    return Layer(form, rows, *sizes, **{"precision": BF16, **given})


@each
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("size", [(1, 8), (31, 40), (257, 72)], ids=str)
def test_a_layer_is_what_its_formula_says(
    bench: Bench, form: Form, size: tuple[int, int], seed: int
) -> None:
    case = LayerCase(bench, layer_of(form, *size), seed)
    with blas_with(bench, Route.OWN) as blas:
        case.run(blas, bench.rig.stream)
        case.check()
        assert list(blas.algorithms().values()) == ["own"]


@pytest.mark.parametrize("rows", [1, 45])
def test_a_backward_norm_adds_to_dx_where_asked(bench: Bench, rows: int) -> None:
    case = LayerCase(bench, layer_of(Form.BACKWARD_NORM, rows, 24, accumulate=True))
    with blas_with(bench, Route.OWN) as blas:
        case.run(blas, bench.rig.stream)
        case.check()


def test_the_sums_of_a_norm_may_stand_between_others(bench: Bench) -> None:
    """Whose columns are not touched: three chunks of rows 640 columns apart."""
    alone, among = (
        LayerCase(bench, layer_of(Form.BACKWARD_NORM, 45, 24, columns=columns))
        for columns in (0, 640)
    )
    among.pieces |= {role: alone.pieces[role] for role in alone.pieces.keys() - alone.outputs}
    with blas_with(bench, Route.OWN) as blas:
        for case in (alone, among):
            case.run(blas, bench.rig.stream)
    want = np.frombuffer(alone.bits()["partial"], np.uint32).reshape(3, 256)
    got = np.full((3, 640), 0xFFFFFFFF, np.uint32)
    flat = np.frombuffer(among.bits()["partial"], np.uint32)
    assert flat.size == 2 * 640 + 256
    got.reshape(-1)[: flat.size] = flat
    np.testing.assert_array_equal(got[:, :256], want)
    assert (got[:, 256:] == 0xFFFFFFFF).all()


def test_flags_of_a_norm_are_refused_where_there_is_none(bench: Bench) -> None:
    for given in ({"columns": 512}, {"accumulate": True}):
        layer = Layer(Form.NORM, 8, 8, 128, BF16, **given)
        refused(bench, Route.OWN, layer, "'norm' leaves no norm's sums .* leave columns and")
    for columns in (-5, 255):
        layer = layer_of(Form.BACKWARD_NORM, 8, 8, columns=columns)
        match = rf"are 256 a row, and columns is {columns}: give those of the whole"
        refused(bench, Route.OWN, layer, match)
    layer = layer_of(Form.BACKWARD_NORM, 8, 16, columns=512, accumulate=True)
    assert eval(layer.as_call()) == layer.plain() == layer, "it can be pasted"


@each
def test_the_same_bits_twice_and_replayed_in_one_launch(bench: Bench, form: Form) -> None:
    case = LayerCase(bench, layer_of(form, 45, 136))
    with blas_with(bench, Route.OWN) as blas:
        blas.prepare([case.layer])
        case.poison()
        with counters.scope() as counts:
            case.run(blas, bench.rig.stream)
        assert dict(counts.by_name) == {"cuLaunchKernelEx": 1}
        eager = case.bits()
        case.poison()
        case.run(blas, bench.rig.stream)
        assert case.bits() == eager
        step = bench.step(partial(case.run, blas), case.layer.as_call())
        step.prime()
        step.capture()
        assert step.report().nodes_by_type == {"kernel": 1}
        case.poison()
        step.replay()
        assert case.bits() == eager
        step.close()


@each
def test_where_the_table_says_no_the_caller_launches_the_norm(form: Form) -> None:
    def route(*size: int, backend: str = "cublas", **given: Any) -> Route:
        return choose(layer_of(form, *size, **given), backend).first

    for size in ((2048, 512), (2048, 384), (1, 8), (4096, 256), (4096, 8)):
        assert route(*size) is Route.OWN
    for size in ((2048, 520), (4097, 8), (2048, 12), (2048, 128, 256), (2048, 128, 64)):
        assert route(*size) is Route.SEPARATE, size
    assert route(2048, 512, backend="kernel") is Route.SEPARATE
    for precision in (Precision.FP32, Precision.TF32):
        assert route(128, 128, precision=precision) is Route.SEPARATE


@each
def test_a_blas_tells_whether_it_takes_the_norm(bench: Bench, form: Form) -> None:
    layer = layer_of(form, 33, 40)
    for route in Route:
        with blas_with(bench, route) as blas:
            assert blas.takes_norm(layer) == (route is Route.OWN)


@each
def test_the_first_of_two_routes_decides_about_the_norm(bench: Bench, form: Form) -> None:
    """A chooser may give two: what is told must be what the call does."""
    layer = layer_of(form, 33, 40)
    with blas_with(bench, Route.OWN, Route.SEPARATE) as blas:
        assert blas.takes_norm(layer)
        blas.prepare([layer])
    with blas_with(bench, Route.SEPARATE, Route.OWN) as blas:
        assert not blas.takes_norm(layer)
        with pytest.raises(ConfigError, match="SEPARATE has no form"):
            blas.prepare([layer])


def refused(bench: Bench, route: Route, layer: Layer, match: str) -> None:
    with blas_with(bench, route) as blas, pytest.raises(ConfigError, match=match):
        blas.prepare([layer])


@each
def test_a_route_or_size_without_a_norm_says_who_launches_it(bench: Bench, form: Form) -> None:
    for route in (Route.SEPARATE, Route.LIBRARY):
        match = f"{route.name} has no form '{form.value}': where blas.takes_norm says no"
        refused(bench, route, layer_of(form, 8, 8), match)
    match = "norms of 128 columns, not of 64: launch the norm behind the product"
    refused(bench, Route.OWN, layer_of(form, 8, 8, 64), match)
    for precision in (Precision.FP32, Precision.TF32):
        layer = layer_of(form, 8, 8, precision=precision)
        match = f"OWN has no form '{form.value}' in {precision}: launch the norm behind"
        refused(bench, Route.OWN, layer, match)
