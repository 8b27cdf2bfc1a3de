"""A kernel that goes wrong becomes a Fault that names it; the process and the engine live on."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_float, c_int, c_longlong

import numpy as np
import pytest

from tests.hostdev.harness import Buffer, Engine, Fault, Image, build_kernels
from tests.support.process import run_python

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def faults(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build_kernels("faults", tmp_path_factory.mktemp("faults"))


@pytest.fixture(params=(1, 2))
def workers(request: pytest.FixtureRequest, engine: Engine) -> int:
    engine.library.harness_workers(request.param)
    return int(request.param)


@pytest.fixture
def still_works(engine: Engine, faults: Image) -> Callable[[], None]:
    """Checks that an ordinary launch gives its result after a fault."""

    def check() -> None:
        x = engine.empty(1000)
        fault = engine.launch(faults["fill"], 8, 128, x, c_float(3.0), c_int(1000))
        assert fault.code == 0, fault.text
        assert (x.get() == 3).all()

    return check


def text_of(fault: Fault) -> str:
    return bytes(fault.text).decode()


def nowhere(address: int, engine: Engine) -> Buffer:
    """A buffer argument whose address is given and is no memory of the harness."""
    buffer = engine.empty(1)
    buffer.address = address
    return buffer


def test_read_past_the_end(
    engine: Engine, faults: Image, workers: int, still_works: Callable[[], None]
) -> None:
    x, out = engine.put(np.zeros(1024, np.float32)), engine.empty(1)
    args = (c_longlong(1024 + 5), c_int(37), c_int(3))
    fault = engine.launch(faults["read_at"], 9, 64, out, x, *args)
    assert (fault.code, tuple(fault.block), tuple(fault.thread)) == (700, (3, 0, 0), (37, 0, 0))
    assert fault.address == x.address + 4 * 1029
    assert text_of(fault) == (
        "kernel 'read_at', block (3,0,0), thread (37,0,0): illegal read at "
        f"{fault.address:#x}: 20 bytes past the end"
    )
    still_works()


def test_write_past_the_end_after_a_barrier(
    engine: Engine, faults: Image, workers: int, still_works: Callable[[], None]
) -> None:
    x = engine.put(np.zeros(1024, np.float32))
    fault = engine.launch(faults["write_after_barrier"], 4, 257, x, c_longlong(1024), c_int(255))
    assert (fault.code, tuple(fault.thread)) == (700, (255, 0, 0))
    assert "illegal write" in text_of(fault) and "0 bytes past the end" in text_of(fault)
    still_works()


@pytest.mark.parametrize("address", [0, 4096, (1 << 47) - 4096])
def test_null_and_stray_pointers(engine: Engine, faults: Image, workers: int, address: int) -> None:
    fault = engine.launch(
        faults["write_at"], 1, 32, nowhere(address, engine), c_longlong(0), c_int(31), c_int(0)
    )
    assert (fault.code, fault.address) == (700, address)
    assert "not device memory" in text_of(fault)


def test_use_after_free(
    engine: Engine, faults: Image, workers: int, still_works: Callable[[], None]
) -> None:
    x, out = engine.put(np.zeros(16, np.float32)), engine.empty(1)
    x.free()
    fault = engine.launch(faults["read_at"], 1, 1, out, x, c_longlong(3), c_int(0), c_int(0))
    assert fault.code == 700 and "in freed memory" in text_of(fault)
    still_works()


@pytest.mark.parametrize("shared", [4, 64, 4096, 65536])
def test_dynamic_shared_memory_ends_at_a_guard(engine: Engine, faults: Image, shared: int) -> None:
    words = (shared + 15) // 16 * 4
    assert engine.launch(faults["write_shared"], 1, 1, c_int(words - 1), shared=shared).code == 0
    fault = engine.launch(faults["write_shared"], 1, 1, c_int(words), shared=shared)
    assert fault.code == 700
    assert f"outside the {shared} bytes of dynamic shared memory" in text_of(fault)


ZONE = (
    256 // 4
)  # words that belong to nobody behind a variable; the engine alone knows the tail only


@pytest.mark.parametrize("at", [33 + ZONE + 32, 33 + ZONE + 15, 33 + ZONE + 31])
def test_a_write_behind_static_shared_memory_is_seen_at_the_end_of_the_block(
    engine: Engine, faults: Image, workers: int, still_works: Callable[[], None], at: int
) -> None:
    # 33 words, then up to 28 bytes to the next 32: the tail's first 128 bytes are words 40 to 71.
    out = engine.empty((6, 64), np.int32)
    assert engine.launch(faults["write_static"], 6, 64, out, c_int(32), c_int(2)).code == 0
    assert (out.get()[2, :33] == [7 if i == 32 else i for i in range(33)]).sum() >= 32
    fault = engine.launch(faults["write_static"], 6, 64, out, c_int(at), c_int(2))
    assert (fault.code, tuple(fault.block)) == (700, (2, 0, 0)), text_of(fault)
    assert "wrote past the end of the kernel's __shared__ variables" in text_of(fault)
    still_works()
    assert engine.launch(faults["write_static"], 6, 64, out, c_int(32), c_int(2)).code == 0


@pytest.mark.parametrize(("address", "code"), [(0x7FF8_0000_0000_0000, 716), (None, 716)])
def test_misaligned_vector_or_no_address(
    engine: Engine, faults: Image, address: int | None, code: int
) -> None:
    x, out = engine.put(np.zeros(64, np.float32)), engine.empty(4)
    source = x if address is None else nowhere(address, engine)
    offset = c_int(4 if address is None else 0)
    fault = engine.launch(faults["read_vector"], 1, 1, out, source, offset)
    assert fault.code == code and "misaligned" in text_of(fault)


@pytest.mark.parametrize(("a", "b"), [(7, 0), (-(1 << 31), -1)])
def test_integer_division(
    engine: Engine, faults: Image, still_works: Callable[[], None], a: int, b: int
) -> None:
    over, under = np.full(32, 12, np.int32), np.full(32, 4, np.int32)
    out = engine.empty(32, np.int32)
    fault = engine.launch(faults["divide"], 1, 32, out, engine.put(over), engine.put(under))
    assert fault.code == 0
    assert (out.get() == 3).all()
    over[9], under[9] = a, b
    fault = engine.launch(faults["divide"], 1, 32, out, engine.put(over), engine.put(under))
    assert (fault.code, tuple(fault.thread)) == (719, (9, 0, 0))
    assert "division" in text_of(fault)
    still_works()


@pytest.mark.parametrize("kernel", ["recurse", "big_frame"])
def test_stack_overflow(
    engine: Engine, faults: Image, workers: int, still_works: Callable[[], None], kernel: str
) -> None:
    out = engine.put(np.zeros(64, np.int32))
    if kernel == "recurse":
        assert engine.launch(faults[kernel], 1, 64, out, c_int(20)).code == 0
    fault = engine.launch(faults[kernel], 1, 64, out, c_int(5000))
    assert fault.code == 700 and "stack overflow" in text_of(fault)
    still_works()


def test_deadlock_tells_who_waits_where(
    engine: Engine, faults: Image, workers: int, still_works: Callable[[], None]
) -> None:
    out = engine.empty(1, np.int32)
    fault = engine.launch(faults["half_at_barrier"], 2, 64, out)
    assert fault.code == 719
    text = text_of(fault)
    assert "32 wait at a barrier (faults.cu:47" in text
    assert "32 wait at a warp operation (faults.cu:48" in text and "mask ffffffff" in text
    assert "0 of 64 have returned" in text
    still_works()


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("shuffle_from_absent", "takes no part"),
        ("mask_without_self", "not in the mask"),
    ],
)
def test_wrong_masks(engine: Engine, faults: Image, kernel: str, says: str) -> None:
    fault = engine.launch(faults[kernel], 1, 32, engine.empty(32, np.int32))
    assert fault.code == 719 and says in text_of(fault) and "faults.cu:" in text_of(fault)


def test_trap_and_assert(engine: Engine, faults: Image, still_works: Callable[[], None]) -> None:
    fault = engine.launch(faults["trap_in"], 1, 32, c_int(5))
    assert (fault.code, tuple(fault.thread)) == (719, (5, 0, 0))
    x = engine.put(np.arange(32, dtype=np.int32))
    assert engine.launch(faults["assert_below"], 1, 32, x, c_int(32)).code == 0
    fault = engine.launch(faults["assert_below"], 1, 32, x, c_int(31))
    assert (fault.code, tuple(fault.thread)) == (710, (31, 0, 0))
    assert "assert failed: x[threadIdx.x] < limit (" in text_of(fault)
    still_works()


def test_first_fault_only_and_many_in_a_row(engine: Engine, faults: Image, workers: int) -> None:
    for bad in range(200):
        at = (c_longlong(bad), c_int(bad % 32), c_int(7))
        fault = engine.launch(faults["write_at"], 64, 32, nowhere(0, engine), *at)
        assert (fault.code, fault.address, fault.thread[0]) == (700, 4 * bad, bad % 32)


FAULTHANDLER = """
import ctypes, faulthandler, pathlib
from ctypes import c_int, c_longlong
from tests.hostdev.harness import Image, load_engine
if "early" in {order!r}: faulthandler.enable()
engine = load_engine(pathlib.Path({engine!r}))
faults = Image(pathlib.Path({image!r}))
null = engine.empty(1); null.address = 0
assert engine.launch(faults["write_at"], 1, 1, null, c_longlong(0), c_int(0), c_int(0)).code == 700
if "late" in {order!r}: faulthandler.enable()
assert engine.launch(faults["write_at"], 1, 1, null, c_longlong(0), c_int(0), c_int(0)).code == 700
if "rest" in {order!r}: engine.library.harness_rest()
print("alive", flush=True)
ctypes.string_at(0)
"""


@pytest.mark.parametrize("order", ["early", "late", "early rest", "late rest", "never", "rest"])
def test_faulthandler_still_reports_crashes_outside_kernels(
    engine: Engine, faults: Image, order: str
) -> None:
    paths = {"engine": str(engine.path), "image": str(faults.path)}
    done = run_python(FAULTHANDLER.format(order=order, **paths), timeout=60)
    assert done.stdout == "alive\n", done.stderr
    assert done.returncode == -11
    assert ("Fatal Python error: Segmentation fault" in done.stderr) == (
        "early" in order or "late" in order
    )
