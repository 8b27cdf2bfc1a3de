"""What `cupy_ops` refuses before CuPy begins it, and what it has made ready before a window.

With CuPy's entry points recorded (fake_cupy), and the pool, the window and the graph real.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import (
    CaptureRefused,
    ContextPoisoned,
    LibraryNotReady,
    PageableHostMemory,
)
from lowgraph.interop import cupy_pinned
from lowgraph.memory import open_window
from tests.embedding import fake_cupy as fake
from tests.embedding.cupy_body import of
from tests.embedding.small import BLOCKS, N, Small
from tests.field_cases.bare import foreign

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("recorded")]

Act = Callable[[], object]


def body_of(small: Small, act: Act) -> Callable[[int], None]:
    """y += 2 x behind what `act` asks of CuPy."""

    def launched(stream: int) -> None:
        act()
        small.add(stream, BLOCKS, 128, small.y, small.x, N)

    return of(small, launched)


def stands() -> bool:
    """Whether CuPy's own allocator of pinned memory is the one that is set."""
    return cupy_pinned._is_set(fake.cupy, fake.pinned_pool)


def in_window(act: Act) -> Act:
    return lambda: act() if open_window.mine() is not None else None


def refusal_of(small: Small, act: Act) -> CaptureRefused:
    """Of a step whose body goes on behind it: the capture is not harmed, and the stream is well."""
    states: list[str] = []

    def tried() -> None:
        with suppress(CaptureRefused):
            act()
        states.append(driver.stream.capture_status(small.stream))

    step = small.step(body=body_of(small, tried))
    step.prime()
    with pytest.raises(CaptureRefused) as caught:
        step.capture()
    assert states == ["none", "active"]
    assert small.ready(body=body_of(small, lambda: None)).phase is Phase.READY
    return caught.value


def elsewhere(act: Act) -> list[object]:
    """What another thread gets."""
    got: list[object] = []

    def run() -> None:
        try:
            got.append(act())
        except Exception as error:
            got.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return got


# ---- arrays of the host ----


def test_an_array_of_the_host_is_refused_before_it_is_copied(small: Small) -> None:
    refusal = refusal_of(small, lambda: fake.alloc_pinned_memory(132))
    assert type(refusal) is PageableHostMemory
    assert "CuPy would copy 132 bytes of an array or list of the host" in refusal.reason
    assert "in the capture window of 'step'" in refusal.reason
    for remedy in ("before the step", "lists as indices", "staging slot of the pool"):
        assert remedy in refusal.remedy
    assert "fake_cupy.py:" in str(refusal.where), "CuPy's folder is passed over, the fake's is not"
    assert fake.pinned_pool.asked.count(132) == 1, "in the priming pass alone"


def test_other_threads_get_their_pinned_memory_meanwhile(small: Small) -> None:
    found: list[object] = []
    act = in_window(lambda: found.extend(elsewhere(lambda: fake.alloc_pinned_memory(77))))
    small.ready(body=body_of(small, act))
    assert not isinstance(found[0], Exception) and 77 in fake.pinned_pool.asked


def test_in_other_passes_nothing_is_set(small: Small) -> None:
    seen: list[bool] = []
    small.ready(
        body=body_of(small, lambda: seen.append(fake.pinned.get() == fake.pinned_pool.malloc))
    )
    assert seen == [True, False] and stands()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_cupys_own_allocator_is_put_back_whatever_leaves_the_block(
    small: Small, error: type[BaseException]
) -> None:
    def act() -> None:
        raise error("mine")

    step = small.step(body=body_of(small, in_window(act)))
    step.prime()
    with pytest.raises(error, match="mine"):
        step.capture()
    assert stands()


def test_an_allocator_that_somebody_set_stays_also_in_the_window(small: Small) -> None:
    asked: list[int] = []
    fake.set_pinned_memory_allocator(asked.append)
    try:
        small.ready(body=body_of(small, lambda: fake.alloc_pinned_memory(5)))
        assert asked.count(5) == 2 and fake.pinned.get() == asked.append
    finally:
        fake.set_pinned_memory_allocator(fake.pinned_pool.malloc)


def test_an_allocator_that_is_set_in_the_window_stays(small: Small) -> None:
    asked: list[int] = []

    def act() -> None:
        with suppress(CaptureRefused):
            fake.alloc_pinned_memory(3)
        fake.set_pinned_memory_allocator(asked.append)

    step = small.step(body=body_of(small, in_window(act)))
    step.prime()
    with pytest.raises(PageableHostMemory):
        step.capture()
    try:
        fake.alloc_pinned_memory(5)
        assert asked == [5]
    finally:
        fake.set_pinned_memory_allocator(fake.pinned_pool.malloc)


