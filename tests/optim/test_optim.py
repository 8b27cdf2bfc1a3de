"""The optimizer over arenas against PyTorch: update, clipping, average, accumulation; recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from lowgraph.capture import GraphStep
from lowgraph.errors import ConfigError
from lowgraph.memory import Arena, download
from lowgraph.optim import Accumulation, AdamW
from lowgraph.specs import TensorSpec
from tests.ops import twins
from tests.ops.compare import ROUNDOFF, assert_close, assert_same_bits
from tests.optim.bench import SHAPES, Bench, Tensors, draw
from tests.support.closing import all_closed
from tests.support.rig import Rig

pytestmark = pytest.mark.both

STEPS = 6
NO_TORCH = "the oracle extra is not installed"

Make = Callable[..., Bench]


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    """Benches that are closed when the test ends."""
    with all_closed(partial(Bench, rig)) as build:
        yield build


def rates(schedule: str = "cosine") -> list[float]:
    return [twins.learning_rate(step, 20, 2, 0.01, 0.001, schedule) for step in range(1, STEPS + 1)]


def distances(ours: Tensors, reference: Tensors) -> dict[str, float]:
    """Of each tensor: norm of the difference over the reference's, with a share of all of them."""
    whole = np.sqrt(sum(float((tensor**2).sum()) for tensor in reference.values()))
    return {
        name: float(np.linalg.norm(ours[name] - want) / (np.linalg.norm(want) + 1e-6 * whole))
        for name, want in reference.items()
    }


