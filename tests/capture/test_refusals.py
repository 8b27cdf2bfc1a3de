"""What goes wrong in a capture is refused with its reason; pool and stream are as before."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import GraphStep, Phase
from lowgraph.errors import (
    BlockingCaptureStream,
    CaptureRefused,
    DriverError,
    LowgraphError,
)
from lowgraph.kernels import launch as kernel_launch
from lowgraph.memory import download, open_window, upload
from tests.capture.micro import BLOCKS, SOURCE, Micro, N

In = Callable[[Micro], None]


def allocate(micro: Micro) -> None:
    driver.memory.alloc(1 << 16)


def pool_miss(micro: Micro) -> None:
    micro.pool.take("grown", 1 << 20)


def synchronize(micro: Micro) -> None:
    driver.stream.synchronize(micro.stream)


def query(micro: Micro) -> None:
    driver.stream.is_done(micro.stream)


def read(micro: Micro) -> None:
    download(micro.y, micro.stream)


def write(micro: Micro) -> None:
    upload(micro.x, np.zeros(N, np.float32), micro.stream)


def load_module(micro: Micro) -> None:
    micro.rig.library.kernel(SOURCE, "advance", {"NEVER_BUILT_BEFORE": len(micro.said)})


def other_stream(micro: Micro) -> None:
    micro.advance(0, 1, 1, micro.counter, micro.rate)


def second_begin(micro: Micro) -> None:
    driver.stream.begin_capture(micro.stream)


def frozen_rate(micro: Micro) -> None:
    micro.by_value(micro.stream, BLOCKS, 128, micro.y, micro.x, 1.0 / micro.passes, N)


def frozen_grid(micro: Micro) -> None:
    micro.forward(micro.stream, BLOCKS + micro.passes, 128, micro.y, micro.x, N)


CASES: dict[In, tuple[str, str]] = {
    allocate: ("CaptureAllocationError", "cuMemAlloc was called in the capture window of 'step'"),
    pool_miss: ("CaptureAllocationError", "'grown' (float32 [1048576]) (4194304 bytes)"),
    synchronize: ("SyncDuringCapture", "cuStreamSynchronize was called"),
    query: ("SyncDuringCapture", "cuStreamQuery was called"),
    read: ("SyncDuringCapture", "cuEventSynchronize was called"),
    write: ("CaptureRefused", "slice 'x' was uploaded to in the capture window"),
    load_module: ("ModuleLoadDuringCapture", "would be compiled or loaded inside"),
    other_stream: ("CaptureIncomplete", "kernel advance was sent to stream 0x0"),
    second_begin: ("CaptureRefused", "cuStreamBeginCapture was called"),
    frozen_rate: ("FrozenScalar", "argument 'rate' of update_by_value (launch 3) was 1.0"),
    frozen_grid: ("FrozenScalar", f"the grid of forward (launch 3) was ({BLOCKS + 1}, 1, 1)"),
}


def only_in_window(micro: Micro, act: In) -> Callable[[int], None]:
    """Run `act` while a window is open; what is frozen needs the priming pass as well."""

    def extra(number: int) -> None:
        if open_window.mine() is not None or act in (frozen_rate, frozen_grid):
            act(micro)

    return extra


def assert_sound(micro: Micro) -> None:
    """Stream, hooks, collector and pool are as outside a window."""
    assert driver.stream.capture_status(micro.stream) == "none"
    assert (driver.gate.guard, driver.gate.observer, kernel_launch.observer) == (None,) * 3
    assert micro.rig.library.sealed is None and gc.isenabled()
    assert open_window.current() is None and open_window.recorder() is None
    assert not micro.pool.in_window
    micro.rig.sync()


@pytest.mark.parametrize("act", CASES, ids=lambda act: act.__name__)
def test_it_is_refused_and_the_run_goes_on(micro: Micro, act: In) -> None:
    kind, reason = CASES[act]
    micro.extra = only_in_window(micro, act)
    step = micro.step()
    step()
    step()
    report = step.report()
    assert report.refusals == 1 and report.captures == 0 and report.eager_steps == 2
    assert reason in report.first_refusal and "test_refusals.py:" in report.first_refusal
    assert micro.said == [f"lowgraph: step: no graph: {kind}: {report.first_refusal}"]
    assert report.text().count(report.first_refusal) == 1
    assert micro.state()[0] == 2, "the refused call ran its step eagerly, once"
    assert_sound(micro)
    micro.extra = lambda number: None
    step()
    assert step.phase is Phase.READY and step.report().captures == 1, "the next attempt is good"
    assert micro.state()[0] == 3


@pytest.mark.parametrize("act", [allocate, pool_miss, synchronize, other_stream, write])
def test_swallowing_the_refusal_does_not_save_the_capture(micro: Micro, act: In) -> None:
    def swallow(number: int) -> None:
        if open_window.mine() is not None:
            with pytest.raises(LowgraphError):
                act(micro)

    micro.extra = swallow
    step = micro.step()
    step()
    step()
    assert step.report().refusals == 1 and CASES[act][1] in step.report().first_refusal
    assert_sound(micro)


def test_a_failing_call_that_the_body_hides_fails_the_capture(micro: Micro) -> None:
    def hide(number: int) -> None:
        if open_window.mine() is not None:
            with pytest.raises(DriverError):
                driver.module.get_function(0, "nothing")

    micro.extra = hide
    step = micro.step()
    step()
    step()
    first = step.report().first_refusal
    assert "cuModuleGetFunction" in first and "answered" in first
    assert_sound(micro)


def test_an_empty_window_is_refused(micro: Micro) -> None:
    step = micro.step(body=lambda stream: None)
    step()
    step()
    assert "recorded nothing" in step.report().first_refusal
    assert_sound(micro)


def test_the_refused_attempts_memory_is_given_back(micro: Micro) -> None:
    micro.extra = only_in_window(micro, pool_miss)
    step = micro.step(max_refusals=3)
    for _ in range(12):
        step()
    stats = micro.pool.stats()
    assert stats.primed == stats.retained == 0 and stats.refused == 3
    assert stats.reserved == stats.live + stats.free


def test_after_max_refusals_it_stops_trying_and_says_so_once(micro: Micro) -> None:
    micro.extra = only_in_window(micro, synchronize)
    step = micro.step(max_refusals=3)
    for _ in range(10):
        step()
    report = step.report()
    assert step.phase is Phase.DISABLED and report.refusals == 3 and report.eager_steps == 10
    assert report.reasons == {report.first_refusal: 3}
    assert "3 attempts refused" in report.why_no_graph
    assert len(micro.said) == 2 and micro.said[1] == "lowgraph: step: DISABLED after 3 refusals"
    assert micro.state() == micro.expected(10)


def test_capture_by_hand_raises_the_refusal(micro: Micro) -> None:
    micro.extra = only_in_window(micro, synchronize)
    step = micro.step()
    step.prime()
    with pytest.raises(CaptureRefused, match="cuStreamSynchronize"):
        step.capture()
    assert step.phase is Phase.REFUSED and micro.pool.stats().primed == 0
    with pytest.raises(Exception, match="the last attempt was refused"):
        step.capture()
    assert_sound(micro)


def test_a_blocking_stream_is_refused_before_the_begin(micro: Micro) -> None:
    stream = driver.stream.create(non_blocking=False)
    seen: list[str] = []
    driver.gate.observer = lambda name, args, code: seen.append(name)
    step = micro.step(stream=stream)
    try:
        step.prime()
        with pytest.raises(BlockingCaptureStream, match="a blocking stream"):
            step.capture()
        assert "cuStreamBeginCapture" not in seen
    finally:
        driver.gate.observer = None
        step.close()
        driver.stream.synchronize(stream)
        driver.stream.destroy(stream)


def test_the_legacy_stream_is_refused(micro: Micro) -> None:
    step = micro.step(stream=0)
    step.prime()
    with pytest.raises(BlockingCaptureStream, match="the legacy stream"):
        step.capture()


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_what_the_body_raises_in_the_window_passes_through(
    micro: Micro, error: BaseException
) -> None:
    def fail(number: int) -> None:
        if open_window.mine() is not None:
            raise error

    micro.extra = fail
    step = micro.step()
    step()
    with pytest.raises(type(error)) as raised:
        step()
    assert raised.value is error and step.phase is Phase.INVALIDATED
    assert step.report().refusals == 0 and micro.pool.stats().primed == 0
    assert_sound(micro)
    micro.extra = lambda number: None
    step()
    step()
    assert step.phase is Phase.READY and micro.state()[0] == 3


def test_an_exception_in_the_priming_pass_leaves_the_step_cold(micro: Micro) -> None:
    def fail(number: int) -> None:
        raise ValueError("mine")

    micro.extra = fail
    step = micro.step()
    with pytest.raises(ValueError, match="mine"):
        step()
    assert step.phase is Phase.COLD and micro.pool.stats().primed == 0
    assert_sound(micro)


def test_ctrl_c_inside_the_window_ends_the_capture(micro: Micro) -> None:
    def interrupt(number: int) -> None:
        if open_window.mine() is not None:
            os.kill(os.getpid(), signal.SIGINT)

    micro.extra = interrupt
    step = micro.step()
    step()
    with pytest.raises(KeyboardInterrupt):
        step()
    assert_sound(micro)


@pytest.mark.parametrize("call", ["begin", "end"])
def test_ctrl_c_at_begin_or_end_is_delivered_when_all_is_undone(
    micro: Micro, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    name = f"{call}_capture"
    real = getattr(driver.stream, name)

    def interrupted(*args: object) -> object:
        answer = real(*args)
        os.kill(os.getpid(), signal.SIGINT)
        return answer

    step = micro.step()
    step()
    with monkeypatch.context() as patch:
        patch.setattr(driver.stream, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            step()
    assert_sound(micro)
    step.close()
    assert micro.pool.stats().retained == micro.pool.stats().primed == 0


def test_the_collector_is_left_off_when_it_was_off(micro: Micro) -> None:
    seen: list[bool] = []
    micro.extra = lambda number: seen.append(gc.isenabled())
    gc.disable()
    try:
        step = micro.step()
        step()
        step()
        assert not gc.isenabled()
    finally:
        gc.enable()
    other = micro.step()
    other()
    other()
    assert seen == [False, False, True, False] and gc.isenabled()


def test_hundred_aborted_captures_leave_the_pool_flat(micro: Micro) -> None:
    micro.extra = only_in_window(micro, other_stream)
    step = micro.step(max_refusals=1000)
    step()
    step()
    before, blocks = micro.pool.stats(), micro.pool.free_blocks()
    for _ in range(100):
        step()
    after = micro.pool.stats()
    assert step.report().refusals == 101 and isinstance(step, GraphStep)
    assert (after.reserved, after.live, after.free, after.primed) == (
        before.reserved, before.live, before.free, before.primed)  # fmt: skip
    assert after.driver_allocs == before.driver_allocs and micro.pool.free_blocks() == blocks
