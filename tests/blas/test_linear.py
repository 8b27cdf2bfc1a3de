"""Linear layers of a Blas against float64: every form, route and precision, eager and captured."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from lowgraph import counters
from lowgraph.blas import Form, Layer, Route
from lowgraph.blas.routes import choose
from lowgraph.capture import Window
from lowgraph.driver.launch import LaunchConfig
from lowgraph.errors import ConfigError, LibraryNotReady
from lowgraph.kernels import Kernel, launch
from lowgraph.precision import Precision
from tests.blas.bench import Bench
from tests.blas.layers import LayerCase, blas_with

pytestmark = pytest.mark.both

BF16, TF32 = Precision.BF16, Precision.TF32
FORMS = [form for form in Form if not form.has_norm]  # those are in test_linear_norm.py
RELU = Form.RELU, Form.BACKWARD_RELU
# rows, inputs, outputs. Of whole 16 bytes: one row, and below and past a tile of gemm_mma.cu.
WHOLE = [(1, 8, 16), (33, 40, 72), (257, 64, 24)]
ODD = [(1, 1, 1), (31, 33, 5), (65, 7, 130), (31, 36, 5)]


def ways(
    bench: Bench, precision: Precision, size: tuple[int, int, int], form: Form = Form.BIAS
) -> list[list[Route]]:
    """The routes that the device has for a layer."""
    found = [[Route.SEPARATE]]
    whole = size[1] % 8 == size[2] % 8 == 0
    relu, gelu = form in RELU, form in (Form.GELU, Form.BACKWARD_GELU)
    if precision is BF16 and whole and not relu:
        found.append([Route.OWN])
    if precision is TF32 and size[1] % 4 == 0 and not gelu and form is not Form.RESIDUAL:
        found.append([Route.OWN])
    sloped = form is Form.BACKWARD_GELU and precision is not BF16
    if bench.blas.backend == "cublas" and whole and not sloped and not relu:
        found += [[Route.LIBRARY], [Route.LIBRARY, Route.SEPARATE], [Route.SEPARATE, Route.LIBRARY]]
    return found


def check(case: LayerCase, routes: list[Route]) -> None:
    """Compare a result of these routes, which may round the product and what comes after it."""
    case.check(1 if routes == [Route.OWN] else 2, library=Route.LIBRARY in routes)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("precision", Precision, ids=str)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.value)
def test_a_layer_is_what_its_formula_says(
    bench: Bench, form: Form, precision: Precision, seed: int
) -> None:
    for size in WHOLE + ODD:
        for routes in ways(bench, precision, size, form):
            case = LayerCase(bench, Layer(form, *size, precision), seed)
            with blas_with(bench, *routes) as blas:
                case.run(blas, bench.rig.stream)
                check(case, routes)


@pytest.mark.parametrize("precision", [BF16, TF32], ids=str)
@pytest.mark.parametrize("form", [form for form in FORMS if form.is_backward], ids=str)
def test_a_gradient_that_nobody_wants_is_not_computed(
    bench: Bench, form: Form, precision: Precision
) -> None:
    for wanted in ({"biased": False}, {"input_gradient": False}):
        for routes in ways(bench, precision, WHOLE[1], form):
            case = LayerCase(bench, Layer(form, *WHOLE[1], precision, **wanted))
            with blas_with(bench, *routes) as blas:
                case.run(blas, bench.rig.stream)
                check(case, routes)
                assert list(blas.algorithms()) == [case.layer]


@pytest.mark.parametrize("precision", Precision, ids=str)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.value)
def test_the_same_bits_twice_and_replayed(bench: Bench, form: Form, precision: Precision) -> None:
    for routes in ways(bench, precision, (257, 64, 24), form):
        case = LayerCase(bench, Layer(form, 257, 64, 24, precision))
        with blas_with(bench, *routes) as blas:
            blas.prepare([case.layer])
            case.run(blas, bench.rig.stream)
            eager = case.bits()
            case.poison()
            case.run(blas, bench.rig.stream)
            assert case.bits() == eager
            step = bench.step(partial(case.run, blas), case.layer.as_call())
            step.prime()
            step.capture()
            assert step.report().nodes_by_type.keys() == {"kernel"}
            case.poison()
            step.replay()
            assert case.bits() == eager
            step.close()


@pytest.mark.parametrize("form", [Form.BACKWARD, Form.BACKWARD_GELU], ids=lambda form: form.value)
@pytest.mark.parametrize("precision", Precision, ids=str)
def test_a_side_stream_changes_no_bit(bench: Bench, form: Form, precision: Precision) -> None:
    size, main = (257, 64, 24), bench.rig.stream
    for routes in ways(bench, precision, size, form):
        case = LayerCase(bench, Layer(form, *size, precision))
        with blas_with(bench, *routes) as blas:
            case.run(blas, main)
            alone = case.bits()
            case.poison()
            blas.sides.make(1)
            case.run(blas, main, side=blas.sides.fork(main, 0))
            blas.sides.join(main, 0)
            assert case.bits() == alone


@pytest.mark.parametrize("form", [Form.BACKWARD, Form.BACKWARD_GELU], ids=lambda form: form.value)
def test_beside_a_side_stream_dx_waits_for_no_other_gradient(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    """Route OWN, which else computes all in one launch, as with the same stream twice."""
    case, main = LayerCase(bench, Layer(form, 257, 64, 24, BF16)), bench.rig.stream
    seen: list[tuple[str, int]] = []

    def watch(kernel: Kernel, values: object, config: LaunchConfig, args: object) -> None:
        seen.append((kernel.name, int(config.raw.hStream)))

    with blas_with(bench, Route.OWN) as blas:
        blas.prepare([case.layer])
        blas.sides.make(1)
        side = blas.sides.fork(main, 0)
        monkeypatch.setattr(launch, "observer", watch)
        case.run(blas, main, side=side)
        case.run(blas, main, side=main)
    suffix = "" if form is Form.BACKWARD else "_gelu"
    both, reduce = f"linear_mma_backward{suffix}", "linear_mma_reduce"
    assert seen == [(both, main), (both, side), (reduce, side), (both, main), (reduce, main)]


def test_the_table_takes_each_layer_as_a_model_has_it(bench: Bench) -> None:
    """With the Blas of a run, whose routes are the table's."""
    for form in FORMS:
        for precision in Precision:
            case = LayerCase(bench, Layer(form, 33, 40, 72, precision))
            case.run(bench.blas, bench.rig.stream)
            case.check(2)
    assert len(bench.blas.algorithms()) == len(FORMS) * len(Precision)


