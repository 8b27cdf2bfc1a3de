"""What the host device has beside the driver API: counts, planned failures, its own life."""

from __future__ import annotations

import ctypes
import os
import threading

import pytest
from cuda.bindings import driver as cu

from lowgraph.errors import ConfigError
from lowgraph.hostdev import control
from tests.hostdev.driver.kit import INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, Kit, code_of, must
from tests.support.process import output_of

pytestmark = pytest.mark.host


def test_calls_are_counted_by_their_public_name(kit: Kit) -> None:
    control.reset_calls()
    x = must(cu.cuMemAlloc(256))
    assert code_of(cu.cuMemAlloc(0)) == INVALID_VALUE
    must(cu.cuMemsetD8Async(x, 0, 256, 0))
    must(cu.cuMemFree(x))
    assert control.all_calls() == {"cuMemAlloc": 2, "cuMemsetD8Async": 1, "cuMemFree": 1}
    assert control.calls("cuMemAlloc") == 2
    assert control.calls("cuLaunchKernel") == 0
    control.reset_calls()
    assert control.all_calls() == {}


def test_calls_are_counted_by_thread_while_that_is_wanted(kit: Kit) -> None:
    x, mine = kit.alloc(256), threading.get_native_id()
    context = must(cu.cuCtxGetCurrent())
    theirs: list[int] = []

    def beside() -> None:
        theirs.append(threading.get_native_id())
        must(cu.cuCtxSetCurrent(context))
        must(cu.cuMemsetD8Async(x, 0, 256, 0))

    def both() -> None:
        must(cu.cuMemsetD8Async(x, 0, 256, 0))
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()

    fill = "cuMemsetD8Async"
    control.tally(True)
    both()
    control.tally(True)  # nested: it neither starts anew nor ends the outer one
    both()
    control.tally(False)
    must(cu.cuMemsetD8Async(x, 0, 256, 0))
    seen, python = control.tallied()
    control.tally(False)
    assert (seen[mine, fill], seen[theirs[0], fill], seen[theirs[1], fill]) == (3, 1, 1)
    assert python == {mine, *theirs}, "also those that have ended"
    both()
    assert control.tallied() == ({}, set())


def test_the_nth_call_fails_once_and_does_nothing(kit: Kit) -> None:
    x = kit.put([1.0])
    control.fail("cuMemsetD32Async", 2, OUT_OF_MEMORY)
    codes = [code_of(cu.cuMemsetD32Async(x, value, 1, 0)) for value in (0, 0x40400000, 0)]
    assert codes == [SUCCESS, OUT_OF_MEMORY, SUCCESS]
    assert kit.get(x, 1) == [0.0]


def test_a_planned_failure_can_be_taken_back(kit: Kit) -> None:
    control.fail("cuMemAlloc", 1, OUT_OF_MEMORY)
    control.fail("cuMemAlloc", 0, 0)
    kit.alloc(256)


def test_a_planned_700_is_not_sticky(kit: Kit) -> None:
    control.fail("cuCtxSynchronize", 1, 700)
    assert code_of(cu.cuCtxSynchronize()) == 700
    assert code_of(cu.cuCtxSynchronize()) == SUCCESS


def test_an_annotation_must_lie_inside_one_allocation(kit: Kit) -> None:
    x = kit.alloc(1000)
    control.annotate(x, 1000, control.LIVE, "all")
    for address, nbytes in ((x, 1001), (0x1234, 4), (x, 0)):
        with pytest.raises(ConfigError, match="not inside one live allocation"):
            control.annotate(address, nbytes, control.LIVE, "bad")
    control.annotate(0x1234, 4, control.GONE, "whatever")


def test_work_goes_on_with_other_numbers_of_workers(kit: Kit) -> None:
    x = kit.put([1.0] * 5000)
    for workers in (1, 3, 0):
        control.set_workers(workers)
        kit.scale(x, x, 2.0, 5000)
    assert set(kit.get(x, 5000)) == {8.0}


