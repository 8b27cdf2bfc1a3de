"""Case 9: a library call synchronises for some shapes only, and warm-up used another shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import CaptureFailed, SyncDuringCapture
from lowgraph.memory import open_window
from tests.capture.micro import BLOCKS, Micro
from tests.capture.test_refusals import assert_sound
from tests.field_cases.bare import BLOCK, GRID, INVALIDATED, NOT_PERMITTED, Bare, N, foreign
from tests.field_cases.remedy import names_the_line, refusal_of
from tests.support.codes import code_of

FILE = Path(__file__).name
LARGEST_WITHOUT_SYNC = 500


def test_bare_only_the_shape_that_was_not_warmed_up_breaks(bare: Bare) -> None:
    fill, out = bare.kernel("fill"), bare.rig.empty(N)
    codes: list[int] = []

    def sortlike(n: int) -> None:
        fill(bare.stream, GRID, BLOCK, out, 1.0, n)
        if n > LARGEST_WITHOUT_SYNC:
            codes.append(foreign("cuStreamSynchronize", bare.stream))

    assert bare.end_code(lambda: sortlike(100)) == 0
    assert bare.end_code(lambda: sortlike(501)) == INVALIDATED
    assert codes == [NOT_PERMITTED]


def test_through_us_it_is_refused_and_the_capture_is_still_valid(micro: Micro) -> None:
    statuses: list[str] = []

    def sortlike(n: int) -> None:
        if n > LARGEST_WITHOUT_SYNC:
            try:
                driver.stream.synchronize(micro.stream)
            finally:
                statuses.append(driver.stream.capture_status(micro.stream))

    refusal = refusal_of(micro, lambda: sortlike(501), SyncDuringCapture)
    assert statuses == ["active"], "the driver never saw the call"
    assert "cuStreamSynchronize was called in the capture window of 'step'" in str(refusal)
    assert names_the_line(refusal, FILE)


def test_past_us_it_is_a_failed_capture_and_the_run_goes_on(micro: Micro) -> None:
    def sortlike(number: int) -> None:
        if open_window.mine() is not None:
            assert foreign("cuStreamSynchronize", micro.stream) == NOT_PERMITTED

    micro.extra = sortlike
    step = micro.step()
    for _ in range(4):
        step()
    report = step.report()
    assert report.refusals == 3 and report.eager_steps == 4 and step.phase is Phase.PRIMING
    assert micro.state() == micro.expected(4)
    assert CaptureFailed.__name__ in micro.said[0]
    assert_sound(micro)


def test_our_next_launch_after_it_is_named_not_left_at_901(micro: Micro) -> None:
    def sortlike() -> None:
        foreign("cuStreamSynchronize", micro.stream)
        assert code_of(lambda: _launch(micro)) == INVALIDATED

    refusal = refusal_of(micro, sortlike, CaptureFailed)
    assert "the capture of 'step' was invalidated (901) by a call" in str(refusal)
    assert refusal.remedy


@pytest.mark.parametrize("call", ["synchronize", "is_done"])
def test_events_are_guarded_as_streams_are(micro: Micro, bare: Bare, call: str) -> None:
    event = bare.new_event()
    refusal = refusal_of(micro, lambda: getattr(driver.event, call)(event), SyncDuringCapture)
    assert names_the_line(refusal, FILE)


def _launch(micro: Micro) -> None:
    micro.forward(micro.stream, BLOCKS, 128, micro.y, micro.x, N)
