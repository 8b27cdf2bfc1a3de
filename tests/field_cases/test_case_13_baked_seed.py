"""Case 13: a seed set after the capture is ignored, and every replay draws the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowgraph.errors import FrozenScalar
from lowgraph.memory import download, upload
from lowgraph.ops.dropout import Dropout
from lowgraph.ops.random_state import RandomState
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, SOURCE, Bare, N

FILE = Path(__file__).name


def test_bare_a_new_seed_changes_nothing_and_replays_repeat(bare: Bare) -> None:
    seed = 1
    mask, offset = bare.rig.empty(N), bare.rig.put(np.zeros(1, np.uint32))
    kernel = bare.kernel("mask_by_value")

    def draw() -> None:
        kernel(bare.stream, GRID, BLOCK, mask, seed, offset, N)

    graph = bare.ready(draw)
    bare.replay(graph)
    first = bare.rig.get(mask)
    seed = 2
    bare.replay(graph)
    assert np.array_equal(bare.rig.get(mask), first), "reseeded, and the mask is the same"
    draw()
    assert not np.array_equal(bare.rig.get(mask), first), "eagerly the seed matters"


def test_a_by_value_seed_that_changes_is_refused(micro: Micro) -> None:
    kernel = micro.rig.library.kernel(SOURCE, "mask_by_value")
    offset = micro.pool.take("offset", 1, np.uint32)
    micro.extra = lambda number: kernel(micro.stream, BLOCKS, 128, micro.y, number, offset, N)
    step = micro.step()
    step()
    step()
    first = step.report().first_refusal
    assert FrozenScalar.__name__ in micro.said[0] and f"{FILE}:" in first
    assert "argument 'seed' of mask_by_value" in first


def test_device_state_follows_the_seed_and_advances_by_what_a_step_draws(micro: Micro) -> None:
    library, stream = micro.rig.library, micro.stream
    draw, advance = (library.kernel(SOURCE, f"mask_{name}") for name in ("from_state", "advance"))
    state, mask = micro.pool.take("random", 2, np.uint32), micro.pool.take("mask", N)

    def body(on: int) -> None:
        draw(on, GRID, BLOCK, mask, state, N)
        advance(on, 1, 1, state, N)

    def masks(seed: int, steps: int) -> list[bytes]:
        upload(state, np.array([seed, 0], np.uint32), stream)
        found = []
        for _ in range(steps):
            step()
            found.append(download(mask, stream).tobytes())
        return found

    step = micro.step(body=body)
    first, again, other = masks(1, 4), masks(1, 4), masks(2, 4)
    assert step.report().replays == 11
    assert len(set(first)) == 4, "every step draws afresh"
    assert first == again, "the same seed, the same masks: eager, recorded or replayed"
    assert not set(first) & set(other), "a seed written between replays counts"
    assert int(download(state, stream)[1]) == 4 * N, "the offset counts the draws"


class Dropping:
    """dropout forward and backward over random state of ours, in a step."""

    def __init__(self, micro: Micro) -> None:
        pool, library = micro.pool, micro.rig.library
        self.stream = micro.stream
        self.random = RandomState(pool=pool, library=library, stream=micro.stream, seed=1)
        self.dropout = Dropout(library)
        self.x, self.y, self.dx = (pool.take(name, N) for name in ("ones", "dropped", "dx"))
        self.saved = pool.take("saved", 2, np.uint64)
        upload(self.x, np.ones(N, np.float32), micro.stream)
        self.step = micro.step(body=self.body, random=[self.random])

    def body(self, stream: int) -> None:
        with self.random.step(stream) as draws:
            self.dropout.forward(stream, self.y, self.saved, self.x, draws, 0.5, N)
            self.dropout.backward(stream, self.dx, self.x, self.saved, 0.5, N)

    def masks(self, seed: int, steps: int) -> list[bytes]:
        self.random.seed(seed)
        found = []
        for _ in range(steps):
            self.step()
            mask, gradient = (download(piece, self.stream) for piece in (self.y, self.dx))
            assert np.array_equal(mask, gradient), "backward reuses the forward's draws"
            found.append(mask.tobytes())
        return found


def test_dropout_of_ours_follows_the_seed_and_never_repeats(micro: Micro) -> None:
    dropping = Dropping(micro)
    first, again, other = dropping.masks(1, 4), dropping.masks(1, 4), dropping.masks(2, 4)
    assert len(set(first)) == 4 and first == again and not set(first) & set(other)
    report = dropping.step.report()
    assert report.replays == 11 and report.draws == {"random state": -(-N // 4)}
    assert f"{-(-N // 4)} draws a replay" in report.text()


def test_a_declared_seed_is_refused_even_while_it_does_not_change(micro: Micro) -> None:
    """Comparing two passes cannot find a seed that is the same in both; declaring it does."""
    kernel = micro.rig.library.kernel(SOURCE, "mask_by_value")
    offset = micro.pool.take("offset", 1, np.uint32)
    micro.extra = lambda number: kernel(micro.stream, BLOCKS, 128, micro.y, 1, offset, N)
    step = micro.step(per_step=["mask_by_value.seed"])
    step.prime()
    with pytest.raises(FrozenScalar) as raised:
        step.capture()
    assert (raised.value.kernel, raised.value.parameter) == ("mask_by_value", "seed")
    assert raised.value.recorded == 1 and f"{FILE}:" in str(raised.value)
