"""`cupy_kernel` with what it looks at of a RawKernel, on either device; test_cupy_kernels.py has
CuPy's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.errors import ConfigError, KernelSourceError, ModuleLoadDuringCapture
from lowgraph.interop import cupy_kernel
from lowgraph.kernels import Kernel, SizedKernel
from tests.capture.moving import SOURCE
from tests.embedding.small import BLOCKS, N, Small

pytestmark = pytest.mark.both


def raw(small: Small, **more: Any) -> SimpleNamespace:
    """As cupy.RawKernel: its function is one that this device has loaded."""
    function = SimpleNamespace(ptr=small.rig.library.kernel(SOURCE, "add_twice").handle)
    given = {"name": "add_twice", "code": SOURCE.read_text(), "options": (), "kernel": function}
    return SimpleNamespace(**{**given, **more})


def test_names_and_types_come_from_its_source(small: Small) -> None:
    kernel = cupy_kernel(raw(small))
    assert isinstance(kernel, Kernel)
    assert kernel.signature.params == small.add.signature.params
    assert kernel.signature.line == small.add.signature.line and kernel.signature.file is None
    step = small.ready(body=lambda s: kernel(s, BLOCKS, 128, small.y, small.x, N))
    assert small.value() == 4 and step.graph.node(0).name == "add_twice"  # type: ignore[union-attr]


def test_a_type_may_be_a_define_of_its_options(small: Small) -> None:
    code = SOURCE.read_text().replace("int n", "COUNT n")
    kernel = cupy_kernel(raw(small, code=code, options=("-std=c++17", "-DCOUNT=int")))
    assert isinstance(kernel, Kernel)
    assert kernel.signature.params == small.add.signature.params
    with pytest.raises(
        KernelSourceError, match=r"source of CuPy's kernel add_twice:\d+: .* 'COUNT'"
    ):
        cupy_kernel(raw(small, code=code))


@pytest.mark.parametrize("more", [{"code": None}, {"name": "_Z9add_twiceIfEvPT_"}])
def test_without_a_source_the_sizes_are_known_and_params_may_be_said(
    small: Small, more: dict[str, Any]
) -> None:
    sized = cupy_kernel(raw(small, **more))
    assert isinstance(sized, SizedKernel) and sized.sizes == (8, 8, 4)
    sized(small.stream, BLOCKS, 128, small.y, small.x, N)
    typed = cupy_kernel(raw(small, **more), params="float* y, const float* x, int n")
    assert isinstance(typed, Kernel)
    typed(small.stream, BLOCKS, 128, small.y, small.x, N)
    assert small.value() == 4


def test_parameters_that_are_not_the_codes_are_refused(small: Small) -> None:
    with pytest.raises(KernelSourceError, match="2 parameters, the image's kernel has 3"):
        cupy_kernel(raw(small), params="float* y, int n")
    with pytest.raises(KernelSourceError, match="is 8 bytes at 16, the image's is 4 at 16"):
        cupy_kernel(raw(small), params="float* y, const float* x, long long n")


@pytest.mark.parametrize("wrong", [None, "axpy", SimpleNamespace(name="axpy")])
def test_what_is_no_kernel_of_cupys_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"no kernel of CuPy's: give a cupy\.RawKernel"):
        cupy_kernel(wrong)


def test_its_code_is_loaded_at_once_and_never_in_a_window(small: Small) -> None:
    with small.rig.device.count_calls() as count:
        cupy_kernel(raw(small))
    assert not count.counted_by or count.calls["cuFuncLoad"] == 1

    def body(stream: int) -> None:
        small.add(stream, BLOCKS, 128, small.y, small.x, N)
        cupy_kernel(raw(small))

    step = small.step(body=body)
    step.prime()
    with pytest.raises(ModuleLoadDuringCapture, match="call cupy_kernel before the step") as caught:
        step.capture()
    assert "test_raw_kernels.py:" in str(caught.value.where)


def test_a_library_that_is_asked_for_memory_is_not_the_users_line() -> None:
    """Else a refused array of CuPy's would name a line of CuPy's own."""
    ours = driver.callers.is_machinery
    assert ours("/v/lib/python3.12/site-packages/cupy/_creation/basic.py")
    assert ours("/usr/lib/python3/dist-packages/cupyx/scipy/special.py")
    assert not ours("/home/me/cupy/train.py") and not ours("/v/site-packages/cupy_model/run.py")