def assert_near(ours: Tensors, narrow: Tensors, reference: Tensors) -> None:
    """Ten times the oracle's own distance between float32 and float64, and a rounding a step."""
    limits = distances(narrow, reference)
    for name, distance in distances(ours, reference).items():
        assert distance <= 10 * limits[name] + STEPS * ROUNDOFF, (name, distance, limits[name])


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("clip", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_steps_are_torchs(make: Make, seed: int, clip: float, schedule: str) -> None:
    """Gradients of norm 22 to 76: clipped always, at some steps, never. The average besides."""
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    from tests.optim.rival import Rival

    start = draw(seed)
    bench = make(start, ema=True, ema_decay=0.5, clip_norm=clip, schedule=schedule)
    rivals = [Rival(start, dtype, clip=clip) for dtype in (torch.float32, torch.float64)]
    for number, rate in enumerate(rates(schedule)):
        gradients = draw(100 * seed + number, scale=0.4 + 0.2 * number)
        bench.step(gradients)
        for rival in rivals:
            rival.step(gradients, rate)
        # A float64 sum; the norm that is reported is the one before clipping.
        assert bench.norm.read(bench.stream).norm == pytest.approx(rivals[1].norms[-1], rel=1e-12)
    narrow, wide = rivals
    assert_near(bench.save(bench.parameters), narrow.parameters(), wide.parameters())
    assert bench.optimizer.ema is not None
    assert_near(bench.save(bench.optimizer.ema), narrow.ema(), wide.ema())
    if clip == 40.0:
        assert min(wide.norms) < clip < max(wide.norms), "the test is to clip some steps"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_masked_element_is_one_whose_gradient_is_zero(make: Make, bad: float) -> None:
    start, gradients = draw(0), draw(1)
    spoilt = {name: values.copy() for name, values in gradients.items()}
    for name, place in (("matrix", (32, 30)), ("table", (0, 0)), ("one", (0,))):
        spoilt[name][place] = bad
        gradients[name][place] = 0.0
    masked, plain = (make(start, clip_norm=1.0, ema=True, ema_decay=0.9) for _ in range(2))
    for _ in range(2):
        masked.step(spoilt)
        plain.step(gradients)
    for name, arena in {"parameters": masked.parameters, **masked.optimizer.state}.items():
        other = {"parameters": plain.parameters, **plain.optimizer.state}[name]
        for tensor in SHAPES:
            assert_same_bits(
                masked.save(arena)[tensor], plain.save(other)[tensor], f"{name}.{tensor}"
            )
    assert masked.norm.read(masked.stream)[1:4] == (3, 6, 2)
    assert plain.norm.read(plain.stream)[1:4] == (0, 0, 0)


def test_padding_stays_zero(make: Make) -> None:
    bench = make(draw(0), ema=True, ema_decay=0.9, shadow=True, micro_batches=2)
    assert bench.total is not None
    for index in range(2):
        bench.load(bench.gradients, draw(3 + index))
        bench.total.add(bench.stream, bench.gradients, bench.loss(1.0), index)
    bench.update(bench.stream)
    for arena in (bench.parameters, bench.summed, *bench.optimizer.state.values()):
        assert not bench.padding(arena).any(), arena.name


def test_the_shadow_holds_the_parameters_as_bfloat16(make: Make) -> None:
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    bench = make(draw(0), shadow=True)
    for number in range(3):
        assert bench.shadow is not None
        flat = torch.from_numpy(download(bench.parameters.flat, bench.stream))
        want = flat.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        assert_same_bits(download(bench.shadow, bench.stream), want, f"after {number} steps")
        bench.step(draw(1))


def test_the_average_begins_at_the_loaded_parameters(make: Make) -> None:
    bench = make(draw(0), ema=True)
    assert bench.optimizer.ema is not None
    for name, values in draw(0).items():
        assert_same_bits(bench.save(bench.optimizer.ema)[name], values)
    assert list(bench.optimizer.state) == ["moment1", "moment2", "ema"]
    assert list(make(draw(0)).optimizer.state) == ["moment1", "moment2"]


@pytest.mark.parametrize("count", [2, 3])
def test_accumulated_micro_batches_are_their_mean(make: Make, count: int) -> None:
    parts = [draw(10 + index) for index in range(count)]
    mean = {name: np.mean([p[name].astype(np.float64) for p in parts], axis=0) for name in SHAPES}
    bench = make(draw(0), micro_batches=count)
    assert bench.total is not None
    for _ in range(2):  # the second step must not begin with the first one's sum
        for index, part in enumerate(parts):
            bench.load(bench.gradients, part)
            bench.total.add(bench.stream, bench.gradients, bench.loss(1.0 + index), index)
        for name, want in mean.items():
            # The factor rounds once, each addition once.
            assert_close(bench.save(bench.summed)[name], want, count * (count + 1) * ROUNDOFF)
        loss = download(bench.total.loss, bench.stream)
        assert_close(loss, np.array([(count + 1) / 2]), count * (count + 1) * ROUNDOFF)


def copying_body(bench: Bench, sources: list[Arena]) -> Callable[[int], None]:
    """A step over micro-batches whose "backward" copies prepared gradients."""
    from lowgraph.driver import memory

    losses = [bench.loss(1.0 + index) for index in range(len(sources))]

    def body(stream: int) -> None:
        for index, source in enumerate(sources):
            flat = bench.gradients.flat
            memory.copy_dtod_async(flat.address, source.flat.address, flat.nbytes, stream)
            if bench.total is not None:
                bench.total.add(stream, bench.gradients, losses[index], index)
        bench.update(stream)

    return body


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_recorded_steps_are_the_eager_ones_bit_for_bit(
    rig: Rig, make: Make, micro_batches: int
) -> None:
    """Everything that goes on is device work: five replays of one graph, five eager steps."""
    saved = []
    for graph in (False, True):
        bench = make(draw(0), ema=True, ema_decay=0.9, ema_warmup=True, shadow=True,
                     clip_norm=1.0, schedule="linear", micro_batches=micro_batches)  # fmt: skip
        sources = [bench.parameters.like(f"source {index}") for index in range(micro_batches)]
        for index, source in enumerate(sources):
            source.zero(rig.stream)
            bench.load(source, draw(5 + index))
        step = GraphStep(copying_body(bench, sources), device=rig.device, pool=bench.pool,
                         library=rig.library, stream=rig.stream, label="step",
                         graph=graph)  # fmt: skip
        for _ in range(6):
            step()
        assert step.report().replays == (5 if graph else 0)
        assert bench.shadow is not None
        flats = [bench.parameters.flat, *(a.flat for a in bench.optimizer.state.values())]
        pieces = [*flats, bench.shadow, bench.norm.stats]
        saved.append([download(piece, rig.stream) for piece in pieces])
        assert bench.control.read()["step"] == 6
        step.close()
    for eager, graphed in zip(*saved, strict=True):
        assert_same_bits(eager, graphed)
    assert (saved[0][0] != 0).any()


def test_memory_is_given_back(make: Make) -> None:
    bench = make(draw(0), micro_batches=2, ema=True)
    assert bench.total is not None
    for owner in (bench.total, bench.norm, bench.optimizer):
        owner.close()
        owner.close()
    kept = bench.parameters.flat.nbytes + bench.gradients.flat.nbytes
    assert bench.pool.stats().live == kept + 256, "and a block for the control block"


@pytest.mark.parametrize(
    ("shape", "dtype"), [((5,), np.uint16), ((None,), np.float32), ((None,), np.int16)]
)
def test_a_shadow_that_does_not_fit_is_refused(make: Make, shape: Any, dtype: Any) -> None:
    bench = make(draw(0))
    elements = bench.parameters.elements
    wrong = bench.pool.take("half", tuple(s or elements for s in shape), dtype)
    with pytest.raises(ConfigError, match=rf"'half' must be uint16 \[{elements}\]"):
        AdamW(bench.rig.library, bench.parameters, bench.gradients, 0, bench.stream, shadow=wrong)


def test_arenas_of_another_layout_are_refused(make: Make) -> None:
    bench = make(draw(0), micro_batches=2)
    other = Arena(bench.pool, "other", [TensorSpec("x", (5,))])
    library, stream = bench.rig.library, bench.stream
    with pytest.raises(ConfigError, match=r"make it by parameters.like\("):
        AdamW(library, bench.parameters, other, 0, stream)
    with pytest.raises(ConfigError, match="make one for each arena"):
        bench.norm.measure(stream, other, bench.control)
    assert bench.total is not None
    with pytest.raises(ConfigError, match="other has another layout"):
        bench.total.add(stream, other, bench.loss(0.0), 0)


def test_micro_batches_that_a_step_does_not_have_are_refused(make: Make) -> None:
    bench = make(draw(0), micro_batches=2)
    assert bench.total is not None
    for index in (-1, 2):
        with pytest.raises(ConfigError, match="of 2: count from 0"):
            bench.total.add(bench.stream, bench.gradients, bench.loss(0.0), index)
    with pytest.raises(ConfigError, match="micro_batches must be an integer of at least 1, got 0"):
        Accumulation(bench.rig.library, bench.gradients, 0)