def test_a_prepared_layer_allocates_and_waits_for_nothing(bench: Bench) -> None:
    for form in FORMS:
        case = LayerCase(bench, Layer(form, 33, 40, 72, BF16))
        bench.blas.prepare([case.layer])
        live = bench.pool.stats().live
        with counters.scope() as counts:
            case.run(bench.blas, bench.rig.stream)
        assert set(counts.by_name) <= {"cuLaunchKernelEx"}
        assert bench.pool.stats().live == live


def test_an_unseen_layer_in_a_window_is_refused_with_the_call_to_make(bench: Bench) -> None:
    case = LayerCase(bench, Layer(Form.BACKWARD, 33, 40, 72, BF16, biased=False))
    call = r"Layer\(Form.BACKWARD, 33, 40, 72, Precision.BF16, biased=False\)"
    assert eval(case.layer.as_call()) == case.layer, "it can be pasted"
    with (
        pytest.raises(LibraryNotReady, match=rf"{call} was not seen .*prepare\(\[{call}\]\)"),
        Window(bench.rig.stream, pool=bench.pool, library=bench.rig.library),
    ):
        case.run(bench.blas, bench.rig.stream)
    bench.blas.prepare([case.layer])
    window = Window(bench.rig.stream, pool=bench.pool, library=bench.rig.library)
    with window:
        case.run(bench.blas, bench.rig.stream)
    window.discard()


def test_what_does_not_fit_is_named(bench: Bench) -> None:
    case = LayerCase(bench, Layer(Form.BIAS, 4, 8, 16, BF16))
    wide, blas, stream = bench.put("wide", np.ones((4, 16))), bench.blas, bench.rig.stream
    y, x, weight, bias = (case.pieces[role] for role in ("y", "x", "weight", "bias"))
    with pytest.raises(ConfigError, match=r"linear: bias 'wide' is float32, not bfloat16"):
        blas.linear(stream, y, x, weight, wide, BF16)
    with pytest.raises(ConfigError, match="linear: y 'bias' has 32 bytes, its sizes need 128"):
        blas.linear(stream, bias, x, weight, bias, BF16)
    with pytest.raises(ConfigError, match=r"must be matrices, their shapes are \(16,\)"):
        blas.linear(stream, y, bias, weight, bias, BF16)
    odd = bench.pool.take("odd", (40,), np.uint16).part(1, (16,))
    with pytest.raises(ConfigError, match=r"linear: bias 'odd' begins at .*slice of its own"):
        blas.linear(stream, y, x, weight, odd, BF16)
    with pytest.raises(ConfigError, match=r"out 'wide' is residual itself.* a slice of its own"):
        blas.linear_residual(stream, wide, x, weight, bias, wide, BF16)


