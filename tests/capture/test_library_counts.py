"""What a report says of library calls: their kernels where they were counted, else the calls."""

from __future__ import annotations

import pytest

from lowgraph.memory import open_window
from tests.capture.micro import Micro


def call_library(kernels_in_a_window: int, calls: int = 1) -> None:
    """What the cuBLAS backend tells of its calls: kernels can be counted in a window alone."""
    recorder = open_window.recorder()
    kernels = kernels_in_a_window if open_window.mine() is not None else None
    for _ in range(calls if recorder is not None else 0):
        assert recorder is not None
        recorder.library_call("library", kernels, ())


@pytest.mark.parametrize("calls", [1, 2])
def test_without_a_graph_the_calls_are_told_apart(micro: Micro, calls: int) -> None:
    micro.extra = lambda number: call_library(0, calls)
    step = micro.step(graph=False)
    step()
    report = step.report()
    assert (report.launches_eager_step, report.library_calls_eager_step) == (4, calls)
    said = f"launches: 4 and {calls} library call{'s' * (calls > 1)} of unknown kernels in an eager"
    assert said in report.text()


def test_a_recording_counts_them(micro: Micro) -> None:
    kernels = 0  # our stand-in launches none, and the census would miss them
    micro.extra = lambda number: call_library(kernels)
    step = micro.step()
    step()
    assert step.report().library_calls_eager_step == 1
    step()
    report = step.report()
    assert (report.launches_eager_step, report.library_calls_eager_step) == (4, 0)
    assert "launches: 4 in an eager step, 1 in a replay" in report.text()


def test_a_step_of_library_calls_alone_is_listened_to_once(micro: Micro) -> None:
    heard: list[bool] = []

    def body(stream: int) -> None:
        heard.append(open_window.recorder() is not None)
        call_library(1)

    step = micro.step(body=body, graph=False)
    for _ in range(3):
        step()
    assert heard == [True, False, False]
    report = step.report()
    assert (report.launches_eager_step, report.library_calls_eager_step) == (0, 1)
