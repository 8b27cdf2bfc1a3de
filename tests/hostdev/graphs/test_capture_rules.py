"""The recorded rows of what a call does while a stream captures, as one table.

An outcome is the call's code and, with "!", that the capture is invalidated by it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cuda.bindings import driver as cu

from tests.hostdev.graphs.kit import answer_of
from tests.hostdev.graphs.world import MODES, CaptureWorld, expect

Call = Callable[[CaptureWorld], int]
# By mode: global, thread-local, relaxed. None: it would change what the world needs afterwards.
Outcomes = tuple[str, str, str | None]

LEGACY = cu.CUstream(0)
PER_THREAD = cu.CUstream(2)
PRINTF_LIMIT = cu.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE

UNSAFE = ("900!", "900!", "0")
ALWAYS = ("900!", "900!", "900!")
FINE = ("0", "0", "0")
GLOBAL_ONLY = ("900!", "0", "0")


def code(call: Callable[[CaptureWorld], tuple]) -> Call:
    return lambda world: answer_of(call(world))


def host(world: CaptureWorld) -> int:
    return int(world.host.ctypes.data)


def query_captured(world: CaptureWorld) -> tuple:
    cu.cuEventRecord(world.event, world.stream)
    return cu.cuEventQuery(world.event)


def wait_captured(world: CaptureWorld) -> tuple:
    cu.cuEventRecord(world.event, world.stream)
    return cu.cuEventSynchronize(world.event)


def trim(world: CaptureWorld) -> tuple:
    return cu.cuMemPoolTrimTo(cu.cuDeviceGetDefaultMemPool(0)[1], 0)


ROWS: dict[str, tuple[Call, Outcomes]] = {
    "cuMemAlloc": (code(lambda w: cu.cuMemAlloc(256)), UNSAFE),
    "cuMemFree": (code(lambda w: cu.cuMemFree(w.spare)), UNSAFE),
    "cuMemHostAlloc": (code(lambda w: cu.cuMemHostAlloc(256, 0)), UNSAFE),
    "cuMemPoolTrimTo": (code(trim), UNSAFE),
    "cuCtxSetLimit": (code(lambda w: cu.cuCtxSetLimit(PRINTF_LIMIT, 1 << 20)), UNSAFE),
    "cuGraphExecDestroy": (
        code(lambda w: cu.cuGraphExecDestroy(cu.CUgraphExec(int(w.executable)))),
        ("900!", "900!", None),
    ),
    "sync of another stream": (code(lambda w: cu.cuStreamSynchronize(w.other)), UNSAFE),
    "query of another stream": (code(lambda w: cu.cuStreamQuery(w.other)), UNSAFE),
    "query, event never recorded": (code(lambda w: cu.cuEventQuery(w.never)), UNSAFE),
    "query, event recorded before": (code(lambda w: cu.cuEventQuery(w.before)), UNSAFE),
    "sync, event recorded before": (code(lambda w: cu.cuEventSynchronize(w.before)), UNSAFE),
    "alloc async on another stream": (
        code(lambda w: cu.cuMemAllocAsync(0x100, w.other)),
        ("900!", "900!", None),
    ),
    "sync of the stream": (code(lambda w: cu.cuStreamSynchronize(w.stream)), ALWAYS),
    "query of the stream": (code(lambda w: cu.cuStreamQuery(w.stream)), ALWAYS),
    "cuCtxSynchronize": (code(lambda w: cu.cuCtxSynchronize()), ALWAYS),
    "graph launch into it": (code(lambda w: cu.cuGraphLaunch(w.executable, w.stream)), ALWAYS),
    "query, event of the capture": (code(query_captured), ("907!",) * 3),
    "sync, event of the capture": (code(wait_captured), ("907!",) * 3),
    "wait, event recorded before": (
        code(lambda w: cu.cuStreamWaitEvent(w.stream, w.before, 0)),
        ("905!",) * 3,
    ),
    "wait, event never recorded": (
        code(lambda w: cu.cuStreamWaitEvent(w.stream, w.never, 0)),
        FINE,
    ),
    "4096 threads": (lambda w: w.launch(w.stream, threads=4096), ("1!",) * 3),
    "shared memory beyond the limit": (lambda w: w.launch(w.stream, shared=1 << 20), ("1!",) * 3),
    "begin again": (
        code(lambda w: cu.cuStreamBeginCapture(w.stream, cu.CUstreamCaptureMode(0))),
        ("401",) * 3,
    ),
    "free async of foreign memory": (
        code(lambda w: cu.cuMemFreeAsync(w.from_pool, w.stream)),
        ("1",) * 3,
    ),
    "launch on the legacy stream": (lambda w: w.launch(LEGACY), FINE),
    "launch on the per-thread stream": (lambda w: w.launch(PER_THREAD), FINE),
    "launch on another stream": (lambda w: w.launch(w.other), FINE),
    "cuMemcpyHtoD": (code(lambda w: cu.cuMemcpyHtoD(w.memory, host(w), 256)), FINE),
    "cuMemcpyDtoH": (code(lambda w: cu.cuMemcpyDtoH(host(w), w.memory, 256)), FINE),
    "cuMemsetD8": (code(lambda w: cu.cuMemsetD8(w.memory, 0, 256)), FINE),
    "cuModuleLoadData": (CaptureWorld.load, FINE),
    "cuModuleUnload": (CaptureWorld.unload, UNSAFE),
    "cuModuleGetFunction": (code(lambda w: cu.cuModuleGetFunction(w.module, b"add")), FINE),
    "cuMemGetInfo": (code(lambda w: cu.cuMemGetInfo()), FINE),
}

ELSEWHERE: dict[str, tuple[Call, Outcomes]] = {
    "cuMemAlloc": (code(lambda w: cu.cuMemFree(cu.cuMemAlloc(256)[1] or 0)), GLOBAL_ONLY),
    "cuMemFree": (code(lambda w: cu.cuMemFree(w.spare)), GLOBAL_ONLY),
    "free async": (code(lambda w: cu.cuMemFreeAsync(w.from_pool, LEGACY)), GLOBAL_ONLY),
    "event query": (code(lambda w: cu.cuEventQuery(w.before)), GLOBAL_ONLY),
    "sync of another stream": (code(lambda w: cu.cuStreamSynchronize(w.other)), GLOBAL_ONLY),
    "cuCtxSynchronize": (code(lambda w: cu.cuCtxSynchronize()), ALWAYS),
    "launch on the legacy stream": (lambda w: w.launch(LEGACY), FINE),
    "launch on another stream": (lambda w: w.launch(w.other), FINE),
    "cuModuleLoadData": (CaptureWorld.load, FINE),
    "cuModuleUnload": (CaptureWorld.unload, GLOBAL_ONLY),
    "cuMemcpyHtoD": (code(lambda w: cu.cuMemcpyHtoD(w.memory, host(w), 256)), FINE),
    "graph launch": (code(lambda w: cu.cuGraphLaunch(w.executable, w.other)), FINE),
}


def rows(table: dict[str, tuple[Call, Outcomes]]) -> list:
    return [
        pytest.param(call, mode, outcome, id=f"{name}-{mode}")
        for name, (call, outcomes) in table.items()
        for mode, outcome in zip(MODES, outcomes, strict=True)
        if outcome is not None
    ]


@pytest.mark.parametrize(("call", "mode", "outcome"), rows(ROWS))
def test_call_in_a_capture(world: CaptureWorld, call: Call, mode: str, outcome: str) -> None:
    world.begin(mode)
    expect(world, call(world), outcome)


@pytest.mark.parametrize(("call", "mode", "outcome"), rows(ELSEWHERE))
def test_call_of_another_thread(world: CaptureWorld, call: Call, mode: str, outcome: str) -> None:
    world.begin(mode)
    expect(world, world.elsewhere(lambda: call(world)), outcome)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["launch on the legacy stream", "cuMemcpyHtoD", "cuMemsetD8"])
def test_legacy_work_beside_a_blocking_capture(
    blocking_world: CaptureWorld, name: str, mode: str
) -> None:
    blocking_world.begin(mode)
    expect(blocking_world, ROWS[name][0](blocking_world), "906!")


def test_asking_the_legacy_stream_beside_a_blocking_capture(blocking_world: CaptureWorld) -> None:
    blocking_world.begin("relaxed")
    expect(blocking_world, answer_of(cu.cuStreamIsCapturing(LEGACY)), "906")
