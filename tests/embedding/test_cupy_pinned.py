"""CuPy as it is installed: what in a window goes by its pinned memory, or its parts for libraries.

Needs no GPU: the memory is the host's, and what is refused is refused before the driver is asked.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import CaptureRefused, LibraryNotReady, PageableHostMemory
from lowgraph.interop import cupy_block
from lowgraph.interop.cupy_libraries import _LIBRARIES
from lowgraph.interop.cupy_pinned import _is_set, host_arrays_refused
from tests.embedding.small import BLOCKS, N, Small
from tests.support.process import output_of

cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")
pytestmark = pytest.mark.both


class Block:
    """Memory of the host, as CuPy's pinned memory."""

    def __init__(self, nbytes: int) -> None:
        self.memory = (ctypes.c_char * nbytes)()
        self.ptr, self.size = ctypes.addressof(self.memory), nbytes


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A pool of CuPy's in its default one's place, set as CuPy's allocator."""

    def allocate(nbytes: int) -> Any:
        return cupy.cuda.PinnedMemoryPointer(Block(nbytes), 0)

    before = cupy.get_default_pinned_memory_pool()
    made = cupy.cuda.PinnedMemoryPool(allocate)
    monkeypatch.setattr(cupy, "get_default_pinned_memory_pool", lambda: made)
    cupy.cuda.set_pinned_memory_allocator(made.malloc)
    yield made
    cupy.cuda.set_pinned_memory_allocator(before.malloc)


def step_of(small: Small, act: Callable[[], object]) -> Any:
    """y += 2 x behind a block in which only what is refused first is looked after."""

    def body(stream: int) -> None:
        with cupy_block._refused_first(cupy):
            act()
        small.add(stream, BLOCKS, 128, small.y, small.x, N)

    return small.step(body=body)


ASKS: dict[str, Callable[[], object]] = {
    "alloc_pinned_memory": lambda: cupy.cuda.alloc_pinned_memory(12),
    "empty_pinned": lambda: cupyx.empty_pinned(3, "f4"),
    "zeros_pinned": lambda: cupyx.zeros_pinned(3, "f4"),
}


@pytest.mark.parametrize("name", ASKS)
def test_what_asks_for_pinned_memory_is_refused_and_the_capture_is_whole(
    small: Small, pool: Any, name: str
) -> None:
    states: list[str] = []
    beside: list[object] = []

    def act() -> None:
        with suppress(CaptureRefused):
            ASKS[name]()
        states.append(driver.stream.capture_status(small.stream))
        thread = threading.Thread(target=lambda: beside.append(ASKS[name]()))
        thread.start()
        thread.join()

    step = step_of(small, act)
    step.prime()
    with pytest.raises(PageableHostMemory) as caught:
        step.capture()
    assert states == ["none", "active"] and len(beside) == 2
    assert "CuPy would copy 12 bytes" in caught.value.reason
    assert "staging slot" in caught.value.remedy
    assert "test_cupy_pinned.py:" in str(caught.value.where), "not in CuPy's own files"
    assert _is_set(cupy, pool)
    after = step_of(small, lambda: None)
    after.prime()
    after.capture()
    assert after.phase is Phase.READY


def wrapper(pool: Any) -> Callable[[int], Any]:
    behind = pool.malloc
    return lambda nbytes: behind(nbytes + 1)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "none": lambda pool: None,
    "another pool's": lambda pool: (
        cupy.cuda.PinnedMemoryPool(
            lambda nbytes: cupy.cuda.PinnedMemoryPointer(Block(nbytes), 0)
        ).malloc
    ),
    "a wrapper": wrapper,
    "partial": lambda pool: functools.partial(pool.malloc),
}


@pytest.mark.parametrize("name", OTHERS)
def test_which_allocator_cupy_asks_is_told_from_others(small: Small, pool: Any, name: str) -> None:
    assert _is_set(cupy, pool)
    other = OTHERS[name](pool)
    cupy.cuda.set_pinned_memory_allocator(other)
    assert not _is_set(cupy, pool)
    del other
    cupy.cuda.set_pinned_memory_allocator(pool.malloc)
    assert _is_set(cupy, pool)


def test_an_allocator_that_is_set_in_the_window_stays(small: Small, pool: Any) -> None:
    asked: list[int] = []

    def mine(nbytes: int) -> Any:
        asked.append(nbytes)
        return cupy.cuda.PinnedMemoryPointer(Block(nbytes), 0)

    step = step_of(small, lambda: cupy.cuda.set_pinned_memory_allocator(mine))
    cupy.cuda.set_pinned_memory_allocator(pool.malloc)
    with host_arrays_refused(cupy):
        pass
    assert asked == [] and _is_set(cupy, pool)
    step.prime()
    step.capture()
    asked.clear()
    cupy.cuda.alloc_pinned_memory(5)
    assert asked == [5]


# ---- libraries ----


def test_the_modules_by_which_cupy_wraps_libraries_have_the_names_that_are_looked_for() -> None:
    """They are loaded at first use: importing CuPy loads none."""
    text = output_of(
        "import sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "import cupy\n"
        f"print(*(name for name in {list(_LIBRARIES)} if name in sys.modules))\n"
    )
    assert text.strip() == ""
    for name in _LIBRARIES:
        assert importlib.util.find_spec(name) is not None, name
    assert all(callable(find) for find in (
        cupy.cuda.get_cublas_handle, cupy.cuda.device.get_cusolver_handle,
        cupy.cuda.device.get_cusparse_handle, cupy.random.get_random_state,
    ))  # fmt: skip


# In a process of its own, for CuPy's part for cuBLAS is loaded once.
_FIRST = """
import os, warnings
os.environ["CUPY_CI"] = "1"  # CuPy does not look for the library itself, which may be missing here
warnings.simplefilter("ignore")
import cupy
from lowgraph import GraphStep, Library, PersistentPool, driver
from lowgraph.interop import cupy_block
device = driver.open_device({spec!r})
stream, library, pool = driver.stream.create(), Library(device), PersistentPool(device)
place = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0x7F0000000000, 64, None, 0), 0)
a, b = (cupy.ndarray((4, 4), "f4", place) for _ in range(2))
with cupy.cuda.using_allocator(lambda nbytes: place):
    def body(s):
        with cupy_block._refused_first(cupy):
            if driver.stream.capture_status(s) == "active":
                try:
                    {use}
                except Exception as error:
                    print(type(error).__name__, driver.stream.capture_status(s))
                    raise
    step = GraphStep(body, device=device, pool=pool, library=library, stream=stream,
                     say=lambda text: None)
    step.prime()
    try:
        step.capture()
    except Exception as error:
        print(error.where.rpartition("/")[2], error.remedy)
"""
USES = {
    "a @ b": "lowgraph.Blas",
    "cupy.dot(a, b)": "lowgraph.Blas",
    "cupy.tensordot(a, b)": "lowgraph.Blas",
    "cupy.asfortranarray(a)": "lowgraph.Blas",
    "cupy.linalg.cholesky(a)": "",
    "cupy.fft.fft(a)": "before or after the step",
}


@pytest.mark.parametrize("use", USES)
def test_the_first_use_of_a_library_is_refused_before_it_is_loaded(
    request: pytest.FixtureRequest, use: str
) -> None:
    spec = str(request.config.getoption("--device"))
    first, second = output_of(_FIRST.format(spec=spec, use=use)).splitlines()[:2]
    assert first == f"{LibraryNotReady.__name__} active"
    assert second.startswith("<string>:") and USES[use] in second
