"""The libraries behind CuPy: their first use in a window, and what is ready before one.

With CuPy's entry points recorded (fake_cupy), and the pool, the window and the graph real.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import ContextPoisoned, LibraryNotReady, PageableHostMemory
from tests.embedding import fake_cupy as fake
from tests.embedding.cupy_body import of
from tests.embedding.first_body import body_of, elsewhere, fails, in_window, refusal_of
from tests.embedding.small import BLOCKS, N, Small

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("recorded")]

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
    assert "test_cupy_libraries.py:" in str(refusal.where)
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
