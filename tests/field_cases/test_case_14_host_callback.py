"""Case 14: a host callback in the graph outlives nothing: it must be kept alive for each replay."""

from __future__ import annotations

import ctypes
import gc
import weakref

import pytest

from lowgraph import driver
from lowgraph.capture import HostCall, Phase, raise_pending
from lowgraph.errors import CudaInHostCallback, HostCallbackError
from tests.capture.micro import Micro
from tests.field_cases.bare import Bare, types_of
from tests.support.process import run_python


def _address(callback: object) -> int:
    return int(ctypes.cast(callback, ctypes.c_void_p).value or 0)  # type: ignore[arg-type]


def test_bare_the_graph_keeps_nothing_alive(bare: Bare) -> None:
    """The node's function is gone while the node is there; a replay would jump into it."""
    calls: list[int] = []
    callback = driver.entry.HOST_FUNCTION(lambda data: calls.append(1))
    alive, address = weakref.ref(callback), _address(callback)
    graph = bare.record(lambda: driver.entry.launch_host_function(bare.stream, address))
    del callback
    gc.collect()
    assert types_of(graph) == {"host": 1} and alive() is None and calls == []


@pytest.mark.both
def test_bare_through_the_bindings_the_second_replay_may_crash(
    request: pytest.FixtureRequest,
) -> None:
    """cuda-bindings before 13.5 serve a captured host function once; later ones each time."""
    spec = request.config.getoption("--device")
    done = run_python(_THROUGH_THE_BINDINGS.format(spec=spec))
    passes_through = done.returncode == 0 and done.stdout.split() == ["3"]
    version = _bindings_version()
    assert passes_through == (version >= (13, 5)), (version, done.returncode, done.stdout)


def test_by_the_entry_point_every_replay_calls_it(micro: Micro) -> None:
    calls: list[int] = []
    callback = driver.entry.HOST_FUNCTION(lambda data: calls.append(int(data or 0)))
    micro.extra = lambda number: driver.entry.launch_host_function(
        micro.stream, _address(callback), 7
    )
    step = micro.step()
    for _ in range(6):  # one eager, five replays
        step()
        gc.collect()
    micro.rig.sync()
    assert step.phase is Phase.READY and step.report().nodes_by_type == {"kernel": 4, "host": 1}
    assert calls == [7] * 6
    step.close()


def test_a_host_call_is_the_graphs_until_it_is_closed(micro: Micro) -> None:
    """The repro: drop every reference, collect, replay five times; then close."""
    calls: list[int] = []
    callback = _Callback(calls)
    alive = weakref.ref(callback)
    micro.extra = lambda number, call=callback: HostCall(call, "count").enqueue(micro.stream)
    step = micro.step()
    step.prime()
    step.capture()
    micro.extra = lambda number: None
    del callback
    micro.rig.sync()
    calls.clear()
    for _ in range(5):
        gc.collect()
        step()
    micro.rig.sync()
    assert len(calls) == 5 and alive() is not None
    step.close()
    gc.collect()
    assert alive() is None


def test_what_a_host_call_raises_comes_with_its_replay(micro: Micro) -> None:
    def fail() -> None:
        raise ValueError("no")

    micro.extra = lambda number: HostCall(fail, "log").enqueue(micro.stream)
    step = micro.step()
    step.prime()
    micro.rig.sync()
    with pytest.raises(HostCallbackError):
        raise_pending(micro.stream)
    step.capture()
    step.replay()
    micro.rig.sync()
    with pytest.raises(HostCallbackError, match="host call 'log' failed in replay 1: ValueError"):
        step()
    assert step.phase is Phase.READY


def test_a_cuda_call_from_a_host_call_never_reaches_the_driver(micro: Micro) -> None:
    made: list[str] = []
    HostCall(lambda: driver.memory.alloc(256), "allocates").enqueue(micro.stream)
    driver.gate.observer, before = lambda op, args, code: made.append(op), driver.gate.observer
    try:
        micro.rig.sync()
    finally:
        driver.gate.observer = before
    with pytest.raises(CudaInHostCallback, match="cuMemAlloc was not sent"):
        raise_pending(micro.stream)
    assert made == ["cuStreamSynchronize"]


class _Callback:
    """A function whose life a weak reference can follow."""

    def __init__(self, calls: list[int]) -> None:
        self.calls = calls

    def __call__(self) -> None:
        self.calls.append(1)


def _bindings_version() -> tuple[int, ...]:
    from importlib.metadata import version

    return tuple(int(part) for part in version("cuda-bindings").split(".")[:2])


_THROUGH_THE_BINDINGS = """
import ctypes
from cuda.bindings import driver as cu
from lowgraph import driver
device = driver.open_device({spec!r})
stream = driver.stream.create()
count = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def callback(data):
    count.append(1)
address = ctypes.cast(callback, ctypes.c_void_p).value
driver.stream.begin_capture(stream)
cu.cuLaunchHostFunc(stream, cu.CUhostFn(address), 0)
graph = driver.stream.end_capture(stream)
executable = driver.graph.instantiate(graph)
for _ in range(3):
    driver.graph.launch(executable, stream)
driver.stream.synchronize(stream)
print(len(count))
"""