def wrapped() -> Callable[[int], Any]:
    behind = fake.pinned_pool.malloc
    return lambda nbytes: behind(nbytes + 1)


def fails(nbytes: Any) -> None:
    raise KeyError("no memory")


OTHERS: dict[str, Callable[[], Callable[[int], Any]]] = {
    "a function around it": wrapped,
    "partial": lambda: functools.partial(fake.pinned_pool.malloc),
    "another pool's": lambda: fake.PinnedMemoryPool().malloc,
    "one that fails": lambda: fails,
    "one of its own": lambda: lambda nbytes: SimpleNamespace(mem=None),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("keeps", [False, True])
def test_another_one_is_not_taken_for_cupys_own(name: str, keeps: bool) -> None:
    """Nor while running code keeps CuPy's own, to put it back later."""
    kept = fake.pinned_pool.malloc if keeps else None
    fake.set_pinned_memory_allocator(OTHERS[name]())
    try:
        assert not stands()
    finally:
        fake.set_pinned_memory_allocator(kept or fake.pinned_pool.malloc)
    del kept
    assert stands()


def test_what_cupy_asks_the_driver_as_it_is_looked_at_breaks_no_capture(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at the events of earlier copies whenever it is asked for pinned memory."""
    event, codes = driver.event.create(), list[int]()
    driver.event.record(event, small.stream)

    def asks(nbytes: int) -> Any:
        codes.append(foreign("cuEventQuery", event))
        return fake.alloc_pinned_memory(nbytes)

    monkeypatch.setattr(fake.cupy.cuda, "alloc_pinned_memory", asks)
    monkeypatch.setattr(cupy_pinned, "_known", None)
    assert small.ready(body=body_of(small, lambda: None)).phase is Phase.READY
    assert codes == [0, 0], "before the window, and in it"
    driver.event.destroy(event)


def test_what_was_put_back_is_known_without_a_search(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.ready(body=body_of(small, lambda: None))
    with monkeypatch.context() as patched:
        patched.setattr(cupy_pinned.gc, "get_referrers", fails)
        assert stands()
        fake.set_pinned_memory_allocator(fake.pinned_pool.malloc)
        with pytest.raises(KeyError):
            stands()
    assert stands()


# ---- libraries ----

CUBLAS = "cupy_backends.cuda.libs.cublas"
LIBRARIES = {
    CUBLAS: ("cuBLAS", "lowgraph.Blas"),
    "cupy_backends.cuda.libs.curand": ("cuRAND", "random state"),
    "cupy_backends.cuda.libs.cusolver": ("cuSOLVER", "before or after the step"),
    "cupy_backends.cuda.libs.cusparse": ("cuSPARSE", "before or after the step"),
    "cupy.cuda.cufft": ("cuFFT", "before or after the step"),
}


def is_cupys(name: str) -> bool:
    return name.partition(".")[0] in ("cupy", "cupy_backends")


class Found:
    """A finder of empty modules in CuPy's place; notes which were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not is_cupys(name):
            return None
        self.asked.append(name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        return None


@pytest.fixture
def unloaded() -> Iterator[list[str]]:
    """No module of CuPy's is loaded, and empty ones are found; the list has what was asked for."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if is_cupys(name)}
    finder = Found()
    sys.meta_path.insert(0, finder)
    yield finder.asked
    sys.meta_path.remove(finder)
    for name in filter(is_cupys, list(sys.modules)):
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.parametrize("module", LIBRARIES)
def test_the_first_use_of_a_library_is_refused_before_it_is_loaded(
    small: Small, unloaded: list[str], module: str
) -> None:
    name, remedy = LIBRARIES[module]
    importlib.import_module(module.rpartition(".")[0])
    unloaded.clear()
    refusal = refusal_of(small, in_window(lambda: importlib.import_module(module)))
    assert type(refusal) is LibraryNotReady and remedy in refusal.remedy
    assert f"CuPy would load {name} in the capture window of 'step'" in refusal.reason
    assert "its priming pass did not use" in refusal.reason
    assert "test_cupy_first.py:" in str(refusal.where)
    assert unloaded == [] and module not in sys.modules
    importlib.import_module(module)


def test_other_threads_and_other_modules_are_loaded_meanwhile(
    small: Small, unloaded: list[str]
) -> None:
    def act() -> None:
        importlib.import_module("cupy.fft")
        elsewhere(lambda: importlib.import_module(CUBLAS))
        importlib.import_module(CUBLAS)  # it is loaded by now

    small.ready(body=body_of(small, in_window(act)))
    assert unloaded[-1] == CUBLAS and "cupy.fft" in unloaded


def test_a_library_that_the_priming_pass_used_is_loaded_by_then(
    small: Small, unloaded: list[str]
) -> None:
    small.ready(body=body_of(small, lambda: importlib.import_module(CUBLAS)))
    assert unloaded[-1] == CUBLAS and fake.handles == ["cuBLAS"]


# ---- before a window ----


def test_handles_are_there_of_loaded_libraries_alone_and_in_the_windows_thread(
    small: Small, unloaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, int, str]] = []

    def handle() -> None:
        status = driver.stream.capture_status(small.stream)
        made.append(("cuBLAS", threading.get_ident(), status))

    monkeypatch.setattr(fake.cupy.cuda, "get_cublas_handle", handle)
    step = small.step(body=body_of(small, lambda: None))
    elsewhere(lambda: (small.rig.device.make_current(), step.prime()))
    step.capture()
    assert made == [] and fake.handles == [] and unloaded == []
    importlib.import_module(CUBLAS)
    small.ready(body=body_of(small, lambda: None))
    assert made == [("cuBLAS", threading.get_ident(), "none")]


def test_copies_that_were_sent_are_over_before_the_capture_begins(
    small: Small, heard: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    """CuPy asks their events before the next one, and an event that is asked breaks a capture."""
    step = small.step(body=body_of(small, lambda: fake.alloc_pinned_memory(64)))
    step.prime()
    assert fake.pinned_pool.asked == [64]
    other = fake._BaseStream(driver.stream.create(), 0).use()
    try:
        with heard() as calls, pytest.raises(PageableHostMemory):
            step.capture()
    finally:
        fake.NULL.use()
        driver.stream.destroy(other.ptr)
    begin = calls.index("cuStreamBeginCapture")
    assert calls[:begin].count("cuStreamSynchronize") == 2, "of the step, and CuPy's current one"
    assert fake.pinned_pool.asked[1] == 1, "behind those waits: CuPy lets go of what is over"


def test_a_part_is_made_ready_by_its_priming_pass_for_it_joins_a_capture(
    small: Small, unloaded: list[str]
) -> None:
    importlib.import_module(CUBLAS)
    part = small.part(body_of(small, lambda: None))
    part.prime(small.stream)
    assert fake.handles == ["cuBLAS"]
    with small.their_capture():
        part.record(small.stream)
    assert fake.handles == ["cuBLAS"]


def test_several_blocks_of_a_body_are_made_ready_once(small: Small, unloaded: list[str]) -> None:
    importlib.import_module(CUBLAS)
    one = of(small, lambda stream: None)

    def body(stream: int) -> None:
        one(stream)
        one(stream)
        small.add(stream, BLOCKS, 128, small.y, small.x, N)

    small.ready(body=body)
    assert fake.handles == ["cuBLAS"]


def test_what_cannot_be_made_ready_is_logged_and_the_window_goes_on(
    small: Small,
    unloaded: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("cublas", "cusparse"):
        importlib.import_module(f"cupy_backends.cuda.libs.{name}")
    monkeypatch.setattr(fake.cupy.cuda, "alloc_pinned_memory", fails)
    monkeypatch.setattr(fake.cupy.cuda, "get_cublas_handle", lambda: fails(0))
    with caplog.at_level(logging.WARNING, "lowgraph.interop"):
        assert small.ready(body=body_of(small, lambda: None)).phase is Phase.READY
    assert [message.partition("window: ")[2] for message in caplog.messages] == [
        "its copies: 'no memory'",
        "cuBLAS: 'no memory'",
    ]
    assert fake.handles == ["cuSPARSE"], "one that fails takes none of the others with it"


def test_a_context_that_is_lost_is_no_warning(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(nbytes: int) -> None:
        raise ContextPoisoned("cuStreamSynchronize", "", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "")

    step = small.step(body=body_of(small, lambda: None))
    step.prime()
    monkeypatch.setattr(fake.cupy.cuda, "alloc_pinned_memory", lost)
    with pytest.raises(ContextPoisoned):
        step.capture()
