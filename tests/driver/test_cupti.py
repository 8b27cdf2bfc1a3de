"""Counting by CUPTI, against a library that calls back as CUPTI's header says."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest

from lowgraph.driver import cupti, memory
from tests.support.rig import Rig


class FakeCupti:
    """subscribe_code, enable_code: what it answers; `call` is a driver call as CUPTI tells it."""

    def __init__(self, subscribe_code: int = 0, enable_code: int = 0) -> None:
        self.subscribe_code = subscribe_code
        self.enable_code = enable_code
        self.callback: Any = None
        self.user: Any = None
        self.domains: list[int] = []
        self.unsubscribed = 0

    def cuptiSubscribe(self, _subscriber: Any, callback: Any, user: Any) -> int:
        self.callback = None if self.subscribe_code else callback
        self.user = user
        return self.subscribe_code

    def cuptiEnableDomain(self, enable: ctypes.c_uint32, _subscriber: Any, domain: int) -> int:
        assert enable.value == 1
        self.domains.append(domain)
        return self.enable_code

    def cuptiUnsubscribe(self, _subscriber: Any) -> int:
        self.unsubscribed += 1
        return 0

    def call(self, name: bytes) -> None:
        for site in (0, 1):  # enter, exit
            data = cupti.CallbackData(site, name)
            self.callback(self.user, 1, 0, ctypes.pointer(data))


def test_each_call_counts_once_under_its_plain_name() -> None:
    library = FakeCupti()
    with cupti.count_calls(lambda: library) as count:
        for name in (b"cuGraphLaunch", b"cuGraphLaunch_ptsz", b"cuMemAlloc_v2"):
            library.call(name)
    assert count.counted_by == "CUPTI"
    assert count.calls == {"cuGraphLaunch": 2, "cuMemAlloc": 1}
    assert library.domains == [1]  # the driver API
    assert library.unsubscribed == 1


def test_a_call_after_the_counting_finds_its_callback_and_counts_nowhere() -> None:
    """Nobody waits for a thread on its way into it, which died in the code of a freed one."""
    library, addresses = FakeCupti(), set()
    for _ in range(3):
        with cupti.count_calls(lambda: library) as count:
            addresses.add(ctypes.cast(library.callback, ctypes.c_void_p).value)
            late = library.callback, library.user
        with cupti.count_calls(lambda: library) as other:
            library.callback, library.user = late
            library.call(b"cuLaunchKernel")
        assert count.calls == other.calls == {}
    assert len(addresses) == 1


def test_calls_of_pythons_threads_are_told_apart_though_they_have_ended() -> None:
    library, here = FakeCupti(), threading.get_native_id()
    with cupti.count_calls(lambda: library) as count:
        thread = threading.Thread(target=library.call, args=(b"cuCtxSynchronize",))
        thread.start()
        thread.join()
        library.call(b"cuLaunchKernel")
    assert count.calls == {"cuCtxSynchronize": 1, "cuLaunchKernel": 1}
    assert count.of_c_code(here) == {"cuLaunchKernel": 1}


@pytest.mark.parametrize(
    ("library", "unsubscribed"),
    [(None, 0), (FakeCupti(subscribe_code=39), 0), (FakeCupti(enable_code=1), 1)],
)
def test_what_cannot_count_says_so(library: FakeCupti | None, unsubscribed: int) -> None:
    with cupti.count_calls(lambda: library) as count:
        pass
    assert count.counted_by == ""
    assert library is None or library.unsubscribed == unsubscribed


def test_an_error_inside_ends_the_subscription() -> None:
    library = FakeCupti()
    with pytest.raises(RuntimeError), cupti.count_calls(lambda: library):
        raise RuntimeError
    assert library.unsubscribed == 1


@pytest.mark.both
def test_a_device_counts_what_reaches_the_driver(rig: Rig) -> None:
    buffer = rig.empty((64,), "uint8")
    with rig.device.count_calls() as count:
        for _ in range(3):
            memory.memset_d8_async(buffer.address, 0, 64, rig.stream)
    rig.sync()
    if not count.counted_by:
        pytest.skip("CUPTI is not on this machine, or another profiler has it")
    assert {name: n for name, n in count.calls.items() if "Mem" in name} == {"cuMemsetD8Async": 3}
