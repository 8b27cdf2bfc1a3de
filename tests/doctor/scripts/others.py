"""Captures that lowgraph has no part in: a good one, and one for each thing that can go wrong."""

from __future__ import annotations

import ctypes
import threading

from cuda.bindings import driver as cu
from parts import N, device, mode_of, raw_add, stream, y

from lowgraph import driver
from lowgraph.driver import event
from lowgraph.errors import CaptureError

LOCAL, RELAXED = mode_of("THREAD_LOCAL"), mode_of("RELAXED")


def end() -> int:
    """End the capture; returns the code."""
    return int(cu.cuStreamEndCapture(stream)[0])


def in_thread(act) -> None:  # type: ignore[no-untyped-def]
    """Run it in another thread, to its end."""

    def run() -> None:
        device.make_current()
        act()  # WAITS

    other = threading.Thread(target=run)
    other.start()
    other.join()


for _ in range(3):
    cu.cuStreamBeginCapture(stream, LOCAL)  # GOOD
    raw_add(stream)
    cu.cuMemsetD8Async(y.address, 0, N, stream)
    assert end() == 0

cu.cuStreamBeginCapture(stream, LOCAL)  # BROKEN
assert int(cu.cuMemAlloc(256)[0]) == 900  # BREAKS
for _ in range(2):
    assert int(cu.cuLaunchKernel(*raw_add.words(stream))[0]) == 901  # REFUSED
assert end() == 901

cu.cuStreamBeginCapture(stream, LOCAL)  # IN C
assert ctypes.CDLL("libcuda.so.1").cuCtxSynchronize() == 900  # WAITS IN C
assert end() == 901

cu.cuStreamBeginCapture(stream, LOCAL)  # OTHER THREAD
in_thread(lambda: cu.cuMemsetD8Async(y.address, 0, N, 0))
in_thread(
    cu.cuCtxSynchronize,
)
assert end() == 901

driver.stream.begin_capture(stream)  # UNJOINED
side, fork = driver.stream.create(), event.create()
event.record(fork, stream)
driver.stream.wait_event(side, fork)
raw_add(side)
try:
    driver.stream.end_capture(stream)
except CaptureError as error:
    assert error.code == 904

cu.cuStreamBeginCapture(stream, LOCAL)  # LEAKY
raw_add(stream)
assert int(cu.cuLaunchKernel(*raw_add.words(0))[0]) == 0  # ELSEWHERE
assert int(cu.cuMemsetD8(y.address, 0, N)[0]) == 0  # AT ONCE
assert end() == 0

cu.cuStreamBeginCapture(stream, RELAXED)
raw_add(stream)
code, block = cu.cuMemAlloc(256)  # LET THROUGH
assert end() == 0
cu.cuMemFree(block)

cu.cuStreamBeginCapture(stream, LOCAL)  # NODE
code, block = cu.cuMemAllocAsync(256, stream)
assert end() == 0

cu.cuStreamBeginCapture(stream, LOCAL)  # EMPTY
assert end() == 0
print("codes as ever")
