"""A stale error of a shared CUDA runtime: taken away at the border, logged with its origin."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lowgraph.interop.runtime_errors import loaded_runtimes, take_stale

MEMORY, ILLEGAL = 2, 700


class Runtime:
    """As libcudart: a thread's last error, which asking takes away, unless it stays."""

    _name = "libcudart.so.0"

    def __init__(self, code: int, stays: int = 0) -> None:
        self.code = code
        self.stays = stays
        self.cudaGetErrorName = Name()

    def cudaPeekAtLastError(self) -> int:
        return self.code

    def cudaGetLastError(self) -> int:
        code, self.code = self.code, self.stays
        return code


class Name:
    restype: Any = None

    def __call__(self, code: int) -> bytes:
        assert self.restype is ctypes.c_char_p
        return b"cudaErrorMemoryAllocation"


def test_a_stale_error_is_taken_away_and_logged_with_its_origin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime = Runtime(0)
    assert take_stale("step.py:1", lambda: [runtime]) == []
    runtime.code = MEMORY
    with caplog.at_level(logging.WARNING, "lowgraph.interop"):
        (stale,) = take_stale("step.py:2", lambda: [runtime])
    assert runtime.code == 0 and (stale.code, stale.name) == (2, "cudaErrorMemoryAllocation")
    assert (stale.since, stale.until) == ("step.py:1", "step.py:2")
    assert caplog.messages == [str(stale)]
    assert "libcudart.so.0 had a stale error, 2 cudaErrorMemoryAllocation" in caplog.messages[0]
    assert "in this thread between step.py:1 and step.py:2" in caplog.messages[0]
    assert take_stale("step.py:3", lambda: [runtime]) == []


def test_places_are_each_threads_own() -> None:
    take_stale("here.py:1", list)
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.extend(take_stale("there.py:1", lambda: [Runtime(MEMORY)]))
    )
    thread.start()
    thread.join()
    assert found[0].since == "the thread's start"


def test_what_loses_the_context_stays(caplog: pytest.LogCaptureFixture) -> None:
    """Every call answers it from then on: it is nobody's stale error."""
    runtime = Runtime(ILLEGAL, stays=ILLEGAL)
    assert take_stale("step.py:1", lambda: [runtime]) == []
    assert runtime.code == ILLEGAL and not caplog.messages


@pytest.fixture
def cudart() -> Callable[..., Any]:
    pathfinder = pytest.importorskip("cuda.pathfinder")
    try:
        path = pathfinder.load_nvidia_dynamic_lib("cudart").abs_path
    except (pathfinder.DynamicLibNotFoundError, RuntimeError) as error:
        pytest.skip(f"no shared CUDA runtime: {error}")
    return ctypes.CDLL(path)  # type: ignore[return-value]


@pytest.mark.host
def test_a_real_runtime_without_a_driver_has_no_stale_error(
    cudart: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert cudart.cudaPeekAtLastError() != 0, "35, for good"
    assert loaded_runtimes() and take_stale("here.py:1") == [] and not caplog.messages


@pytest.mark.gpu
def test_a_real_runtimes_swallowed_failure(cudart: Any) -> None:
    take_stale("before.py:1")
    pointer = ctypes.c_void_p()
    code = cudart.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 50))
    assert code == MEMORY and cudart.cudaPeekAtLastError() == code
    (stale,) = take_stale("after.py:2")
    assert (stale.code, stale.name) == (MEMORY, "cudaErrorMemoryAllocation")
    assert stale.since == "before.py:1" and cudart.cudaPeekAtLastError() == 0
