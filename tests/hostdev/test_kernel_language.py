"""What kernels are written in: headers, templates, constants, globals, structs, vectors, printf."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver

from lowgraph.driver import gate, memory, module
from lowgraph.driver.launch import LaunchConfig, launch
from lowgraph.errors import KernelSourceError
from lowgraph.kernels import source
from tests.support.process import output_of
from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "language.cu"
SIZES = (1, 31, 257)


def _numbers(n: int) -> Any:
    return np.random.default_rng(n).standard_normal(n).astype(np.float32)


def _global(handle: int, name: str) -> tuple[int, int]:
    """Address and bytes of a module's variable."""
    owner = gate.call(driver.cuFuncGetModule, handle)
    address, nbytes = gate.call(driver.cuModuleGetGlobal, owner, name.encode())
    return int(address), int(nbytes)


@pytest.mark.parametrize("n", SIZES)
def test_constants_are_written_and_globals_read(rig: Rig, n: int) -> None:
    kernel = rig.library.kernel(KERNELS, "constants")
    place, nbytes = _global(kernel.handle, "weights")
    calls, four = _global(kernel.handle, "calls")
    assert (nbytes, four) == (20, 4)
    x, primes = _numbers(n), np.array([2, 3, 5, 7, 11], np.float32)
    zero = np.zeros(1, np.int32)
    for weights in (np.arange(5, dtype=np.float32) - 2, np.ones(5, np.float32)):
        memory.copy_htod_async(place, weights.ctypes.data, 20, rig.stream)
        memory.copy_htod_async(calls, zero.ctypes.data, 4, rig.stream)
        y, count = rig.empty(n), np.zeros(1, np.int32)
        kernel(rig.stream, 2, 64, y, rig.put(x), n)
        at = np.arange(n) % 5
        # one rounding of the product more or less, as the compiler contracts
        np.testing.assert_allclose(rig.get(y), x * weights[at] + primes[at], rtol=1e-6, atol=1e-6)
        gate.call(driver.cuMemcpyDtoH, count.ctypes.data, calls, 4)
        assert count[0] == 128


def test_namespaces_enums_and_constexpr(rig: Rig) -> None:
    x, y = _numbers(31 * 33).reshape(31, 33), rig.empty((33, 31))
    rig.library.kernel(KERNELS, "transposed")(rig.stream, 16, 64, y, rig.put(x), 31, 33)
    np.testing.assert_array_equal(rig.get(y), x.T)


@pytest.mark.parametrize("n", SIZES)
def test_functors_and_lambdas(rig: Rig, n: int) -> None:
    x, y = _numbers(n), rig.empty(n)
    rig.library.kernel(KERNELS, "polynomial")(rig.stream, 2, 64, y, rig.put(x), n)
    wide = x.astype(np.float64)
    # two fused steps, each half a unit of at most 1 + 2 |x| + 3 x^2
    bound = 2.0**-23 * (1 + 2 * np.abs(wide) + 3 * wide**2)
    assert (np.abs(rig.get(y) - (1 + 2 * wide + 3 * wide**2)) <= bound).all()


class Parameters(ctypes.Structure):
    """struct Parameters of language.cu: ctypes lays it out as C does."""

    _fields_ = (
        ("scale", ctypes.c_double),
        ("shift", ctypes.c_float * 3),
        ("count", ctypes.c_short),
        ("flags", ctypes.c_ubyte),
        ("x", ctypes.c_uint64),
    )


def test_struct_by_value(rig: Rig) -> None:
    n = 33
    x, y = _numbers(n), rig.empty(n)
    taken = Parameters(1.5, (1, 2, 3), n - 1, 1, rig.put(x).address)
    handle = module.load_data(rig.device.compile(KERNELS, source.include_dirs(KERNELS), {}))
    function = module.get_function(handle, "by_struct")
    assert module.param_info(function, 1) == (8, ctypes.sizeof(Parameters))
    out = ctypes.c_uint64(y.address)
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(taken))
    config = LaunchConfig(rig.stream, 1, n)
    launch(config, driver.CUfunction(function), ctypes.addressof(pointers))
    scaled = (1.5 * x.astype(np.float64)).astype(np.float32)
    wanted = scaled + np.float32([1, 2, 3])[np.arange(n) % 3]
    wanted[-1] = x[-1]
    np.testing.assert_array_equal(rig.get(y), wanted)
    module.unload(handle)


