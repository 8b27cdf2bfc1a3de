"""The thin calls on a real device: memory, streams, events, modules, launches."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from lowgraph import counters, driver
from lowgraph.driver import entry, event, launch, memory, module, stream
from lowgraph.errors import ConfigError, DriverError, OutOfMemory
from lowgraph.kernels import Kernel
from tests.support.rig import Rig

pytestmark = pytest.mark.both

KERNELS = Path(__file__).with_name("kernels.cu")


@pytest.fixture
def scale(rig: Rig) -> Kernel:
    return rig.library.kernel(KERNELS, "scale")


def test_device_describes_itself(rig: Rig) -> None:
    device = rig.device
    assert device is driver.current()
    assert device.multiprocessors > 0
    assert device.total_memory >= memory.info()[0] > 0
    assert device.driver_version >= 12040
    assert device.title
    if device.spec == "host":
        assert device.arch.startswith("host-")
        assert device.blas_backend == "kernel"
    else:
        assert device.arch.startswith("sm_")
        assert device.blas_backend == "cublas"


def test_copies_there_and_back(rig: Rig) -> None:
    array = np.arange(1000, dtype=np.float32)
    first = rig.put(array)
    second = rig.empty(array.shape)
    assert np.isnan(rig.get(second)).all()
    memory.copy_dtod_async(second.address, first.address, first.nbytes, rig.stream)
    np.testing.assert_array_equal(rig.get(second), array)


def test_fills(rig: Rig) -> None:
    buffer = rig.put(np.zeros(8, np.uint32))
    memory.memset_d32_async(buffer.address, 0xDEADBEEF, 4, rig.stream)
    memory.memset_d8_async(buffer.address + 16, 0x5A, 8, rig.stream)
    expected = [0xDEADBEEF] * 4 + [0x5A5A5A5A] * 2 + [0, 0]
    assert rig.get(buffer).tolist() == expected


def test_pinned_memory_is_seen_by_the_device(rig: Rig, scale: Kernel) -> None:
    pinned = memory.host_alloc(64)
    try:
        view = np.ctypeslib.as_array((ctypes.c_float * 16).from_address(pinned))
        view[:] = np.arange(16)
        address = memory.host_device_pointer(pinned)
        scale(rig.stream, 1, 16, address, address, 2.0, 16)
        rig.sync()
        assert view.tolist() == [2.0 * i for i in range(16)]
    finally:
        memory.host_free(pinned)


def test_out_of_memory_names_the_bytes(rig: Rig) -> None:
    with pytest.raises(OutOfMemory) as caught:
        memory.alloc(1 << 60)
    assert caught.value.nbytes == 1 << 60
    assert str(1 << 60) in str(caught.value)
    assert rig.get(rig.put([1.0])).tolist() == [1.0]  # the device is not harmed


def test_free_of_a_stray_address_is_an_error(rig: Rig) -> None:
    with pytest.raises(DriverError, match="cuMemFree"):
        memory.free(12345)


def test_streams_have_the_kind_asked_for(rig: Rig) -> None:
    blocking = stream.create(non_blocking=False)
    try:
        assert stream.is_blocking(blocking)
        assert not stream.is_blocking(rig.stream)
    finally:
        stream.destroy(blocking)


def test_query_is_false_while_work_is_in_flight(rig: Rig) -> None:
    released = []
    wait = entry.HOST_FUNCTION(lambda _: _wait_for(released))
    address = ctypes.cast(wait, ctypes.c_void_p).value
    assert address is not None
    mark = event.create()
    entry.launch_host_function(rig.stream, address)
    event.record(mark, rig.stream)
    assert (stream.is_done(rig.stream), event.is_done(mark)) == (False, False)
    released.append(True)
    event.synchronize(mark)
    rig.sync()
    assert (stream.is_done(rig.stream), event.is_done(mark)) == (True, True)
    event.destroy(mark)


def _wait_for(released: list[bool]) -> None:
    import time

    give_up = time.monotonic() + 10
    while not released and time.monotonic() < give_up:
        time.sleep(0.001)


def test_events_order_two_streams(rig: Rig, scale: Kernel) -> None:
    other = stream.create()
    mark = event.create()
    x = rig.put(np.full(1 << 16, 3.0, np.float32))
    y, z = rig.empty(x.shape), rig.empty(x.shape)
    n = x.shape[0]
    for _ in range(5):
        scale(rig.stream, n // 256, 256, y, x, 2.0, n)
        event.record(mark, rig.stream)
        stream.wait_event(other, mark)
        scale(other, n // 256, 256, z, y, 5.0, n)
        event.record(mark, other)
        stream.wait_event(rig.stream, mark)
    assert (rig.get(z) == 30.0).all()
    event.destroy(mark)
    stream.destroy(other)


def test_timing_events_measure(rig: Rig, scale: Kernel) -> None:
    begin, end = event.create(timing=True), event.create(timing=True)
    x = rig.put(np.ones(1 << 16, np.float32))
    event.record(begin, rig.stream)
    scale(rig.stream, 256, 256, x, x, 1.0, 1 << 16)
    event.record(end, rig.stream)
    rig.sync()
    assert event.elapsed_ms(begin, end) > 0
    event.destroy(begin)
    event.destroy(end)


def test_function_facts(rig: Rig, scale: Kernel) -> None:
    assert module.function_name(scale.handle) == "scale"
    assert [module.param_info(scale.handle, i) for i in range(5)] == [
        (0, 8),
        (8, 8),
        (16, 4),
        (20, 4),
        None,
    ]
    module.make_resident(scale.handle)
    assert module.is_resident(scale.handle)


def test_missing_function_is_an_error_by_name(rig: Rig) -> None:
    image = rig.device.compile(KERNELS, (KERNELS.parent,), {})
    handle = module.load_data(image)
    with pytest.raises(DriverError, match=r"cuModuleGetFunction.*b'nothing'"):
        module.get_function(handle, "nothing")
    module.unload(handle)


def test_image_of_the_wrong_kind_is_refused(rig: Rig) -> None:
    with pytest.raises(DriverError, match="cuModuleLoadData"):
        module.load_data(b"neither a cubin nor a shared object" + bytes(100))


def test_every_argument_kind_arrives(rig: Rig) -> None:
    echo = rig.library.kernel(KERNELS, "echo")
    out = rig.empty(9, np.float64)
    given = (True, 200, -300, -70000, 4_000_000_000, -(2**40), 2**52 + 1, 0.5, 1e300)
    echo(rig.stream, 1, 32, out, *given)
    assert rig.get(out).tolist() == [float(value) for value in given]


def test_dynamic_shared_memory_is_allowed_when_asked_for(rig: Rig) -> None:
    reverse = rig.library.kernel(KERNELS, "reverse_blocks")
    x = rig.put(np.arange(512, dtype=np.float32))
    expected = np.arange(512).reshape(2, 256)[:, ::-1].ravel()
    for shared in (256 * 4, 64 * 1024):  # the second is above what needs no attribute
        y = rig.empty(512)
        reverse(rig.stream, 2, 256, y, x, shared=shared)
        assert rig.get(y).tolist() == expected.tolist()


def test_launch_errors_name_the_kernel_and_its_sizes(rig: Rig, scale: Kernel) -> None:
    config = launch.LaunchConfig(rig.stream, 1, (1024, 2, 1))
    with pytest.raises(DriverError, match=r"cuLaunchKernelEx\(.*block=\(1024, 2, 1\).*scale"):
        launch.launch(config, scale._function, scale.pack.address)


@pytest.mark.parametrize("size", [0, -1, (1, 0), (1, 1, 1, 1), (), 1.5, "1", None, (1, 2.0)])
def test_launch_sizes_are_checked(size: object) -> None:
    with pytest.raises(ConfigError, match=r"grid .*one to three integers"):
        launch.LaunchConfig(0, size, 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="launch configuration"):
        launch.LaunchConfig(0, 2**32, 1)


def test_host_view_is_device_memory_itself(rig: Rig) -> None:
    buffer = rig.put(np.arange(4, dtype=np.float32))
    view = rig.device.host_view(buffer.address, buffer.nbytes)
    if rig.device.spec == "host":
        assert view is not None
        assert np.frombuffer(view, np.float32).tolist() == [0, 1, 2, 3]
    else:
        assert view is None


def test_counters_see_the_calls_of_a_scope(rig: Rig, scale: Kernel) -> None:
    x = rig.put(np.ones(4, np.float32))
    with counters.scope() as counts:
        scale(rig.stream, 1, 4, x, x, 2.0, 4)
        scale(rig.stream, 1, 4, x, x, 2.0, 4)
        memory.memset_d8_async(x.address, 0, 4, rig.stream)
        rig.sync()
    assert (counts.launches, counts.fills, counts.syncs, counts.copies) == (2, 1, 1, 0)
    assert counts.allocations == 0
