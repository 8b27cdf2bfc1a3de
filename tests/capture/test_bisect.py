"""Bisecting: which op, line and stage broke a capture; probing: what a capture would never meet."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest
from cuda.bindings import driver as cu

import lowgraph
from lowgraph import driver
from lowgraph.capture import Break, Window, bisecting, probing
from lowgraph.capture.bisect import Bisector
from lowgraph.errors import CaptureFailed, CaptureRefused
from lowgraph.memory import open_window
from tests.capture.bodies import N, Parts

HERE = __file__


def line_of(mark: str) -> str:
    """file:line of a comment in this file."""
    with open(HERE, encoding="utf-8") as source:
        (number,) = (n for n, text in enumerate(source, 1) if text.rstrip().endswith(f"# {mark}"))
    return f"{HERE}:{number}"


def wait_outside() -> None:
    """A callee that does not come through lowgraph."""
    cu.cuCtxSynchronize()  # WAIT


def breaking(parts: Parts) -> None:
    parts.add()
    with lowgraph.stage("callee"):
        wait_outside()
    parts.add()


def window_of(parts: Parts, **options: Any) -> Window:
    return Window(parts.stream, pool=parts.pool, label="bisected", **options)


def test_the_line_of_foreign_code_is_named_with_stage_and_last_good_op(parts: Parts) -> None:
    with bisecting() as breaks, pytest.raises(CaptureFailed) as caught, window_of(parts):
        breaking(parts)
    (found,) = breaks
    assert (found.where, found.stage, found.exact) == (line_of("WAIT"), "callee", True)
    assert (found.op, found.code) == ("", 0)
    assert found.after.startswith("kernel add at ")
    assert caught.value.broken == found
    assert (caught.value.where, caught.value.stage) == (found.where, "callee")
    told = f"bisected: broken at {found.where} in stage 'callee' by code that does not come through"
    assert told in str(caught.value)
    assert f"{caught.value.remedy}" and sys.gettrace() is None


def test_the_last_line_of_a_window_is_looked_at_too(parts: Parts) -> None:
    with bisecting() as breaks, pytest.raises(CaptureFailed), window_of(parts):
        parts.add()
        cu.cuCtxSynchronize()  # LAST
    assert [one.where for one in breaks] == [line_of("LAST")]


def test_without_lines_the_two_ops_around_it_are_known(parts: Parts) -> None:
    with bisecting(lines=False) as breaks, pytest.raises(CaptureFailed), window_of(parts):
        breaking(parts)
    (found,) = breaks
    assert (found.exact, found.stage) == (False, "callee")  # the stage's end was looked at
    assert "or before, by code that does not come through lowgraph" in str(found)


def test_without_lines_the_end_is_looked_at_too(parts: Parts) -> None:
    with bisecting(lines=False) as breaks, pytest.raises(CaptureFailed), window_of(parts):
        parts.add()
        cu.cuCtxSynchronize()
    assert [(one.exact, one.op) for one in breaks] == [(False, "")]


def test_a_tracer_of_somebody_elses_stays_and_lines_are_left_out(parts: Parts) -> None:
    def tracer(frame: Any, event: str, argument: Any) -> None:
        return None

    sys.settrace(tracer)
    try:
        with bisecting() as breaks, pytest.raises(CaptureFailed), window_of(parts):
            breaking(parts)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)
    assert not breaks[0].exact


def test_a_call_through_lowgraph_is_named_with_its_code(parts: Parts) -> None:
    """Past the guard, as a driver's own refusal would be."""
    with bisecting() as breaks, pytest.raises(CaptureFailed), window_of(parts) as window:
        parts.add()
        assert window._guard is not None
        with window._guard.disarmed(), pytest.raises(driver.gate.DriverError):
            driver.memory.alloc(256)  # ALLOCATES
    (found,) = breaks
    assert (found.op, found.code, found.exact) == ("cuMemAlloc", 900, True)
    assert found.where == line_of("ALLOCATES")
    assert "by cuMemAlloc, which answered 900 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" in str(found)


@pytest.mark.parametrize("lines", [True, False])
def test_a_librarys_call_is_an_op_whose_answer_is_not_known(parts: Parts, lines: bool) -> None:
    libcuda = ctypes.CDLL("libcuda.so.1")
    with bisecting(lines) as breaks, pytest.raises(CaptureFailed), window_of(parts):
        parts.add()
        recorder = open_window.recorder()
        assert recorder is not None
        libcuda.cuCtxSynchronize(), recorder.library_call("cublasSgemm", 1, ())  # LIBRARY
    (found,) = breaks
    assert (found.op, found.code, found.where) == ("cublasSgemm", 0, line_of("LIBRARY"))
    assert found.exact is lines
    assert (", or by code before it" in str(found)) is not lines


def test_a_capture_that_somebody_ended_is_broken_there(parts: Parts) -> None:
    with bisecting() as breaks, pytest.raises(CaptureFailed), window_of(parts):
        parts.add()
        _, graph = cu.cuStreamEndCapture(parts.stream)  # ENDS
        parts.side_effect = int(graph)  # type: ignore[attr-defined]
    assert breaks[0].where == line_of("ENDS")
    driver.graph.destroy(parts.side_effect)  # type: ignore[attr-defined]


def test_a_whole_capture_has_no_break_and_what_it_cost_is_known(parts: Parts) -> None:
    asked: list[int] = []
    with bisecting() as breaks:
        window = window_of(parts)
        with window:
            parts.add()
            parts.scale()
            assert window._bisector is not None
            asked.append(window._bisector.asked)
        window.discard()
    assert breaks == [] and window.broken is None
    assert asked[0] >= 2 and sys.gettrace() is None