def test_struct_by_value_is_refused_by_the_library(rig: Rig) -> None:
    with pytest.raises(KernelSourceError, match=r"language\.cu:\d+.*Parameters.*pass its address"):
        rig.library.kernel(KERNELS, "by_struct")


@pytest.mark.parametrize("n", SIZES)
def test_vector_types(rig: Rig, n: int) -> None:
    a = _numbers(4 * n).reshape(n, 4)
    d = np.random.default_rng(n).standard_normal((n, 2))
    pixels = np.random.default_rng(n).integers(0, 256, (n, 4)).astype(np.uint8)
    y4, y2, ids = rig.empty((n, 4)), rig.empty(n, np.float64), rig.empty((n, 4), np.int32)
    image = rig.put(pixels)
    kernel = rig.library.kernel(KERNELS, "vectors")
    kernel(rig.stream, -(-n // 64), 64, y4, y2, image, ids, rig.put(a), rig.put(d), n)
    np.testing.assert_allclose(rig.get(y4), a * 2 + np.float32([1, 2, 3, 4]), rtol=2**-23)
    np.testing.assert_array_equal(rig.get(y2), d.sum(1))
    inverted = np.concatenate([255 - pixels[:, :3], pixels[:, 3:]], 1)
    np.testing.assert_array_equal(rig.get(image), inverted)
    index = np.arange(n)
    sizes = [np.full(n, size) for size in (12, 16, 4)]
    np.testing.assert_array_equal(rig.get(ids), np.stack([index, *sizes], 1))


def test_cache_hints_are_plain_accesses(rig: Rig) -> None:
    n = 257
    x = np.random.default_rng(0).integers(-99, 99, n).astype(np.float32)
    y = rig.empty((4, n))
    rig.library.kernel(KERNELS, "hints")(rig.stream, 5, 64, y, rig.put(x), n)
    np.testing.assert_array_equal(rig.get(y), np.tile(6 * x, (4, 1)))


def test_infinities_and_clocks(rig: Rig) -> None:
    y = rig.empty(4)
    rig.library.kernel(KERNELS, "odds_and_ends")(rig.stream, 1, 1, y)
    assert rig.get(y).tolist() == [np.inf, -np.inf, 1, 1]


def test_qualifiers_in_every_order(rig: Rig) -> None:
    y = rig.empty(8)
    rig.library.kernel(KERNELS, "spellings")(rig.stream, 1, 32, y, shared=128)
    eight_sums = 8 * sum(range(32))
    wanted = [eight_sums, 25, 127, 1.5 + 2 + 2 + 3, 1, 7, np.nan, 2]
    np.testing.assert_array_equal(rig.get(y), wanted)


TALK = """
from pathlib import Path
import numpy as np
from lowgraph import Library, open_device
from lowgraph.driver import memory, stream
from lowgraph.errors import DriverError
device = open_device({spec!r})
talking = Library(device).kernel(Path({kernels!r}), "talking")
x = np.array({x!r}, np.int32)
s, address = stream.create(), memory.alloc(x.nbytes)
memory.copy_htod_async(address, x.ctypes.data, x.nbytes, s)
talking(s, 1, 32, address, len(x))
try:
    stream.synchronize(s)
except DriverError as error:
    print("failed:", error)
"""


def _talk(rig: Rig, x: list[int]) -> str:
    return output_of(TALK.format(spec=rig.device.spec, kernels=str(KERNELS), x=x))


def test_printf_and_assert(rig: Rig) -> None:
    said = _talk(rig, [0, 1, 2, 3])
    lines = ["thread 2 of talking: 2, 1.00", "thread 3 of talking: 3, 1.50"]
    assert sorted(said.splitlines()) == lines  # nobody promised an order of the two
    failed = _talk(rig, [1, -1])
    assert "failed" in failed
    assert "ASSERT" in failed or "710" in failed
