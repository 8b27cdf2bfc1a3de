"""Case 5: the capture stream is a blocking one, and another thread works on the legacy stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import BlockingCaptureStream, CaptureError
from lowgraph.memory import open_window
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound
from tests.field_cases.bare import BLOCK, GRID, INVALIDATED, Bare, N, foreign
from tests.support.codes import code_of

FILE = Path(__file__).name
IMPLICIT = 906


@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
def test_bare_legacy_work_of_a_thread_breaks_the_capture(bare: Bare, mode: str) -> None:
    fill = bare.kernel("fill")
    out, other = bare.rig.empty(N), bare.rig.empty(N)
    blocking = bare.new_stream(non_blocking=False)
    codes: list[int] = []

    def disturbed() -> None:
        fill(blocking, GRID, BLOCK, out, 1.0, N)
        codes.append(bare.in_thread(lambda: foreign("cuMemsetD8", other.address, 0, 4 * N)))
        codes.append(code_of(lambda: fill(blocking, GRID, BLOCK, out, 1.0, N)))

    assert bare.end_code(disturbed, mode, blocking) == INVALIDATED
    assert codes == [IMPLICIT, INVALIDATED], "the innocent thread and the next launch are told"


def test_bare_a_non_blocking_stream_is_not_disturbed(bare: Bare) -> None:
    fill = bare.kernel("fill")
    out, other = bare.rig.empty(N), bare.rig.empty(N)

    def disturbed() -> None:
        assert bare.in_thread(lambda: foreign("cuMemsetD8", other.address, 0, 4 * N)) == 0
        fill(bare.stream, GRID, BLOCK, out, 1.0, N)

    assert bare.end_code(disturbed) == 0


def test_a_906_names_the_capture_that_is_open(bare: Bare) -> None:
    """A capture begun by hand on a blocking stream; the innocent thread learns whose it is."""
    other = bare.rig.empty(N)
    blocking = bare.new_stream(non_blocking=False)
    told: list[object] = []

    def fill_on_the_legacy_stream() -> str:
        try:
            driver.memory.memset_d8_async(other.address, 0, 4 * N, 0)
        except CaptureError as error:
            assert error.code == IMPLICIT
            return str(error)
        return "no error"

    def disturbed() -> None:
        bare.kernel("fill")(blocking, GRID, BLOCK, other, 1.0, N)
        told.append(bare.in_thread(fill_on_the_legacy_stream))

    assert bare.end_code(disturbed, "thread_local", blocking) == INVALIDATED
    for part in (f"on stream {blocking:#x}", "begun", "MainThread", "bare.py:"):
        assert part in str(told[0]), told[0]


@pytest.mark.parametrize("special", [0, 1, 2])
def test_a_special_stream_is_refused_before_the_begin(micro: Micro, special: int) -> None:
    named = {2: "the per-thread stream"}.get(special, "the legacy stream")
    _refused(micro, special, named)


def test_a_blocking_stream_is_refused_before_the_begin(micro: Micro) -> None:
    blocking = driver.stream.create(non_blocking=False)
    try:
        _refused(micro, blocking, f"stream {blocking:#x}, a blocking stream")
    finally:
        driver.stream.synchronize(blocking)
        driver.stream.destroy(blocking)


def test_legacy_work_of_a_thread_leaves_a_window_of_ours_alone(micro: Micro, bare: Bare) -> None:
    other = micro.rig.empty(N)
    codes: list[object] = []

    def disturb(number: int) -> None:
        if open_window.mine() is not None:
            codes.append(bare.in_thread(lambda: foreign("cuMemsetD8", other.address, 0, 4 * N)))

    micro.extra = disturb
    step = micro.step()
    step()
    step()
    assert codes == [0] and step.phase is Phase.READY


def _refused(micro: Micro, stream: int, named: str) -> None:
    calls: list[str] = []
    step = micro.step(stream=stream)
    step.prime()
    driver.gate.observer = lambda name, args, code: calls.append(name)
    try:
        with pytest.raises(BlockingCaptureStream) as raised:
            step.capture()
    finally:
        driver.gate.observer = None
    assert "cuStreamBeginCapture" not in calls
    text = str(raised.value)
    assert named in text and "906" in text and "driver.stream.create()" in text
    assert FILE in text
    assert_sound(micro)
