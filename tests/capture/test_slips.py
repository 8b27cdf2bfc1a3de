"""Calls that the driver would let slip through a window are refused before it sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.capture.window import Window
from lowgraph.errors import CaptureIncomplete, CaptureRefused, PageableHostMemory
from lowgraph.memory import open_window
from tests.capture.micro import BLOCKS, SOURCE, Micro, N
from tests.capture.test_refusals import assert_sound, only_in_window

PAGEABLE = np.zeros(N, np.float32)


def reached(act: Callable[[], None]) -> list[str]:
    """Names of the driver calls that `act` made."""
    seen: list[str] = []
    before = driver.gate.observer
    driver.gate.observer = lambda name, args, code: seen.append(name)
    try:
        act()
    finally:
        driver.gate.observer = before
    return seen


def in_window(micro: Micro, act: Callable[[Micro], object]) -> list[str]:
    """Run act in a window behind one launch; the calls it made. Raises what the window raises."""
    seen: list[str] = []
    with Window(micro.stream, pool=micro.pool, library=micro.rig.library, label="step") as window:
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
        seen = reached(lambda: act(micro) and None)
    window.discard()
    return seen


SYNC_COPIES: dict[str, Callable[[Micro], object]] = {
    "cuMemcpyHtoD": lambda m: driver.gate.call(
        cu.cuMemcpyHtoD, m.x.address, PAGEABLE.ctypes.data, m.x.nbytes),
    "cuMemcpyDtoH": lambda m: driver.gate.call(
        cu.cuMemcpyDtoH, PAGEABLE.ctypes.data, m.x.address, m.x.nbytes),
    "cuMemcpyDtoD": lambda m: driver.gate.call(
        cu.cuMemcpyDtoD, m.y.address, m.x.address, m.x.nbytes),
    "cuMemsetD8": lambda m: driver.gate.call(cu.cuMemsetD8, m.x.address, 0, m.x.nbytes),
}  # fmt: skip


@pytest.mark.parametrize("name", SYNC_COPIES)
def test_a_synchronous_copy_is_refused_and_never_runs(micro: Micro, name: str) -> None:
    before = micro.state()
    with pytest.raises(CaptureIncomplete, match=f"{name} was called .* run at once"):
        in_window(micro, SYNC_COPIES[name])
    assert_sound(micro)
    assert micro.state() == before, "nothing was recorded, and nothing ran"


def pageable_in(micro: Micro) -> None:
    driver.memory.copy_htod_async(micro.x.address, PAGEABLE.ctypes.data, 64, micro.stream)


def pageable_out(micro: Micro) -> None:
    driver.memory.copy_dtoh_async(PAGEABLE.ctypes.data, micro.x.address, 64, micro.stream)


def behind_pinned(micro: Micro) -> None:
    slot = micro.pool.staging.slot("short", (8,))
    driver.memory.copy_htod_async(micro.x.address, slot.address, slot.nbytes, micro.stream)


@pytest.mark.parametrize("act", [pageable_in, pageable_out])
def test_a_pageable_address_is_refused_and_the_run_goes_on(
    micro: Micro, act: Callable[[Micro], None]
) -> None:
    micro.extra = only_in_window(micro, act)
    step = micro.step()
    step()
    step()
    first = step.report().first_refusal
    assert "names 64 bytes of pageable host memory" in first and "test_slips.py:" in first
    assert micro.said[0].startswith("lowgraph: step: no graph: PageableHostMemory: ")
    assert micro.state()[0] == 2
    assert_sound(micro)


def test_bytes_behind_the_end_of_a_pinned_slot_are_not_pinned_by_it(micro: Micro) -> None:
    slot = micro.pool.staging.slot("short", (8,))
    assert driver.memory.is_pinned_here(slot.address, slot.nbytes)
    assert driver.memory.is_pinned_here(slot.address + 4, slot.nbytes - 4)
    assert not driver.memory.is_pinned_here(slot.address, slot.nbytes + 1)
    address = slot.address
    slot.close()
    assert not driver.memory.is_pinned_here(address, 1)


@pytest.fixture
def foreign() -> Iterator[int]:
    """Pinned memory that lowgraph did not allocate."""
    code, pointer = cu.cuMemHostAlloc(4096, 0)
    assert not code
    yield int(pointer)
    cu.cuMemFreeHost(pointer)


def test_memory_that_another_library_pinned_may_be_copied_from(micro: Micro, foreign: int) -> None:
    def act(m: Micro) -> None:
        driver.memory.copy_htod_async(m.x.address, foreign, 64, m.stream)

    assert "cuMemcpyHtoDAsync" in in_window(micro, act)
    assert_sound(micro)


def test_a_refused_pageable_copy_is_not_sent(micro: Micro) -> None:
    def act(m: Micro) -> None:
        with pytest.raises(PageableHostMemory):
            pageable_in(m)

    seen: list[str] = []
    with pytest.raises(PageableHostMemory):
        seen += in_window(micro, lambda m: seen.extend(reached(lambda: act(m))))
    assert "cuPointerGetAttribute" in seen and "cuMemcpyHtoDAsync" not in seen


OTHER_STREAM: dict[str, Callable[[Micro, int], None]] = {
    "cuMemsetD32Async": lambda m, s: driver.memory.memset_d32_async(m.x.address, 0, 4, s),
    "cuLaunchHostFunc": lambda m, s: driver.entry.launch_host_function(s, 0),
    "kernel advance": lambda m, s: m.advance(s, 1, 1, m.counter, m.rate),
}


@pytest.mark.parametrize("what", OTHER_STREAM)
def test_work_for_a_stream_outside_the_capture_is_refused(micro: Micro, what: str) -> None:
    with pytest.raises(CaptureIncomplete, match=f"{what} was sent to stream 0x0"):
        in_window(micro, lambda m: OTHER_STREAM[what](m, 0))
    assert_sound(micro)


def test_a_window_inside_a_window_is_refused_with_where_the_outer_one_began(micro: Micro) -> None:
    def act(m: Micro) -> None:
        other = driver.stream.create()
        try:
            with Window(other, pool=m.pool, label="inner"):
                m.forward(other, BLOCKS, 128, m.y, m.x, N)
        finally:
            open_window.LOCK.acquire()  # the refusal must not have given the outer lock away
            open_window.LOCK.release()

    with pytest.raises(
        CaptureRefused, match=r"'inner' begins inside the window of 'step'.*test_sl"
    ):
        in_window(micro, act)
    assert_sound(micro)


def test_swallowing_the_refusal_of_a_module_load_does_not_save_the_capture(micro: Micro) -> None:
    def act(m: Micro) -> None:
        with pytest.raises(CaptureRefused):
            m.rig.library.kernel(SOURCE, "advance", {"NEVER_BUILT": 1})

    with pytest.raises(CaptureRefused, match=r"test_slips.py:\d+: kernel advance of step.cu would"):
        in_window(micro, act)
    assert_sound(micro)