def test_only_the_windows_of_the_block_are_bisected(parts: Parts) -> None:
    with bisecting() as breaks:
        pass
    with pytest.raises(CaptureFailed) as caught, window_of(parts):
        breaking(parts)
    assert breaks == [] and caught.value.broken is None


def test_a_step_is_bisected_and_goes_on(parts: Parts) -> None:
    parts.run = breaking
    with bisecting() as breaks:
        for _ in range(2):
            parts.step()
    assert [one.label for one in breaks] == ["step"]
    report = parts.step.report()
    assert (report.refusals, report.eager_steps) == (1, 2)
    assert line_of("WAIT") in report.first_refusal


def test_what_a_break_says() -> None:
    one = Break("step", "cuMemAlloc", 900, "a.py:3", "", "kernel add at a.py:2", True)
    assert str(one) == (
        "'step': broken at a.py:3 by cuMemAlloc, which answered 900 "
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; whole until then, last after kernel add at a.py:2"
    )
    assert Bisector("x", 0, lines=False).lines_traced is False


# ---- probing ----


def slipping(parts: Parts) -> None:
    """Work on the legacy stream past lowgraph: no capture meets it."""
    parts.add()
    with lowgraph.stage("fill"):
        cu.cuMemsetD8(parts.z.address, 0, 4 * N)  # SLIPS
    parts.scale()


def test_a_probe_pass_names_work_on_the_legacy_stream(parts: Parts) -> None:
    parts.run = slipping
    with probing() as probes:
        for _ in range(3):
            parts.step()
    (probe,) = probes
    assert probe.broken is not None
    assert (probe.broken.where, probe.broken.stage) == (line_of("SLIPS"), "fill")
    assert str(probe).startswith(f"probe of 'step': broken at {line_of('SLIPS')} in stage 'fill'")
    # The step is recorded as if there had been no probe.
    report = parts.step.report()
    assert (report.captures, report.refusals, report.replays, report.kernels) == (1, 0, 2, 2)
    assert parts.replayed() == parts.eager(lambda p: (p.add(), p.scale()))


def test_nothing_is_found_in_a_clean_body_and_memory_is_as_without(parts: Parts) -> None:
    parts.run = lambda p: p.through()
    with probing() as probes:
        for _ in range(2):
            parts.step()
    assert str(probes[0]) == "probe of 'step': nothing was sent to the legacy stream"
    report = parts.step.report()
    assert (report.captures, report.primed.slices, report.window.slices) == (1, 1, 1)
    assert parts.replayed() == parts.eager(Parts.through)


def test_a_recapture_is_probed_too(parts: Parts) -> None:
    parts.live(Parts.add)
    parts.run = slipping
    with probing() as probes:
        parts.step.recapture()
    assert probes[0].broken is not None


def test_what_the_body_raises_for_a_906_ends_the_probe_only(parts: Parts) -> None:
    def checked(p: Parts) -> None:
        p.add()
        if int(cu.cuMemsetD8(p.z.address, 0, 4)[0]):
            raise RuntimeError("the fill failed")

    parts.run = checked
    with probing() as probes:
        for _ in range(2):
            parts.step()
    assert isinstance(probes[0].error, RuntimeError) and probes[0].broken is not None
    assert parts.step.report().captures == 1


def test_a_refusal_of_the_probe_is_the_recordings_too(parts: Parts) -> None:
    parts.run = lambda p: (p.add(), p.add(on=p.side))
    with probing() as probes:
        for _ in range(2):
            parts.step()
    assert isinstance(probes[0].error, CaptureRefused) and probes[0].broken is None
    assert "cannot tell, it ended early: CaptureIncomplete: " in str(probes[0])
    assert parts.step.report().refusals == 1


def test_probing_makes_as_many_streams_and_events_as_it_gives_back(parts: Parts) -> None:
    parts.run = Parts.add
    with parts.rig.device.count_calls() as count, probing():
        for _ in range(2):
            parts.step()
    if count.calls is not None:
        made = {
            name: count.calls.get(name, 0)
            for name in ("cuStreamCreateWithPriority", "cuEventCreate")
        }
        gone = {name: count.calls.get(name, 0) for name in ("cuStreamDestroy", "cuEventDestroy")}
        assert list(made.values()) == list(gone.values()) == [1, 2]


def test_without_a_trap_the_probe_says_so_and_the_step_is_recorded(parts: Parts) -> None:
    if parts.rig.device.kind != "host":
        pytest.skip("only the host device fails a call on demand")
    from lowgraph.hostdev import control

    parts.run = Parts.add
    with probing() as probes:
        parts.step()
        control.fail("cuStreamCreateWithPriority", 1, 2)
        parts.step()
    assert "cannot tell, it ended early: OutOfMemory: cuStreamCreateWithPriority" in str(probes[0])
    assert parts.step.report().captures == 1


def test_a_ctrl_c_in_a_probe_leaves_the_step_as_one_in_its_window(parts: Parts) -> None:
    def interrupted(p: Parts) -> None:
        p.add()
        if open_window.mine() is not None:
            raise KeyboardInterrupt

    parts.run = interrupted
    with probing() as probes:
        parts.step()
        with pytest.raises(KeyboardInterrupt):
            parts.step()
        assert (probes, parts.pool.in_window, driver.gate.guard) == ([], False, None)
        assert parts.step.phase.name == "INVALIDATED"
        parts.run = Parts.add
        parts.step()
        parts.step()
    assert parts.step.report().captures == 1 and len(probes) == 1
