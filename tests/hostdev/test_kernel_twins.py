"""Kernels with a GPU branch and a portable twin: whichever runs here, the result is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.hostdev.narrow_floats import BFLOAT16
from tests.support.process import ROOT
from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "twins.cu"


@pytest.mark.parametrize("n", [1, 33, 257])
def test_inline_ptx(rig: Rig, n: int) -> None:
    a, b, c = np.random.default_rng(n).integers(0, 1 << 32, (3, n)).astype(np.uint32)
    y = rig.empty(n, np.uint32)
    kernel = rig.library.kernel(KERNELS, "select_words")
    kernel(rig.stream, -(-n // 64), 64, y, rig.put(a), rig.put(b), rig.put(c), n)
    np.testing.assert_array_equal(rig.get(y), (a & b) | (~a & c))


@pytest.mark.parametrize(("depth", "columns"), [(16, 8), (48, 24), (256, 40)])
@pytest.mark.parametrize("exact", [True, False])
def test_tensor_cores(rig: Rig, depth: int, columns: int, exact: bool) -> None:
    rng = np.random.default_rng(depth)
    draw = (lambda *s: rng.integers(-8, 9, s)) if exact else (lambda *s: rng.standard_normal(s))
    left, right = BFLOAT16.bits(draw(16, depth)), BFLOAT16.bits(draw(depth, columns))
    y = rig.empty((16, columns))
    kernel = rig.library.kernel(KERNELS, "tensor_product")
    kernel(rig.stream, columns // 8, 32, y, rig.put(left), rig.put(right), depth, columns)
    a, b = BFLOAT16.wide(left), BFLOAT16.wide(right)
    # Whole numbers are summed exactly in any order. Else: tensor cores cut a sum's low bits off, a
    # unit of the largest term and not half of one, at each of the depth additions.
    bound = 0 if exact else depth * 2.0**-22 * (np.abs(a) @ np.abs(b)).max()
    np.testing.assert_allclose(rig.get(y), a @ b, rtol=0, atol=bound)


@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_asynchronous_copies(rig: Rig, tiles: int) -> None:
    x = np.random.default_rng(tiles).integers(-99, 99, (tiles, 128, 4)).astype(np.float32)
    y = rig.empty((128, 4))
    rig.library.kernel(KERNELS, "streamed_sum")(rig.stream, 1, 128, y, rig.put(x), tiles)
    wanted = (np.arange(tiles)[:, None, None] * x[:, ::-1]).sum(0)
    np.testing.assert_array_equal(rig.get(y), wanted)


@pytest.mark.host
@pytest.mark.parametrize("name", ["ptx", "mma", "copy"])
def test_examples_of_the_documentation_are_these_kernels(name: str) -> None:
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    part = page.partition(f"<!-- twin-{name} -->")[2].partition(f"<!-- /twin-{name} -->")[0]
    code = part.partition("```cuda\n")[2].partition("```")[0]
    assert code
    assert code in KERNELS.read_text(encoding="utf-8")
