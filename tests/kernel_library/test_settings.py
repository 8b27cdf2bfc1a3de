"""A user's folders, macros and flags reach the compiler and the cache's key; others are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lowgraph.errors import BuildError, ConfigError, KernelSourceError
from lowgraph.kernels import Library
from tests.support.rig import Rig

FLAGS = {"cuda": ["--use_fast_math"], "host": ["-ffast-math"]}
SCALE = """
#include <scaling.cuh>
extern "C" __global__ void scale(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
"""
OTHER = """
extern "C" __global__ void negate(float* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = -y[i];
}
extern "C" __global__ void twice(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] *= 2.0f; }
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder of two files, the headers of one of them elsewhere."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "scaling.cuh").write_text("#define FACTOR 3.0f\n")
    # The test's own folder in the text: else two tests would share one entry of the cache.
    (tmp_path / "kernels" / "scale.cu").write_text(f"// {tmp_path}\n{SCALE}")
    (tmp_path / "kernels" / "other.cu").write_text(f"// {tmp_path}\n{OTHER}")
    return tmp_path


def scaled(rig: Rig, kernel: Callable[..., None]) -> float:
    x, y = rig.put(np.ones(4, np.float32)), rig.empty(4)
    kernel(rig.stream, 1, 32, y, x, 4)
    return float(rig.get(y)[3])


@pytest.mark.both
def test_a_folder_with_headers_and_flags(rig: Rig, sources: Path) -> None:
    library = Library(rig.device)
    folder = library.folder(sources / "kernels", include_dirs=[sources / "headers"], options=FLAGS)
    assert library.stats.compiles == 0 and set(folder.files) == {"scale", "negate", "twice"}
    scale = folder.kernel("scale")
    assert library.stats.compiles == 1 and scaled(rig, scale) == 3.0
    assert folder.kernel("scale") is scale
    # A header of the folder decides the image, as the source does.
    (sources / "headers" / "scaling.cuh").write_text("#define FACTOR 5.0f\n")
    library.compiled(
        sources / "kernels" / "scale.cu", include_dirs=[sources / "headers"], options=FLAGS
    )
    assert library.stats.compiles == 2


@pytest.mark.both
def test_a_kernels_fast_math_is_not_the_programs(rig: Rig, sources: Path) -> None:
    smallest = np.array([5e-324])
    kernel = Library(rig.device).kernel(
        sources / "kernels" / "scale.cu", "scale",
        include_dirs=[sources / "headers"], options=FLAGS,
    )  # fmt: skip
    assert scaled(rig, kernel) == 3.0
    assert (smallest * 1.0)[0] > 0


@pytest.mark.both
def test_flags_are_the_devices_own_and_part_of_the_key(rig: Rig, sources: Path) -> None:
    library, file = Library(rig.device), sources / "kernels" / "scale.cu"
    with pytest.raises(BuildError, match="no-such-flag"):
        library.kernel(
            file, "scale", include_dirs=[sources / "headers"],
            options={rig.device.kind: ["--no-such-flag"]},
        )  # fmt: skip
    other = {"cuda": "host", "host": "cuda"}[rig.device.kind]
    kernel = library.kernel(
        file, "scale", include_dirs=[sources / "headers"], options={other: ["--no-such-flag"]}
    )
    assert scaled(rig, kernel) == 3.0, "flags of the other kind of device are not looked at"


@pytest.mark.both
def test_names_that_a_folder_has_not_or_has_twice(rig: Rig, sources: Path) -> None:
    folder = Library(rig.device).folder(sources / "kernels")
    with pytest.raises(KernelSourceError, match=r"declares a kernel negat; did you mean negate\?"):
        folder.kernel("negat")
    with pytest.raises(KernelSourceError, match=r"kernel x9; there are negate, scale, twice"):
        folder.kernel("x9")
    (sources / "kernels" / "more.cu").write_text(OTHER)
    twice = Library(rig.device).folder(sources / "kernels")
    with pytest.raises(KernelSourceError, match=r"negate is declared in more\.cu, other\.cu .*ask"):
        twice.kernel("negate")


@pytest.mark.both
def test_a_folder_that_is_none(rig: Rig, tmp_path: Path) -> None:
    library = Library(rig.device)
    with pytest.raises(KernelSourceError, match="none is no folder"):
        library.folder(tmp_path / "none")
    with pytest.raises(KernelSourceError, match=r"holds no \.cu file"):
        library.folder(tmp_path)


@pytest.mark.both
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"options": {"gpu": ["-O3"]}}, "'gpu' is no kind of device; give flags as"),
        ({"options": {"host": "-O3"}}, r"options\['host'\] is '-O3': give a list"),
        ({"options": {"cuda": ["-DX=1"]}}, "'-DX=1' is not seen by the cache of images; use def"),
        ({"options": {"host": ["-I/tmp"]}}, "use include_dirs"),
        ({"include_dirs": ["/no/such/folder"]}, "include_dirs: /no/such/folder is no folder"),
        ({"include_dirs": "headers"}, "include_dirs='headers': give a list of folders"),
    ],
)
def test_settings_that_cannot_be(rig: Rig, given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        rig.library.kernel("fill.cu", "fill", **given)  # type: ignore[arg-type]
