"""The journal: full and light, which error was first, and where a capture broke."""

from __future__ import annotations

import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.capture.journal import Journal
from lowgraph.capture.window import Window
from lowgraph.errors import CaptureFailed, CaptureRefused, ConfigError, DriverError
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound
from tests.capture.worker import Worker


def recorded(micro: Micro, detail: str) -> Journal:
    window = Window(micro.stream, pool=micro.pool, label="step", journal=detail)
    with window:
        micro.body(micro.stream)
    window.discard()
    return window.journal


def test_a_light_journal_keeps_what_the_checks_need_and_no_successful_call(micro: Micro) -> None:
    with micro.pool.priming() as primed:
        micro.body(micro.stream)
    micro.pool.drop(primed)
    full, light = recorded(micro, "full"), recorded(micro, "light")
    assert len(full.calls) == full.total == light.total == 6  # begin, four launches, end
    assert light.calls == []
    assert light.addresses == full.addresses and light.addresses
    for ours, theirs in zip(light.launches, full.launches, strict=True):
        assert (ours.kernel, ours.scalars, ours.pointers) == (
            theirs.kernel, theirs.scalars, theirs.pointers)  # fmt: skip
        assert theirs.where.startswith(f"{Micro.body.__code__.co_filename}:")
        assert "light journal" in ours.where


@pytest.mark.parametrize("detail", ["full", "light"])
def test_a_failing_call_is_told_in_full_by_either(micro: Micro, detail: str) -> None:
    window = Window(micro.stream, pool=micro.pool, label="step", journal=detail)
    told = r"test_journal.py:\d+: .*call 2: cuModuleGetFunction"
    with pytest.raises(CaptureFailed, match=told), window:
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
        with pytest.raises(DriverError):
            driver.module.get_function(0, "nothing")
    assert_sound(micro)


@pytest.mark.parametrize("detail", ["full", "light"])
def test_the_first_of_a_failing_call_and_a_refusal_is_raised(micro: Micro, detail: str) -> None:
    def fail() -> None:
        with pytest.raises(DriverError):
            driver.module.get_function(0, "nothing")

    def be_refused() -> None:
        with pytest.raises(CaptureRefused):
            driver.stream.synchronize(micro.stream)

    for acts, told in (
        ((fail, be_refused), "cuModuleGetFunction"),
        ((be_refused, fail), "cuStreamSynchronize was called"),
    ):
        window = Window(micro.stream, pool=micro.pool, label="step", journal=detail)
        with pytest.raises(CaptureRefused, match=told), window:
            micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
            for act in acts:
                act()
        assert_sound(micro)


def test_901_from_a_call_past_the_library_names_the_calls_round_it(micro: Micro) -> None:
    codes: list[int] = []

    def launch() -> None:
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)

    line = launch.__code__.co_firstlineno + 1
    window = Window(micro.stream, pool=micro.pool, label="step")
    with pytest.raises(CaptureFailed) as raised, window:
        launch()
        codes.append(int(cu.cuCtxSynchronize()[0]))  # as a library does that knows no lowgraph
        launch()
    assert codes == [900]
    said = f"cuLaunchKernelEx at {__file__}:{line}"
    assert f"after call 1, {said}, and before call 2, {said}" in raised.value.reason
    assert "none through lowgraph" in raised.value.reason and raised.value.suspects == ()
    assert_sound(micro)


def test_an_unknown_detail_is_refused() -> None:
    with pytest.raises(ConfigError, match="journal 'off': must be one of full, light"):
        Journal("off")


@pytest.mark.parametrize("detail", ["full", "light"])
def test_a_step_takes_the_detail_of_its_journal(micro: Micro, detail: str) -> None:
    step = micro.step(journal=detail)
    for _ in range(3):
        step()
    assert step.graph is not None and step.graph.journal.detail == detail
    assert step.report().launches_eager_step == step.report().kernels == 4
    assert micro.state() == micro.expected(3)
    with pytest.raises(ConfigError, match="journal 'none'"):
        micro.step(journal="none")


def test_what_another_thread_reports_is_no_part_of_the_pass(micro: Micro) -> None:
    journal = Journal()

    def report() -> None:
        journal.library_call("gemm", 2, (7,))
        journal.refuse(CaptureRefused("no"))
        journal.on_call("cuStreamQuery", (5,), 600)

    assert Worker(micro, report).result() is None
    assert journal.library == [] and journal.refusals == [] and journal.total == 0
    assert [one.op for one in journal.suspects.newest_first()] == ["cuStreamQuery"]
    report()
    assert len(journal.library) == len(journal.refusals) == journal.total == 1
