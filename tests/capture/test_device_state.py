"""What changes from step to step: written between replays, drawn in them, or refused by value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import CaptureRefused, FrozenScalar
from lowgraph.memory import Slice, download, upload
from lowgraph.ops import ControlBlock, Dropout, RandomState
from tests.capture.micro import Micro
from tests.capture.moving import SOURCE
from tests.support.rig import Rig

COUNT = 515
COUNTERS = -(-COUNT // 4)
BLOCKS = -(-COUNT // 128)


class Dropping:
    """A step of two dropouts and their backward over ones: y and dx of the second are kept."""

    def __init__(self, micro: Micro, name: str = "a", **options: Any) -> None:
        self.micro = micro
        pool, self.stream = micro.pool, micro.stream
        library = micro.rig.library
        self.ops = Dropout(library)
        self.random = RandomState(pool=pool, library=library, stream=self.stream, seed=7,
                                  name=f"random {name}")  # fmt: skip
        self.x, self.y, self.dx = (pool.take(f"{name} {n}", COUNT) for n in ("x", "y", "dx"))
        upload(self.x, np.ones(COUNT, np.float32), self.stream)
        self.step = micro.step(body=self.body, random=[self.random], label=name, **options)

    def body(self, stream: int) -> None:
        pool = self.micro.pool
        hidden = pool.take("hidden", COUNT)
        saved = [pool.take(f"saved {n}", 2, np.uint64) for n in range(2)]
        with self.random.step(stream) as draws:
            self.ops.forward(stream, hidden, saved[0], self.x, draws, 0.5, COUNT)
            self.ops.forward(stream, self.y, saved[1], self.x, draws, 0.5, COUNT)
            self.ops.backward(stream, self.dx, self.x, saved[1], 0.5, COUNT)

    def masks(self, steps: int) -> list[bytes]:
        """y after each step; dx, made from the saved offset, must have the same mask."""
        found = []
        for _ in range(steps):
            self.step()
            y = download(self.y, self.stream).tobytes()
            assert download(self.dx, self.stream).tobytes() == y
            found.append(y)
        return found


def test_every_replay_draws_anew_and_backward_has_its_mask(micro: Micro) -> None:
    graphed = Dropping(micro)
    masks = graphed.masks(8)
    assert len(set(masks)) == 8
    report = graphed.step.report()
    assert report.replays == 7 and report.draws == {"random a": 2 * COUNTERS}
    assert f"random a: {2 * COUNTERS} draws a replay" in report.text()
    assert graphed.random.read() == (7, 8 * 2 * COUNTERS), "the amount that the graph consumes"
    assert report.kernels == 4, "two forwards, a backward, one advance"


def test_graphed_draws_equal_eager_bit_for_bit(micro: Micro) -> None:
    eager, graphed = Dropping(micro, "eager", graph=False), Dropping(micro, "graphed")
    assert eager.masks(6) == graphed.masks(6)
    assert eager.random.read() == graphed.random.read()
    assert (eager.step.report().replays, graphed.step.report().replays) == (0, 5)


def test_a_seed_written_after_the_capture_counts(micro: Micro) -> None:
    one = Dropping(micro)
    first = one.masks(4)
    one.random.seed(8)
    other = one.masks(4)
    one.random.seed(7)
    again = one.masks(4)
    assert again == first and not set(first) & set(other)
    assert one.step.report().captures == 1


def test_a_checkpoint_of_the_state_goes_on(micro: Micro) -> None:
    one = Dropping(micro)
    one.masks(3)
    state = one.random.read()
    ahead = one.masks(3)
    one.random.write(*state)
    assert one.masks(3) == ahead


def test_bare_a_seed_by_value_gives_one_mask_for_ever(micro: Micro) -> None:
    """The failure that the random state replaces: reseeded, replayed, and nothing changes."""
    kernel, stream = micro.rig.library.kernel(SOURCE, "mask_of_seed"), micro.stream
    y = micro.pool.take("mask", COUNT)
    seed = 1
    driver.stream.begin_capture(stream)
    kernel(stream, BLOCKS, 128, y, seed, COUNT)
    graph = driver.stream.end_capture(stream)
    executable = driver.graph.instantiate(graph)
    masks = set()
    while seed < 4:
        driver.graph.launch(executable, stream)
        masks.add(download(y, stream).tobytes())
        seed += 1
    assert len(masks) == 1
    kernel(stream, BLOCKS, 128, y, seed, COUNT)
    assert download(y, stream).tobytes() not in masks
    driver.graph.exec_destroy(executable)
    driver.graph.destroy(graph)


@pytest.mark.parametrize("declared", ["seed", "mask_of_seed.seed"])
def test_a_declared_scalar_by_value_is_refused_though_it_did_not_change(
    micro: Micro, declared: str
) -> None:
    kernel = micro.rig.library.kernel(SOURCE, "mask_of_seed")
    micro.extra = lambda number: kernel(micro.stream, 8, 128, micro.y, 5, 1000)
    step = micro.step(per_step=[declared])
    step.prime()
    with pytest.raises(FrozenScalar) as raised:
        step.capture()
    error = raised.value
    assert (error.kernel, error.parameter, error.recorded) == ("mask_of_seed", "seed", 5)
    assert "test_device_state.py:" in str(error) and "pass its address" in str(error)
    assert micro.pool.stats().retained == 0
    other = micro.step(per_step=["other.seed", "rate"], label="other")
    other()
    other()
    assert other.phase is Phase.READY, "a parameter that no by-value argument has the name of"


def test_a_scalar_that_changed_is_refused_with_kernel_parameter_and_both_values(
    micro: Micro,
) -> None:
    kernel = micro.rig.library.kernel(SOURCE, "mask_of_seed")
    micro.extra = lambda number: kernel(micro.stream, 8, 128, micro.y, 40 + number, 1000)
    step = micro.step()
    for _ in range(3):  # an eager step between: the step numbers of the passes are no neighbours
        step.prime()
    with pytest.raises(FrozenScalar) as raised:
        step.capture()
    error = raised.value
    assert (error.kernel, error.parameter) == ("mask_of_seed", "seed")
    assert (error.primed, error.recorded) == (43, 44)
    assert "'seed' of mask_of_seed (launch 3) was 43" in str(error) and "44" in str(error)


class Scheduled:
    """A step that advances a control block and copies its learning rate into a log."""

    def __init__(self, rig: Rig, micro: Micro) -> None:
        self.control = ControlBlock(pool=micro.pool, library=rig.library, stream=rig.stream,
                                    total_steps=1000, lr_max=1.0, lr_min=1.0)  # fmt: skip
        self.blocks: list[Slice] = [micro.pool.take(f"log {n}", 128, np.uint8) for n in range(40)]
        self.micro = micro
        self.busy = rig.library.kernel(SOURCE, "busy")
        self.step = micro.step(body=self.body)

    def body(self, stream: int) -> None:
        self.control.advance(stream)
        self.busy(stream, 1, 1, self.micro.rate, 100_000)


@pytest.fixture
def scheduled(rig: Rig, micro: Micro) -> Iterator[Scheduled]:
    made = Scheduled(rig, micro)
    yield made
    made.step.close()
    made.control.close()


def test_set_between_replays_is_without_a_race(rig: Rig, scheduled: Scheduled) -> None:
    """Written while replays are in flight, never waiting for the stream: each step has its own."""
    from lowgraph.ops.control import CONTROL_DTYPE

    step, control = scheduled.step, scheduled.control
    step()
    step()
    rig.sync()
    was_behind = False
    for number, block in enumerate(scheduled.blocks):
        control.set(lr_max=float(number + 2), lr_min=float(number + 2))
        step()
        was_behind |= not driver.stream.is_done(rig.stream)
        driver.memory.copy_dtod_async(block.address, control.address, block.nbytes, rig.stream)
    blocks = [download(block, rig.stream).view(CONTROL_DTYPE)[0] for block in scheduled.blocks]
    assert was_behind, "the host was to be ahead of the device: the test showed nothing"
    assert [float(block["lr"]) for block in blocks] == [float(n + 2) for n in range(40)]
    assert [int(block["step"]) for block in blocks] == list(range(3, 43)), "no step was undone"
    assert step.report().replays == 41 and step.report().captures == 1


@pytest.mark.parametrize("write", ["set", "seed"])
def test_a_write_in_a_window_is_refused(micro: Micro, scheduled: Scheduled, write: str) -> None:
    random = RandomState(pool=micro.pool, library=micro.rig.library, stream=micro.stream)
    micro.extra = lambda number: (
        scheduled.control.set(lr_max=2.0) if write == "set" else random.seed(3)
    )
    step = micro.step(label="window")
    step.prime()
    with pytest.raises(CaptureRefused, match="move it before the step, outside the body"):
        step.capture()
