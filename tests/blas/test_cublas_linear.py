"""Layers by cublasLt's epilogues over the stand-in: what is set for each, and what is refused."""

from __future__ import annotations

import pytest

from lowgraph.blas import Form, Layer, Route
from lowgraph.capture import Window
from lowgraph.errors import LibraryError, LibraryNotReady
from lowgraph.precision import Precision
from tests.blas.bench import Bench
from tests.blas.fake_cublas import FakeCublasLt
from tests.blas.fake_epilogues import Epilogue
from tests.blas.layers import LayerCase, blas_with

BF16 = Precision.BF16
SIZES = [(33, 40, 72), (257, 64, 24), (1, 8, 16)]
# By form: the epilogues of its products.
EPILOGUES = {
    Form.BIAS: [Epilogue.BIAS],
    Form.GELU: [Epilogue.GELU_AUX_BIAS],
    Form.RESIDUAL: [Epilogue.BIAS],
    Form.BACKWARD: [Epilogue.BGRADB],
    Form.BACKWARD_GELU: [Epilogue.DGELU, Epilogue.BGRADB],
}
forms = pytest.mark.parametrize("form", list(EPILOGUES), ids=lambda form: form.value)


# ReLU, and the slope of GELU but in bfloat16, are refused (test_linear.py).
TAKEN = [
    (form, precision) for form in EPILOGUES for precision in Precision
    if form is not Form.BACKWARD_GELU or precision is Precision.BF16
]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("form", "precision"), TAKEN, ids=str)
def test_a_layer_is_what_its_formula_says(
    faked: Bench, form: Form, precision: Precision, seed: int
) -> None:
    """Another bias and other memory each time: addresses are set anew for every call."""
    with blas_with(faked, Route.LIBRARY) as blas:
        for size in [*SIZES, *SIZES]:
            case = LayerCase(faked, Layer(form, *size, precision), seed)
            case.run(blas, faked.rig.stream)
            case.check(3)  # the stand-in rounds after the product, and before GELU


@pytest.mark.parametrize(
    "routes", [(Route.LIBRARY, Route.SEPARATE), (Route.SEPARATE, Route.LIBRARY)]
)
@pytest.mark.parametrize("form", [Form.BACKWARD, Form.BACKWARD_GELU], ids=lambda form: form.value)
def test_gradients_may_take_two_routes(
    faked: Bench, form: Form, routes: tuple[Route, Route]
) -> None:
    with blas_with(faked, *routes) as blas:
        case = LayerCase(faked, Layer(form, 33, 40, 72, BF16))
        case.run(blas, faked.rig.stream)
        case.check(3)
        text = blas.algorithms()[case.layer]
        assert text.startswith(f"dx {routes[0].value}, dweight {routes[1].value}; ")
        assert ("BGRADB" in text) == (routes[1] is Route.LIBRARY)


@forms
def test_a_prepared_layer_is_one_library_call_a_product(
    faked: Bench, fake: FakeCublasLt, form: Form
) -> None:
    with blas_with(faked, Route.LIBRARY) as blas:
        case = LayerCase(faked, Layer(form, 33, 40, 72, BF16))
        blas.prepare([case.layer])
        before, alive = len(fake.calls), len(fake.alive)
        for _ in range(2):
            case.run(blas, faked.rig.stream)
        assert fake.calls[before:] == ["matmul"] * 2 * (2 if form.is_backward else 1)
        assert len(fake.alive) == alive, "nothing is made for a call"
        for epilogue in EPILOGUES[form]:
            assert f"epilogue {epilogue.name}, algorithm" in blas.algorithms()[case.layer]


def test_without_a_bias_the_gradients_product_is_plain(faked: Bench) -> None:
    with blas_with(faked, Route.LIBRARY) as blas:
        case = LayerCase(faked, Layer(Form.BACKWARD, 33, 40, 72, BF16, biased=False))
        case.run(blas, faked.rig.stream)
        case.check(3)
        assert "epilogue" not in blas.algorithms()[case.layer]


@forms
def test_a_graph_keeps_what_the_epilogue_uses(faked: Bench, form: Form) -> None:
    """The pool knows a graph's slices by the addresses that its kernels were given."""
    with blas_with(faked, Route.LIBRARY) as blas:
        case = LayerCase(faked, Layer(form, 33, 40, 72, BF16))
        blas.prepare([case.layer])
        case.run(blas, faked.rig.stream)
        eager = case.bits()
        step = faked.step(lambda stream: case.run(blas, stream), "layer")
        step.prime()
        step.capture()
        case.poison()
        step.replay()
        assert case.bits() == eager
        for role, piece in case.pieces.items():
            assert faked.pool.holders(piece) == ["layer"], role
        step.close()


@forms
def test_an_epilogue_that_the_library_lacks_is_an_error_of_planning(
    faked: Bench, fake: FakeCublasLt, form: Form
) -> None:
    fake.lacks = {EPILOGUES[form][-1]}
    name = EPILOGUES[form][-1].name
    alive = len(fake.alive)
    message = (
        rf"AlgoGetHeuristic\(m=\d+, n=\d+, k=\d+, epilogue={name}\) failed: NOT_SUPPORTED \(15\) "
        rf"{name}; if this version has no such epilogue .* the route SEPARATE"
    )
    with blas_with(faked, Route.LIBRARY) as blas:
        held = len(fake.alive)
        with pytest.raises(LibraryError, match=message):
            blas.prepare([Layer(form, 33, 40, 72, BF16)])
        assert len(fake.alive) == held, "nothing of it is left"
        assert "matmul" not in fake.calls and blas.algorithms() == {}
    assert len(fake.alive) == alive


def test_in_a_window_an_unseen_layer_never_reaches_the_library(
    faked: Bench, fake: FakeCublasLt
) -> None:
    with blas_with(faked, Route.LIBRARY) as blas:
        case = LayerCase(faked, Layer(Form.GELU, 33, 40, 72, BF16))
        calls = len(fake.calls)
        with (
            pytest.raises(LibraryNotReady, match=r"Layer\(Form.GELU, 33, 40, 72.* was not seen"),
            Window(faked.rig.stream, pool=faked.pool, library=faked.rig.library),
        ):
            case.run(blas, faked.rig.stream)
        assert len(fake.calls) == calls