@pytest.mark.parametrize("call", ["set_memory", "set_workers"])
def test_bad_numbers_are_refused(kit: Kit, call: str) -> None:
    with pytest.raises(ConfigError, match="must be 0"):
        getattr(control, call)(-1)


def test_the_device_says_what_it_is(kit: Kit) -> None:
    ask = cu.CUdevice_attribute
    name = must(cu.cuDeviceGetName(64, 0)).split(b"\0")[0]
    seed = os.environ.get("LOWGRAPH_HOST_SHUFFLE", "")
    assert name.startswith(b"lowgraph host device" + (b", shuffle seed " if seed else b""))
    assert must(cu.cuDeviceGetCount()) == 1
    assert code_of(cu.cuDeviceGet(1)) == 101
    figures = {
        ask.CU_DEVICE_ATTRIBUTE_WARP_SIZE: 32,
        ask.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: 1024,
        ask.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: 1,
        ask.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: 1,
        ask.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: 1,
    }
    for attribute, value in figures.items():
        assert must(cu.cuDeviceGetAttribute(attribute, 0)) == value
    assert must(cu.cuCtxGetStreamPriorityRange()) == (0, -5)


def test_error_names_and_texts(kit: Kit) -> None:
    error = cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert must(cu.cuGetErrorName(error)) == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    assert must(cu.cuGetErrorString(error)) == b"an illegal memory access was encountered"
    text = ctypes.c_char_p()
    assert kit.library.cuGetErrorName(123456, ctypes.byref(text)) == INVALID_VALUE
    for code in cu.CUresult:
        if int(code) < 1000 and code_of(cu.cuGetErrorName(code)) == SUCCESS:
            assert must(cu.cuGetErrorName(code)).decode() == code.name


BEFORE_INIT = """
import ctypes
from lowgraph import hostdev
hostdev.load()
from cuda.bindings import driver as cu
answers = (cu.cuMemAlloc(4), cu.cuInit(0), cu.cuMemAlloc(4), cu.cuCtxGetCurrent())
print([int(answer[0]) for answer in answers])
"""


def test_a_process_without_a_context(kit: Kit) -> None:
    assert output_of(BEFORE_INIT).strip() == "[3, 0, 201, 0]"


CONTEXTS = """
import threading
from lowgraph import hostdev
hostdev.load()
from cuda.bindings import driver as cu
def code(answer): return int(answer[0])
cu.cuInit(0)
primary = cu.cuDevicePrimaryCtxRetain(0)[1]
cu.cuCtxPushCurrent(primary)
x = cu.cuMemAlloc(64)[1]
seen = []
thread = threading.Thread(target=lambda: seen.append(code(cu.cuMemAlloc(4))))
thread.start(); thread.join()
print(seen, code(cu.cuCtxPopCurrent()), code(cu.cuMemAlloc(4)), code(cu.cuCtxPopCurrent()))
cu.cuCtxSetCurrent(primary)
print(code(cu.cuMemcpyDtoD(x, x, 4)), code(cu.cuDevicePrimaryCtxRelease(0)), code(cu.cuMemAlloc(4)))
print(int(cu.cuDevicePrimaryCtxGetState(0)[2]), code(cu.cuDevicePrimaryCtxRelease(0)))
again = cu.cuDevicePrimaryCtxRetain(0)[1]
print(int(again) == int(primary), code(cu.cuMemcpyDtoD(x, x, 4)))
"""


def test_the_current_context_is_the_threads_and_its_end_ends_its_memory(kit: Kit) -> None:
    lines = output_of(CONTEXTS).splitlines()
    assert lines == ["[201] 0 201 201", "0 0 709", "0 201", "True 1"]


FORKED = """
import os
from lowgraph.driver import open_device
from cuda.bindings import driver as cu
open_device("host")
child = os.fork()
if child == 0:
    os._exit(int(cu.cuMemAlloc(4)[0]))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(cu.cuMemAlloc(4)[0]))
"""


def test_a_forked_child_is_refused_and_does_not_hang(kit: Kit) -> None:
    assert output_of(FORKED).strip() == "3 0"
