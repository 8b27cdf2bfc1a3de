"""Kernels of images: with their source, with a parameter list, by their sizes alone; refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import compiler
from lowgraph.driver.images import describe
from lowgraph.errors import ArgTypeError, ConfigError, KernelSourceError, ModuleLoadDuringCapture
from lowgraph.kernels import Kernel, KernelImage, SizedKernel
from tests.capture.micro import Micro
from tests.kernel_library.test_images import PTX, SOURCE, fat_binary
from tests.support.rig import Rig

pytestmark = pytest.mark.both

PARAMS = "float* y, const float* x, float decay, int n"


@pytest.fixture
def image(rig: Rig) -> KernelImage:
    return rig.library.load(rig.library.compiled(SOURCE))


def run(rig: Rig, kernel: Any, decay: Any = 0.5, n: Any = 5) -> list[float]:
    x, y = rig.put(np.arange(5, dtype=np.float32)), rig.put(np.full(5, 2, np.float32))
    kernel(rig.stream, 1, 32, y, x, decay, n)
    return [float(value) for value in rig.get(y)]


def test_an_image_is_loaded_once_and_tells_its_kernels(rig: Rig, image: KernelImage) -> None:
    assert image.names == ("leaky_sum",)
    loads = rig.library.stats.loads
    assert rig.library.load(rig.library.compiled(SOURCE)) is image
    assert rig.library.stats.loads == loads


@pytest.mark.parametrize("given", [{"source": SOURCE}, {"params": PARAMS}])
def test_declared_types_are_those_of_any_kernel(
    rig: Rig, image: KernelImage, given: dict[str, Any]
) -> None:
    kernel = image.kernel("leaky_sum", **given)
    assert image.kernel("leaky_sum", **given) is kernel and isinstance(kernel, Kernel)
    assert [param.name for param in kernel.signature.params] == ["y", "x", "decay", "n"]
    assert run(rig, kernel) == [1, 2, 3, 4, 5]
    with pytest.raises(ArgTypeError, match=r"n wants a value of int, given float 5\.0"):
        run(rig, kernel, n=5.0)


def test_a_file_is_loaded_as_its_bytes_are(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "kernels.image"
    path.write_bytes(rig.library.compiled(SOURCE) + bytes(8))
    kernel = rig.library.load(path).kernel("leaky_sum", params=PARAMS)
    assert run(rig, kernel)[4] == 5
    assert isinstance(kernel, Kernel) and kernel.signature.file == path


def test_sizes_alone_and_the_first_launch_settles_the_types(rig: Rig, tmp_path: Path) -> None:
    image = rig.library.load(rig.library.compiled(SOURCE) + bytes(16))
    kernel = image.kernel("leaky_sum")
    assert isinstance(kernel, SizedKernel) and kernel.sizes == (8, 8, 4, 4)
    with pytest.raises(ArgTypeError, match=r"the call wants 4 arguments \(of 8, 8, 4, 4 bytes\)"):
        kernel(rig.stream, 1, 32, 0, 0)
    with pytest.raises(ArgTypeError, match=r"argument 2 wants 4 bytes of a type that the image do"
                       r"es not tell, given float 0\.5: say it by a NumPy number"):  # fmt: skip
        run(rig, kernel)
    with pytest.raises(ArgTypeError, match=r"argument 2 wants 4 bytes, given float64 0\.5"):
        run(rig, kernel, decay=np.float64(0.5))
    with pytest.raises(ArgTypeError, match=r"argument 3 wants 4 bytes, given an address"):
        run(rig, kernel, decay=np.float32(0.5), n=rig.empty(1))
    assert run(rig, kernel, decay=np.float32(0.5)) == [1, 2, 3, 4, 5]
    assert run(rig, kernel, decay=0.25) == [0.5, 1.5, 2.5, 3.5, 4.5], "a float from now on"
    with pytest.raises(ArgTypeError, match=r"argument 3 wants a value of int32, given float 5\.0"):
        run(rig, kernel, n=5.0)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("float* y, const float* x, int n", "3 parameters, the image's kernel has 4"),
        (
            "float* y, const float* x, double decay, int n",
            "double decay is 8 bytes at 16, the image's is 4 at 16",
        ),
        ("float* y, const struct pair x, float d, int n", "parameter x has type 'pair': only num"),
        ("float* y, 3", "cannot read the parameter '3'"),
    ],
)
def test_declarations_that_do_not_fit(image: KernelImage, params: str, said: str) -> None:
    with pytest.raises(KernelSourceError, match=said):
        image.kernel("leaky_sum", params=params)


def test_source_and_params_are_one_too_many(image: KernelImage) -> None:
    with pytest.raises(ConfigError, match="its source or its params, not both"):
        image.kernel("leaky_sum", source=SOURCE, params=PARAMS)


def test_a_missing_kernel_has_near_names(image: KernelImage) -> None:
    with pytest.raises(KernelSourceError, match=r"has no kernel leaky_sun; did you mean leaky_sum"):
        image.kernel("leaky_sun")
    with pytest.raises(KernelSourceError, match=r"has no kernel axpy; there are leaky_sum$"):
        image.kernel("axpy")


def test_a_struct_by_value_is_refused(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "pair.cu"
    path.write_text(
        "struct pair { double a; double b; };\n"
        'extern "C" __global__ void k(double* y, struct pair p) { y[0] = p.a; }\n'
    )
    image = rig.library.load(rig.library.compiled(path))
    with pytest.raises(KernelSourceError, match=r"parameter 1 of k has 16 bytes, a struct by val"):
        image.kernel("k")


def foreign_arch(rig: Rig) -> str:
    return "sm_90" if rig.device.arch == "sm_80" else "sm_80"


def test_a_cubin_for_another_architecture(rig: Rig) -> None:
    arch = foreign_arch(rig)
    cubin = compiler.compile_cubin(SOURCE, arch, (), {})
    remedy = {"host": "give lowgraph the kernels' source", "cuda": f"for {rig.device.arch} \\("}
    with pytest.raises(
        KernelSourceError,
        match=rf"{len(cubin)} bytes, a cubin for {arch}, cannot be loaded on {rig.device.spec} "
        rf"\({rig.device.arch}\): 209 .*{remedy[rig.device.kind]}",
    ):
        rig.library.load(cubin)


def ptx_of(path: Path) -> bytes:
    """PTX that each GPU from compute capability 8.0 on can run."""
    from cuda.bindings import nvrtc

    code, program = nvrtc.nvrtcCreateProgram(path.read_bytes(), b"k.cu", 0, None, None)
    assert not code and not nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=compute_80"])[0]
    ptx = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return ptx


def test_ptx_runs_on_a_gpu_and_is_refused_on_the_host(rig: Rig) -> None:
    ptx = ptx_of(SOURCE)
    assert str(describe(ptx)) == "PTX for compute_80"
    if rig.device.kind == "cuda":
        assert run(rig, rig.library.load(ptx).kernel("leaky_sum", params=PARAMS))[4] == 5
        return
    with pytest.raises(KernelSourceError, match=r"PTX for compute_80, cannot be loaded on host"):
        rig.library.load(ptx)


@pytest.mark.host  # hand-made: only the host device is known to look at no more than this
@pytest.mark.parametrize(
    ("made", "what"),
    [(PTX, "PTX for compute_90a"), (fat_binary((2, 80, bytes(8))), "a fat binary for sm_80")],
)
def test_the_host_device_wants_the_source(rig: Rig, made: bytes, what: str) -> None:
    said = rf"{what}, cannot be loaded on host .*: 209 .*runs no PTX .*give lowgraph the kernels'"
    with pytest.raises(KernelSourceError, match=said):
        rig.library.load(made)


def test_what_is_no_image(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"hello, this is not an image" + bytes(200))
    with pytest.raises(KernelSourceError, match=r"notes\.txt, neither PTX, nor .*: 200 .*compile"):
        rig.library.load(path)
    with pytest.raises(KernelSourceError, match=r"module image .*none cannot be read: No such"):
        rig.library.load(tmp_path / "none")


def test_a_window_loads_no_image(rig: Rig) -> None:
    data = rig.library.compiled(SOURCE) + bytes(32)
    rig.library.sealed = "the window of step 'train'"
    try:
        with pytest.raises(
            ModuleLoadDuringCapture, match=r"an image of .* would be .* step 'train"
        ):
            rig.library.load(data)
    finally:
        rig.library.sealed = None


def test_a_kernel_by_its_sizes_in_a_graph(rig: Rig) -> None:
    """Types settled by the first launch serve the journal: frozen scalars, held memory."""
    micro = Micro(rig)
    image = rig.library.load(rig.library.compiled(SOURCE) + bytes(40))
    kernel = image.kernel("leaky_sum")
    micro.extra = lambda number: kernel(
        micro.stream, 4, 256, micro.x, micro.y, np.float32(0.5), 1000
    )
    step = micro.step()
    for _ in range(3):
        step()
    assert step.report().replays == 2 and step.report().unowned == 0
    assert step.graph is not None
    (index,) = step.graph.find("leaky_sum")
    record = step.graph.node(index)
    assert record.signature is not None
    assert [param.pointer for param in record.signature.params] == [True, True, False, False]
    micro.extra = lambda number: kernel(
        micro.stream, 4, 256, micro.x, micro.y, 1.0 / (1 + number), 1000
    )
    frozen = micro.step()
    for _ in range(2):
        frozen()
    assert "FrozenScalar" in micro.said[-1] and "argument 'argument 2'" in micro.said[-1]
    micro.close()
