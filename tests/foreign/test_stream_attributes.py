"""A stream's attributes: kept, told, copied; what the recorded scenarios do not ask for.

Their codes in captures are recorded in tests/traces (`cuStreamSetAttribute`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import Device

pytestmark = pytest.mark.host

SUCCESS, INVALID_VALUE, INVALID_HANDLE = 0, 1, 400
NAMES = cu.CUlaunchAttributeID
WINDOW = NAMES.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
POLICY = NAMES.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
CLUSTER = NAMES.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
AUTO = cu.CUsynchronizationPolicy.CU_SYNC_POLICY_AUTO
BLOCKING = cu.CUsynchronizationPolicy.CU_SYNC_POLICY_BLOCKING_SYNC
MOST = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE
PER_THREAD, UNSET = 2, -1


@pytest.fixture
def streams(device: Device) -> Iterator[tuple[Any, Any]]:
    pair = cu.cuStreamCreate(1)[1], cu.cuStreamCreate(1)[1]
    yield pair
    for stream in pair:
        assert int(cu.cuStreamDestroy(stream)[0]) == SUCCESS


def waiting(policy: Any) -> Any:
    value = cu.CUstreamAttrValue()
    value.syncPolicy = policy
    return value


def window(nbytes: int) -> Any:
    value = cu.CUstreamAttrValue()
    held = value.accessPolicyWindow
    held.num_bytes, held.hitRatio = nbytes, 0.5
    value.accessPolicyWindow = held
    return value


def code_of_set(stream: Any, which: Any, value: Any) -> int:
    return int(cu.cuStreamSetAttribute(stream, which, value)[0])


def told(stream: Any, which: Any) -> Any:
    code, value = cu.cuStreamGetAttribute(stream, which)
    assert int(code) == SUCCESS
    return value


def policy_of(stream: Any) -> int:
    """The number: -1 of a stream that has none, which the bindings' enum does not know."""
    return ctypes.c_int.from_address(told(stream, POLICY).getPtr()).value


def test_both_are_kept_and_copied(streams: tuple[Any, Any]) -> None:
    first, second = streams
    assert policy_of(first) == UNSET
    assert told(first, WINDOW).accessPolicyWindow.num_bytes == 0
    assert code_of_set(first, POLICY, waiting(BLOCKING)) == SUCCESS
    assert code_of_set(first, WINDOW, window(4096)) == SUCCESS
    assert policy_of(second) == UNSET, "it is the other stream's"
    assert int(cu.cuStreamCopyAttributes(second, first)[0]) == SUCCESS
    assert policy_of(second) == BLOCKING
    held = told(second, WINDOW).accessPolicyWindow
    assert (held.num_bytes, held.hitRatio) == (4096, 0.5)


def test_a_window_is_as_large_as_the_device_says(streams: tuple[Any, Any]) -> None:
    most = int(cu.cuDeviceGetAttribute(MOST, 0)[1])
    assert most > 0
    assert code_of_set(streams[0], WINDOW, window(most)) == SUCCESS
    assert code_of_set(streams[0], WINDOW, window(most + 1)) == INVALID_VALUE
    assert told(streams[0], WINDOW).accessPolicyWindow.num_bytes == most


def test_what_is_no_stream_or_no_attribute_of_one(streams: tuple[Any, Any]) -> None:
    stream, nobody = streams[0], cu.CUstream(ctypes.addressof(ctypes.c_int(0)))
    assert code_of_set(nobody, POLICY, waiting(AUTO)) == INVALID_HANDLE
    assert int(cu.cuStreamGetAttribute(nobody, POLICY)[0]) == INVALID_HANDLE
    assert int(cu.cuStreamCopyAttributes(stream, nobody)[0]) == INVALID_HANDLE
    assert int(cu.cuStreamCopyAttributes(nobody, stream)[0]) == INVALID_HANDLE
    assert code_of_set(stream, CLUSTER, cu.CUstreamAttrValue()) == INVALID_VALUE
    assert int(cu.cuStreamGetAttribute(stream, CLUSTER)[0]) == INVALID_VALUE


def test_stream_0_of_a_per_thread_program_is_its_own(device: Device) -> None:
    """Found as the symbol that cuda.h gives it there; the legacy stream keeps its setting."""
    library, before = ctypes.CDLL("libcuda.so.1"), policy_of(cu.CUstream(0))
    assert before != BLOCKING
    wanted = ctypes.c_int(int(BLOCKING))
    storage = (ctypes.c_char * 64)()
    ctypes.memmove(storage, ctypes.byref(wanted), 4)
    assert library.cuStreamSetAttribute_ptsz(None, int(POLICY), storage) == SUCCESS
    assert policy_of(cu.CUstream(PER_THREAD)) == BLOCKING
    assert policy_of(cu.CUstream(0)) == before
    assert code_of_set(cu.CUstream(PER_THREAD), POLICY, waiting(AUTO)) == SUCCESS
