"""Case 9, the other half: the pass that primed had other sizes than the one that was recorded.

Everything may have gone well then, and what was made ready is still not what the graph needs; or
the window has failed, and this is why.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import GraphStep, Phase
from lowgraph.errors import CaptureAllocationError, CaptureFailed, FrozenScalar, SyncDuringCapture
from lowgraph.memory import open_window
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import INVALIDATED, NOT_PERMITTED, SOURCE, Bare, N, foreign

FILE = Path(__file__).name
Body = Callable[[int, bool], None]


class Two:
    """A step whose body knows whether it primes or is recorded, and what it is made of."""

    def __init__(self, micro: Micro) -> None:
        self.micro = micro
        self.pool = micro.pool
        self.fill = micro.rig.library.kernel(SOURCE, "fill")
        self.out = micro.pool.take("out", N)
        self.other = False  # sizes in the window; a test turns it on

    def step(self, body: Body, **options: object) -> GraphStep:
        def both(stream: int) -> None:
            body(stream, self.other and open_window.mine() is not None)

        return self.micro.step(body=both, **options)

    def launch(self, stream: int, grid: int = 8) -> None:
        self.fill(stream, grid, 128, self.out, 1.0, N)


@pytest.fixture
def two(micro: Micro) -> Two:
    return Two(micro)


def _one_more(two: Two, stream: int, other: bool) -> None:
    two.launch(stream)
    if other:
        two.launch(stream, 2)


def _one_fewer(two: Two, stream: int, other: bool) -> None:
    two.launch(stream)
    if not other:
        two.launch(stream, 2)


def _another_kernel(two: Two, stream: int, other: bool) -> None:
    if other:
        two.launch(stream)
    else:
        two.micro.forward(stream, BLOCKS, 128, two.out, two.micro.x, N)


def _another_slice(two: Two, stream: int, other: bool) -> None:
    piece = two.pool.take("scratch", 64 if other else 1000)
    two.fill(stream, 1, 64, piece, 1.0, 64)


def _a_library_call(two: Two, stream: int, other: bool) -> None:
    two.launch(stream)
    recorder = open_window.recorder()
    if other and recorder is not None:
        recorder.library_call("gemm of a library", 0, ())


_GRID = "fill of grid ({0}, 1, 1), block (128, 1, 1)"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (_one_more, f"has launch 1, {_GRID.format(2)}, where the priming pass had ended. "
                    "Recorded: launches 2, slices 0, products 0; primed: launches 1, slices 0, "),
        (_one_fewer, f"ended where the priming pass had launch 1, {_GRID.format(2)}. "
                     "Recorded: launches 1, slices 0, products 0; primed: launches 2, "),
        (_another_kernel, f"has launch 0, {_GRID.format(8)}, where the priming pass had launch 0, "
                          "forward of grid"),
        (_another_slice, "has slice 'scratch' of 256 bytes, where the priming pass had slice "
                         "'scratch' of 4096 bytes"),
        (_a_library_call, "has a call of gemm of a library, where the priming pass had ended."),
    ],
)  # fmt: skip
def test_a_recording_of_other_sizes_is_told_once_with_the_first_place(
    two: Two, body: Callable[[Two, int, bool], None], told: str
) -> None:
    two.other = True
    step = two.step(lambda stream, other: body(two, stream, other))
    step()
    step()
    assert step.phase is Phase.READY, "a warning, and a graph"
    said = two.micro.said
    assert len(said) == 1 and told in said[0], said
    assert said[0].startswith("lowgraph: step: warning: ") and f"/{FILE}:" in said[0].split(": ")[3]
    assert "prime with the sizes that the step is recorded with" in said[0]
    unmatched = body not in (_another_slice, _a_library_call)
    assert ("; scalars could not be compared;" in said[0]) is unmatched
    report = step.report()
    assert told in report.shape_warning and f"warning: {report.shape_warning}" in report.text()
    step.recapture()
    assert len(said) == 1, "the same place is told once"
    two.other = False
    step.recapture()
    assert step.report().shape_warning == "" and "warning" not in step.report().text()


def test_a_light_journal_warns_without_the_line(two: Two) -> None:
    two.other = True
    step = two.step(lambda stream, other: _one_more(two, stream, other), journal="light")
    step()
    step()
    assert "a line that the light journal did not keep: the recorded pass" in two.micro.said[0]


def test_equal_sets_are_silent_and_another_order_is_a_note(two: Two) -> None:
    def swapped(stream: int, other: bool) -> None:
        if not other:
            two.launch(stream)
        two.micro.forward(stream, BLOCKS, 128, two.out, two.micro.x, N)
        if other:
            two.launch(stream)

    step = two.step(swapped)
    step()
    step()
    assert step.report().notes == [] and two.micro.said == []
    two.other = True
    step.recapture()
    assert two.micro.said == [] and step.report().shape_warning == ""
    assert "recorded in another order than primed" in step.report().notes[0]


def test_sizes_that_differ_where_the_launches_line_up_are_refused_not_warned_of(two: Two) -> None:
    two.other = True
    step = two.step(lambda stream, other: two.launch(stream, 4 if other else 8))
    step.prime()
    with pytest.raises(FrozenScalar, match=r"the grid of fill .* was \(8, 1, 1\)") as raised:
        step.capture()
    assert raised.value.differs == "" and step.report().shape_warning == ""
    assert [line for line in two.micro.said if "warning" in line] == []


# ---- the window that failed: its refusal says what was never primed ----


def _sortlike(two: Two, stream: int, n: int, sync: Callable[[], object]) -> None:
    two.fill(stream, -(-n // 128), 128, two.out, 1.0, n)
    if n > 500:
        sync()


def test_bare_nothing_tells_that_the_warm_up_had_another_shape(bare: Bare) -> None:
    fill, out = bare.kernel("fill"), bare.rig.empty(N)

    def sortlike(n: int) -> int:
        fill(bare.stream, -(-n // 128), 128, out, 1.0, n)
        return int(foreign("cuStreamSynchronize", bare.stream)) if n > 500 else 0

    assert sortlike(100) == 0 and sortlike(501) == 0, "outside of a capture every shape is fine"
    codes: list[int] = []
    assert bare.end_code(lambda: codes.append(sortlike(501))) == INVALIDATED
    assert codes == [NOT_PERMITTED]


@pytest.mark.parametrize("past_us", [True, False])
def test_a_refusal_says_where_the_window_left_the_primed_shape(two: Two, past_us: bool) -> None:
    stream = two.micro.stream

    def sync() -> None:
        if past_us:
            foreign("cuStreamSynchronize", stream)
        else:
            driver.stream.synchronize(stream)

    two.other = True
    step = two.step(lambda s, other: _sortlike(two, s, 501 if other else 100, sync))
    step.prime()
    with pytest.raises(CaptureFailed if past_us else SyncDuringCapture) as raised:
        step.capture()
    assert (
        f"the recorded pass has launch 0, {_GRID.format(4)}, where the priming pass had launch 0, "
        f"{_GRID.format(1)} (at "
    ) in raised.value.differs
    assert f". Up to there: {raised.value.differs}" in str(raised.value)
    assert step.report().first_refusal == str(raised.value)
    assert not any("warning" in line for line in two.micro.said), "told with the refusal"


def test_a_refusal_of_a_window_that_was_primed_says_no_such_thing(two: Two) -> None:
    def body(stream: int, other: bool) -> None:
        two.launch(stream)
        if other:
            driver.stream.synchronize(stream)
        two.launch(stream)  # not reached in the window: what is missing at its end is no news

    two.other = True
    step = two.step(body)
    step.prime()
    with pytest.raises(SyncDuringCapture) as raised:
        step.capture()
    assert raised.value.differs == "" and "Up to there" not in str(raised.value)


def test_a_miss_in_the_pool_names_the_slice_that_was_not_primed(two: Two) -> None:
    def body(stream: int, other: bool) -> None:
        two.pool.take("first", 65 if other else 1000)
        two.pool.take("second", 1 << 20 if other else 64)

    two.other = True
    step = two.step(body)
    step.prime()
    with pytest.raises(CaptureAllocationError) as raised:
        step.capture()
    assert "slice 'first' of 512 bytes, where the priming" in raised.value.differs


def test_random_sizes_part_where_numpy_says(two: Two) -> None:
    """Against an oracle: the first place at which two lists of grids differ."""
    rng, two.other, grids = np.random.default_rng(9), True, list[list[int]]()

    def body(stream: int, other: bool) -> None:
        for grid in grids[other]:
            two.launch(stream, grid)

    for _ in range(5):
        primed, recorded = (list(map(int, rng.integers(1, 4, rng.integers(3, 7)))) for _ in "ab")
        if len(primed) == len(recorded):
            recorded.append(1)
        pairs = zip(primed, recorded, strict=False)
        most = min(len(primed), len(recorded))
        first = next((n for n, (a, b) in enumerate(pairs) if a != b), most)
        grids[:] = primed, recorded
        with two.step(body) as step:
            step()
            step()
            warning = step.report().shape_warning
        assert f"launch {first}, fill" in warning, (primed, recorded, warning)
