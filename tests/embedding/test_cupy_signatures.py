"""CuPy as it is installed against what lowgraph takes it to be; most of it needs no GPU.

What fails here is a release of CuPy that changed an entry point: then `fake_cupy` and the code
behind it are wrong, too.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import pytest

from lowgraph.driver import foreign_stream
from lowgraph.interop import cupy_kernels, cupy_library
from lowgraph.interop.cupy_stream import _stream_class
from tests.embedding import fake_cupy as fake

cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")


def parameters(function: Any) -> list[tuple[str, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.default) for one in found if one.name != "is_shutting_down"]


SAME = [
    (lambda c: c.cuda.ExternalStream.__init__, lambda: fake.ExternalStream.__init__),
    (lambda c: c.cuda.ExternalStream.__mro__[1].__init__, lambda: fake._BaseStream.__init__),
    (lambda c: c.cuda.ExternalStream.use, lambda: fake._BaseStream.use),
    (lambda c: c.cuda.ExternalStream.synchronize, lambda: fake._BaseStream.synchronize),
    (lambda c: c.cuda.ExternalStream.launch_host_func, lambda: fake._BaseStream.launch_host_func),
    (lambda c: c.cuda.ExternalStream.add_callback, lambda: fake._BaseStream.add_callback),
    (lambda c: c.cuda.ExternalStream.begin_capture, lambda: fake._BaseStream.begin_capture),
    (lambda c: c.cuda.ExternalStream.end_capture, lambda: fake._BaseStream.end_capture),
    (lambda c: c.cuda.using_allocator, lambda: fake.using_allocator),
    (lambda c: cupyx.allow_synchronize, lambda: fake.allow_synchronize),
]


@pytest.mark.parametrize("pair", range(len(SAME)))
def test_the_recorded_entry_points_have_cupys_parameters(pair: int) -> None:
    theirs, ours = SAME[pair]
    assert parameters(theirs(cupy)) == parameters(ours())


def test_the_release_is_one_that_this_was_written_for() -> None:
    assert cupy_library.load("this") is cupy


def test_what_waits_and_what_is_not_capturable_has_the_names_that_are_looked_for() -> None:
    for module, name in (
        ("cupy_backends.cuda.api.runtime", "CUDARuntimeError"),
        ("cupy_backends.cuda.api.driver", "CUDADriverError"),
        ("cupy_backends.cuda.libs.cublas", "CUBLASError"),
        ("cupy_backends.cuda.libs.curand", "CURANDError"),
        ("cupy_backends.cuda.libs.cusolver", "CUSOLVERError"),
        ("cupy_backends.cuda.libs.cusparse", "CuSparseError"),
        ("cupy.cuda.cufft", "CuFFTError"),
        ("cupy._core.syncdetect", "DeviceSynchronized"),
    ):
        try:
            found = importlib.import_module(module)
        except ImportError:  # the library that it wraps is not installed
            continue
        assert issubclass(getattr(found, name), RuntimeError), (module, name)


def test_errors_carry_the_code_and_say_its_name() -> None:
    runtime = importlib.import_module("cupy_backends.cuda.api.runtime")
    for code, name in (
        (700, "cudaErrorIllegalAddress"),
        (900, "cudaErrorStreamCaptureUnsupported"),
    ):
        with pytest.raises(runtime.CUDARuntimeError, match=f"^{name}: ") as caught:
            runtime.check_status(code)
        assert caught.value.status == code


def test_the_switch_against_waits_is_the_threads_own_and_comes_back() -> None:
    syncdetect = importlib.import_module("cupy._core.syncdetect")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with cupyx.allow_synchronize(False), pytest.raises(cupyx.DeviceSynchronized):
            syncdetect._declare_synchronize()
    syncdetect._declare_synchronize()


# ---- memory: addresses only, nothing is touched ----

ADDRESS = 0x7F0000000000


class Owner:
    """Tells when it is let go of."""

    def __init__(self, gone: list[str]) -> None:
        self.gone = gone

    def __del__(self) -> None:
        self.gone.append("gone")


def test_an_array_over_our_memory_holds_its_owner_until_its_last_view_is_gone() -> None:
    gone: list[str] = []
    memory = cupy.cuda.UnownedMemory(ADDRESS, 64, Owner(gone), 0)
    array = cupy.ndarray((4, 4), "f4", cupy.cuda.MemoryPointer(memory, 0))
    del memory
    assert array.data.ptr == ADDRESS and array.flags.c_contiguous and array.nbytes == 64
    view = array[1:, :2]
    del array
    assert gone == []
    del view
    assert gone == ["gone"]


def test_arrays_ask_the_threads_allocator_also_for_nothing_and_tell_its_error() -> None:
    asked: list[int] = []

    def allocate(nbytes: int) -> Any:
        asked.append(nbytes)
        if nbytes == 8:
            raise KeyError("ours")
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(ADDRESS, nbytes, None, 0), 0)

    with cupy.cuda.using_allocator(allocate):
        assert cupy.ndarray((3,), "f4").data.ptr == ADDRESS
        cupy.ndarray((0,), "f4")
        with pytest.raises(KeyError, match="ours"):
            cupy.ndarray((2,), "f4")
    assert asked == [12, 0, 8]


def test_our_stream_is_one_of_cupys_and_says_no_word_of_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream: Any = _stream_class(cupy.cuda.ExternalStream)(4096, 0)
    assert isinstance(stream, cupy.cuda.ExternalStream)
    assert (stream.ptr, stream.device_id) == (4096, 0) and foreign_stream.stream_handle(
        stream
    ) == 4096
    assert "__del__" not in {name for each in type(stream).__mro__[:-1] for name in vars(each)}


# ---- kernels ----

SOURCE = """
#define UNUSED 1
extern "C" __global__ void scale(float* y, const REAL* __restrict__ x, float a, int n) {}
template <typename T> __global__ void any(T* y) {}
"""


def test_a_raw_kernels_parameters_are_read_from_its_source() -> None:
    kernel = cupy.RawKernel(SOURCE, "scale", options=("-DREAL=float", "-std=c++17"))
    found = cupy_kernels._declared(kernel, kernel.name, None, "CuPy's kernel scale")
    assert str(found) == "scale(float* y, float* x, float a, int n)"
    assert found is not None and [param.const for param in found.params] == [
        False,
        True,
        False,
        False,
    ]
    assert found.file is None and found.line == 3


def test_a_template_and_an_image_have_no_source_to_read() -> None:
    mangled = cupy.RawKernel(SOURCE, "_Z3anyIfEvPT_")
    assert cupy_kernels._declared(mangled, mangled.name, None, "title") is None
    module = cupy.RawModule(path="axpy.cubin")
    assert module.code is None and module.file_path == "axpy.cubin"
