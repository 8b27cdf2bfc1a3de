"""Stages: names by thread and nesting, and where they show in what is said of a step."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from cuda.bindings import driver as cu

import lowgraph
from lowgraph import driver, stages
from lowgraph.capture import Window
from lowgraph.capture.census import Census, judge
from lowgraph.capture.node_params import Contents
from lowgraph.driver import event
from lowgraph.driver.launch import LaunchConfig
from lowgraph.errors import (
    CaptureAllocationError,
    CaptureFailed,
    CaptureIncomplete,
    ConfigError,
    ExecUpdateRejected,
    FrozenScalar,
    UnjoinedFork,
)
from lowgraph.memory import open_window
from lowgraph.stages import stage
from tests.capture.bodies import Parts, chain
from tests.capture.micro import BLOCKS, Micro, N
from tests.capture.worker import Worker


class Told:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, path: str) -> None:
        self.heard.append(f"+{path}")

    def end(self, path: str) -> None:
        self.heard.append(f"-{path}")


# ---- the manager ----


def test_names_nest_and_end_with_their_blocks() -> None:
    assert lowgraph.stage is stage and stages.current() == ""
    again = stage("again")
    with stage("backward"):
        with stage("attention"), again, again:
            assert stages.current() == "backward/attention/again/again"
        with pytest.raises(KeyError), stage("mlp"):
            raise KeyError
        assert stages.current() == "backward"
    assert stages.current() == ""


def test_a_stage_is_its_threads_own() -> None:
    seen: list[str] = []

    def other() -> None:
        seen.append(stages.current())
        with stage("theirs"):
            seen.append(stages.current())

    with stage("mine"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert stages.current() == "mine"
    assert seen == ["", "theirs"]


def test_listeners_hear_every_stage_until_their_block_ends() -> None:
    first, second = Told(), Told()
    with stages.listening(first), stage("a"):
        with stages.listening(second), pytest.raises(KeyError), stage("b"):
            raise KeyError
        with stage("c"):
            pass
    with stage("d"):
        pass
    assert first.heard == ["+a", "+a/b", "-a/b", "+a/c", "-a/c", "-a"]
    assert second.heard == ["+a/b", "-a/b"]


def test_a_stage_that_an_interrupt_left_open_ends_with_the_pass(micro: Micro) -> None:
    def extra(number: int) -> None:
        stage("left open").__enter__()
        raise KeyboardInterrupt

    micro.extra = extra
    step = micro.step()
    with stage("outer"), pytest.raises(KeyboardInterrupt):
        step()
    assert stages.current() == ""


@pytest.mark.parametrize("name", ["", "a/b", 3])
def test_a_name_that_cannot_be_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(ConfigError, match=r"a name is text without '/'.*open stage\('a'\), and in"):
        stage(name)


# ---- what is recorded ----


def test_the_report_has_the_recordings_kernels_by_stage(micro: Micro) -> None:
    def body(stream: int) -> None:
        with stage("state"):
            micro.advance(stream, 1, 1, micro.counter, micro.rate)
        with stage("work"):
            with stage("first"):
                micro.forward(stream, BLOCKS, 128, micro.y, micro.x, N)
            micro.forward(stream, BLOCKS, 128, micro.y, micro.x, N)
            recorder = open_window.recorder()
            assert recorder is not None
            recorder.library_call("none", 0, ())
        micro.forward(stream, BLOCKS, 128, micro.y, micro.x, N)

    step = micro.step(body=body)
    step()
    assert step.report().stages == {}
    step()
    report = step.report()
    assert report.stages == {"state": 1, "work/first": 1, "work": 1, "": 1}
    assert sum(report.stages.values()) == report.kernels
    assert "kernels by stage: state 1, work/first 1, work 1, in none 1" in report.text()
    graph = step.graph
    assert graph is not None
    assert [graph.node(n).stage for n in range(4)] == ["state", "work/first", "work", ""]
    assert str(graph.node(1)).startswith("node 1 (kernel forward, stage 'work/first', /")


def test_a_step_without_stages_says_nothing_of_them(micro: Micro) -> None:
    step = micro.step()
    step()
    step()
    assert step.report().stages == {} and "stage" not in step.report().text()


def test_nodes_of_a_library_have_the_stage_and_line_of_its_call(micro: Micro) -> None:
    """The library: a launch past the kernel library and the gate."""
    kernel = micro.forward
    kernel.pack.store(kernel.pack.values([micro.y, micro.x, N]))

    def foreign(stream: int, kernels: int) -> None:
        recorder = open_window.recorder()
        assert recorder is not None
        for _ in range(2):
            sizes = (BLOCKS, 1, 1, 128, 1, 1, 0)
            answer = cu.cuLaunchKernel(kernel.handle, *sizes, stream, kernel.pack.address, 0)
            assert int(answer[0]) == 0
        recorder.library_call("foreign", kernels, ())

    def recorded(kernels: int) -> list[str]:
        window = Window(micro.stream, pool=micro.pool)
        with window:
            with stage("ours"):
                micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
            with stage("theirs"):
                foreign(micro.stream, kernels)
        assert window.recording is not None
        contents = Contents(window.recording.graph, window.recording.journal)
        found = [contents.record(n).stage for n in range(3)]
        lines = [contents.record(n).where for n in (1, 2)]
        window.discard()
        assert all(__file__ in where for where in lines if where)
        return found

    assert recorded(2) == ["ours", "theirs", "theirs"]
    assert recorded(1) == ["ours", "", ""], "numbers that do not fit tell nothing"


# ---- what is said ----


def test_a_rejected_update_names_the_stage_of_the_node(parts: Parts) -> None:
    def body(last: str) -> None:
        with stage("early"):
            parts.add()
        with stage("late"), stage(last):
            (parts.add if last == "kernel" else parts.fill)()

    step = parts.live(lambda p: body("kernel"))
    parts.run = lambda p: body("fill")
    assert step.recapture() is False
    told = step.report().last_rejection
    assert "NODE_TYPE_CHANGED (stage 'late/fill')" in told
    assert "at node 1 (memset, stage 'late/fill', /" in told
    assert "which was node 1 (kernel add, stage 'late/kernel', /" in told


def test_a_node_more_is_named_with_its_stage(parts: Parts) -> None:
    graph = parts.live(chain(Parts.add)).graph
    assert graph is not None

    def more() -> None:
        parts.add()
        with stage("new"):
            parts.scale()

    window = Window(parts.stream, pool=parts.pool)
    with window:
        more()
    assert window.recording is not None
    with pytest.raises(ExecUpdateRejected, match=r"new: node 1 \(kernel scale, stage 'new'") as got:
        graph.update(window.recording)
    assert got.value.stage == "new"
    window.discard()


def test_a_frozen_scalar_names_its_stage(micro: Micro) -> None:
    rates = iter((0.5, 0.25))

    def body(stream: int) -> None:
        hidden = micro.pool.take("hidden", N)
        micro.forward(stream, BLOCKS, 128, hidden, micro.x, N)
        with stage("optimizer"):
            micro.by_value(stream, BLOCKS, 128, micro.y, hidden, next(rates), N)

    step = micro.step(body=body)
    step.prime()
    with pytest.raises(FrozenScalar, match=r"\(stage 'optimizer'\); keep what changes") as got:
        step.capture()
    assert got.value.stage == "optimizer"


def test_a_declared_scalar_names_its_stage(micro: Micro) -> None:
    def body(stream: int) -> None:
        with stage("optimizer"):
            micro.by_value(stream, BLOCKS, 128, micro.y, micro.x, 0.5, N)

    step = micro.step(body=body, per_step=["rate"])
    step.prime()
    with pytest.raises(FrozenScalar) as got:
        step.capture()
    assert got.value.stage == "optimizer"


@pytest.fixture
def side() -> Iterator[int]:
    made = driver.stream.create()
    yield made
    driver.stream.destroy(made)


def test_work_that_leaves_the_capture_names_its_stage(micro: Micro, side: int) -> None:
    def extra(number: int) -> None:
        if number == 2:
            with stage("aside"):
                micro.advance(side, 1, 1, micro.counter, micro.rate)

    micro.extra = extra
    step = micro.step()
    step.prime()
    with pytest.raises(CaptureIncomplete, match=r"\(stage 'aside'\)"):
        step.capture()
    assert "(stage 'aside')" in step.report().first_refusal


def test_a_launch_that_is_not_in_the_graph_names_its_stage(micro: Micro) -> None:
    window = Window(micro.stream, pool=micro.pool)
    with window, stage("lost"):
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
    assert window.recording is not None
    told = judge(Census(1, {"memset": 1}, ()), window.recording.journal, "step", "here")
    window.discard()
    assert isinstance(told, CaptureIncomplete) and told.stage == "lost"
    assert f"advance on stream {micro.stream:#x} in stage 'lost'" in told.reason


def test_a_fork_that_is_not_joined_names_its_stage(micro: Micro, side: int) -> None:
    made = event.create()

    def extra(number: int) -> None:
        if number == 1:
            return
        with stage("fork"):
            event.record(made, micro.stream)
            driver.stream.wait_event(side, made)
        with stage("beside"):
            micro.advance(side, 1, 1, micro.counter, micro.rate)

    micro.extra = extra
    step = micro.step()
    step.prime()
    with pytest.raises(UnjoinedFork, match=r"kernel advance at .* in stage 'beside'") as got:
        step.capture()
    assert got.value.stage == "beside"
    event.destroy(made)


def test_memory_that_was_not_primed_names_its_stage(micro: Micro) -> None:
    def extra(number: int) -> None:
        if number == 2:
            with stage("grown"):
                micro.pool.take("more", 1 << 20)

    micro.extra = extra
    step = micro.step()
    step.prime()
    with pytest.raises(CaptureAllocationError, match=r"\(stage 'grown'\)") as got:
        step.capture()
    assert got.value.stage == "grown" and stages.current() == ""


def test_a_call_that_the_driver_refused_names_its_stage(micro: Micro) -> None:
    def extra(number: int) -> None:
        if number == 2:
            with stage("wrong"):
                config = LaunchConfig(micro.stream, 1, 4096)  # more threads than a block may have
                driver.launch.launch(config, micro.forward.handle, micro.forward.pack.address)

    micro.extra = extra
    step = micro.step()
    step.prime()
    with pytest.raises(CaptureFailed, match=r"\(stage 'wrong'\)") as got:
        step.capture()
    assert got.value.stage == "wrong"


def test_calls_of_other_threads_have_their_own_stage(micro: Micro, side: int) -> None:
    def act() -> None:
        with stage("watching"):
            driver.stream.synchronize(side)
        cu.cuCtxSynchronize()  # past the library: it breaks the capture

    window = Window(micro.stream, pool=micro.pool)
    with pytest.raises(CaptureFailed) as got, window, stage("recorded"):
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
        Worker(micro, act).result()
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
    suspect = got.value.suspects[0]
    assert getattr(suspect, "stage") == "watching"  # noqa: B009  # typed as an object
    assert "answered 0 in stage 'watching' (" in got.value.reason
    assert "in stage 'recorded'. Calls of other" in got.value.reason
