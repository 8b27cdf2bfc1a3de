"""Case 11: a replay reads the address from the capture; the caller passed a new array."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph import counters, driver
from lowgraph.capture import GraphStep, Phase
from lowgraph.capture.pins import CopyIn, Input, Pin, Rebind
from lowgraph.errors import InputMoved
from lowgraph.memory import Slice, download, upload
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N


def test_bare_the_output_follows_the_old_array(bare: Bare) -> None:
    scale = bare.kernel("scale")
    x, out = bare.rig.put(np.ones(N, np.float32)), bare.rig.empty(N)
    graph = bare.ready(lambda: scale(bare.stream, GRID, BLOCK, out, x, 2.0, N))
    fresh = bare.rig.put(np.full(N, 5, np.float32))  # what the producer returns this step
    bare.replay(graph)
    assert np.all(bare.rig.get(out) == 2.0) and fresh.address != x.address
    driver.memory.copy_dtod_async(x.address, fresh.address, fresh.nbytes, bare.stream)
    bare.replay(graph)
    assert np.all(bare.rig.get(out) == 10.0), "only a copy in makes it right"


class Fed:
    """out = 2 batch + 1, with a batch that the producer hands out anew."""

    def __init__(self, micro: Micro, pin: type[Pin]) -> None:
        self.micro = micro
        self.batch = self.fresh("batch", 1.0)
        self.out = micro.pool.take("out", N)
        self.pin = pin("batch", lambda: self.batch)
        given = {"inputs": [self.pin]} if pin is Input else {"pins": [self.pin]}
        self.step: GraphStep = micro.step(body=self.body, **given)

    def fresh(self, name: str, value: float) -> Slice:
        piece = self.micro.pool.take(name, N)
        upload(piece, np.full(N, value, np.float32), self.micro.stream)
        return piece

    def body(self, stream: int) -> None:
        self.micro.forward(stream, BLOCKS, 128, self.out, self.pin, N)

    def result(self) -> float:
        values = download(self.out, self.micro.stream)
        assert np.all(values == values[0])
        return float(values[0])


def test_a_moved_input_is_refused_and_nothing_is_launched(micro: Micro) -> None:
    fed = Fed(micro, Input)
    for _ in range(3):
        fed.step()
    captured, old = fed.batch.address, fed.batch
    fed.batch = fed.fresh("next", 5.0)
    with counters.scope() as counts, pytest.raises(InputMoved) as raised:
        fed.step()
    error = raised.value
    assert counts.graph_launches == counts.launches == 0 and fed.result() == 3.0
    assert (error.name, error.captured, error.given, error.shape) == (
        "batch", captured, fed.batch.address, (N,))  # fmt: skip
    assert {"address"} <= set(error.differs)
    assert str(error).startswith(f"{__file__}:"), "the line that called the step"
    assert "nothing was launched" in str(error) and "CopyIn" in str(error)
    fed.batch = old
    fed.step()
    assert fed.step.phase is Phase.READY and fed.result() == 3.0
    report = fed.step.report()
    assert report.refusals == 0 and report.eager_steps == 1, "no silent eager fallback"


def test_the_same_address_after_a_reuse_is_another_input(micro: Micro) -> None:
    """Generations: the block came back for a new slice; the address alone would not tell."""
    fed = Fed(micro, Input)
    for _ in range(3):
        fed.step()
    micro.pool.give_back(fed.batch)
    with pytest.raises(InputMoved, match="given back"):
        fed.step()


@pytest.mark.parametrize("kind", ["shape", "dtype"])
def test_another_shape_or_dtype_is_refused(micro: Micro, kind: str) -> None:
    fed = Fed(micro, Input)
    for _ in range(3):
        fed.step()
    shape, dtype = ((N + 1,), np.float32) if kind == "shape" else ((N,), np.int32)
    fed.batch = micro.pool.take("other", shape, dtype)
    with pytest.raises(InputMoved) as raised:
        fed.step()
    assert kind in raised.value.differs and kind in str(raised.value)


@pytest.mark.parametrize(("pin", "launches"), [(CopyIn, 1), (Rebind, 0)])
def test_a_declared_pin_follows_the_new_array_at_a_stated_price(
    micro: Micro, pin: type[Pin], launches: int
) -> None:
    fed = Fed(micro, pin)
    for _ in range(3):
        fed.step()
    assert fed.result() == 3.0
    for value in (5.0, 7.0):
        fed.batch = fed.fresh(f"batch {value}", value)
        with counters.scope() as counts:
            fed.step()
        assert fed.result() == 2 * value + 1
        assert (counts.graph_launches, counts.launches) == (1, launches)
    report = fed.step.report()
    assert (report.pins, report.pin_launches) == (1, launches)
    assert report.replays == 4 and fed.step.phase is Phase.READY