def test_layers_that_cannot_be_are_refused_by_prepare(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="rows=0, inputs=8, outputs=8: each must be at least 1"):
        bench.blas.prepare([Layer(Form.BIAS, 0, 8, 8)])
    with pytest.raises(ConfigError, match="for a product alone call gemm"):
        bench.blas.prepare([Layer(Form.GELU, 8, 8, 8, biased=False)])
    with pytest.raises(ConfigError, match="'relu' computes no gradient: leave input_gradient out"):
        bench.blas.prepare([Layer(Form.RELU, 8, 8, 8, input_gradient=False)])


def test_a_route_that_does_not_take_a_layer_says_so(bench: Bench) -> None:
    with (
        blas_with(bench, Route.OWN) as blas,
        pytest.raises(ConfigError, match="OWN has no form 'bias' in fp32: take SEPARATE"),
    ):
        blas.prepare([Layer(Form.BIAS, 8, 8, 8)])
    for form, precision in ((Form.RELU, BF16), (Form.GELU, TF32)):
        with (
            blas_with(bench, Route.OWN) as blas,
            pytest.raises(ConfigError, match=f"no form '{form.value}' in {precision}: take"),
        ):
            blas.prepare([Layer(form, 8, 8, 8, precision)])
    for form in RELU:
        with (
            blas_with(bench, Route.LIBRARY) as blas,
            pytest.raises(ConfigError, match=f"LIBRARY has no form '{form.value}': take SEPARATE"),
        ):
            blas.prepare([Layer(form, 8, 8, 8, BF16)])
    with (
        blas_with(bench, Route.OWN) as blas,
        pytest.raises(ConfigError, match=r"inputs must be a multiple of 4 .* pad them"),
    ):
        blas.prepare([Layer(Form.RELU, 8, 6, 8, TF32)])
    with (
        blas_with(bench, Route.OWN, Route.SEPARATE) as blas,
        pytest.raises(ConfigError, match="OWN computes both gradients at once, or none"),
    ):
        blas.prepare([Layer(Form.BACKWARD, 8, 8, 8, BF16)])
    with (
        blas_with(bench, Route.LIBRARY) as blas,
        pytest.raises(ConfigError, match=r"slope of GELU is for bfloat16, .* take SEPARATE"),
    ):
        blas.prepare([Layer(Form.BACKWARD_GELU, 8, 8, 8)])
    with blas_with(bench, Route.OWN) as blas:
        blas.resize(1 << 10)
        with pytest.raises(ConfigError, match=r"workspace has 1.00 KiB: .*blas.resize\(\d+\)"):
            blas.prepare([Layer(Form.BACKWARD, 300, 64, 64, BF16)])


def test_the_table_depends_on_sizes_alone() -> None:
    def routes(backend: str, *size: int, precision: Precision = BF16) -> dict[Form, Route]:
        chosen = {form: choose(Layer(form, *size, precision), backend) for form in FORMS}
        assert all(first is weight for first, weight in chosen.values())
        return {form: ways.first for form, ways in chosen.items()}

    def own_in_tf32(*size: int) -> list[Form]:
        chosen = routes("cublas", *size, precision=TF32)
        assert set(chosen.values()) <= {Route.OWN, Route.SEPARATE}
        return [form for form, way in chosen.items() if way is Route.OWN]

    narrow = routes("cublas", 2048, 128, 128)
    assert {narrow.pop(form) for form in RELU} == {Route.SEPARATE}
    backward = {narrow.pop(form) for form in (Form.BACKWARD, Form.BACKWARD_GELU)}
    assert backward == {Route.LIBRARY}, "whose bias is summed apart, for two layers a launch"
    assert set(narrow.values()) == {Route.OWN}
    assert set(routes("cublas", 2048, 128, 512).values()) == set(Route)
    assert Route.OWN not in routes("cublas", 4096, 256, 1024).values()
    for sizes in (("cublas", 2048, 128, 508), ("kernel", 2048, 128, 512)):
        assert set(routes(*sizes).values()) == {Route.SEPARATE}, "rows of no 16 bytes, the host"
    small = [Form.BIAS, Form.RELU, Form.BACKWARD, Form.BACKWARD_RELU]
    for size in ((128, 256, 256), (128, 256, 10), (512, 128, 256), (1, 4, 1)):
        assert own_in_tf32(*size) == small
    for size in ((128, 258, 256), (257, 256, 256)):
        assert own_in_tf32(*size) == [], "no quads, many tiles"
    for size in ((2048, 32, 128), (513, 4, 4), (4, 516, 4), (4, 4, 516)):
        assert own_in_tf32(*size) == [Form.BIAS], "many tiles or a long sum, but little to do"
    assert set(routes("kernel", 128, 256, 256, precision=TF32).values()) == {Route.SEPARATE}
    for size in ((128, 256, 256), (4096, 256, 1024)):
        wide = routes("cublas", *size, precision=Precision.FP32)
        assert set(wide.values()) == {Route.SEPARATE}
