"""Case 12: Adam's step count and learning rate are baked into the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.capture import Phase
from lowgraph.errors import FrozenScalar
from lowgraph.memory import download, upload
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N
from tests.support.rig import Buffer

FILE = Path(__file__).name
RATE = 0.1


def _by_value(bare: Bare, p: Buffer, m: Buffer, g: Buffer, step: int) -> None:
    correction = 1.0 - 0.9**step
    bare.kernel("adam_by_value")(bare.stream, GRID, BLOCK, p, m, g, RATE / step, correction, N)


def _problem(bare: Bare) -> tuple[Buffer, Buffer, Buffer]:
    zeros, gradient = np.zeros(N, np.float32), np.linspace(1, 2, N, dtype=np.float32)
    return bare.rig.put(zeros), bare.rig.put(zeros), bare.rig.put(gradient)


def _eager(bare: Bare, steps: int) -> list[np.ndarray[Any, Any]]:
    p, m, g = _problem(bare)
    found = []
    for step in range(1, steps + 1):
        _by_value(bare, p, m, g, step)
        found.append(bare.rig.get(p))
    return found


def test_bare_replays_diverge_from_the_second_on(bare: Bare) -> None:
    expected = _eager(bare, 5)
    p, m, g = _problem(bare)
    graph = bare.ready(lambda: _by_value(bare, p, m, g, 1))
    replayed = []
    for _ in range(5):
        bare.replay(graph)
        replayed.append(bare.rig.get(p))
    same = [np.array_equal(a, b) for a, b in zip(replayed, expected, strict=True)]
    assert same == [True, False, False, False, False]


def test_a_by_value_rate_is_refused_with_kernel_parameter_and_values(micro: Micro) -> None:
    kernel = micro.rig.library.kernel(Path(__file__).parent / "kernels.cu", "adam_by_value")
    m = micro.pool.take("m", N)

    def update(number: int) -> None:
        kernel(micro.stream, BLOCKS, 128, micro.y, m, micro.x, RATE / number, 1.0, N)

    micro.extra = update
    step = micro.step()
    step()
    step()
    report = step.report()
    assert report.refusals == 1 and FrozenScalar.__name__ in micro.said[0]
    for part in ("argument 'rate' of adam_by_value", f"{FILE}:"):
        assert part in report.first_refusal
    assert step.phase is not Phase.READY


def test_with_device_state_replays_equal_eager_bit_for_bit(micro: Micro) -> None:
    stream, pool = micro.stream, micro.pool
    source = Path(__file__).parent / "kernels.cu"
    adam, advance = (micro.rig.library.kernel(source, name) for name in ("adam", "adam_advance"))
    p, m, state = pool.take("p", N), pool.take("m", N), pool.take("state", 3)

    def body(on: int) -> None:
        advance(on, 1, 1, state, RATE)
        adam(on, GRID, BLOCK, p, m, micro.x, state, N)

    results = []
    for graph in (False, True):
        for piece, values in ((p, 0), (m, 0), (state, [0, 1, 0])):
            upload(piece, np.broadcast_to(np.float32(values), piece.shape), stream)
        step = micro.step(body=body, graph=graph)
        results.append([])
        for _ in range(6):
            step()
            results[-1].append(download(p, stream).tobytes())
    assert results[0] == results[1] and len(set(results[1])) == 6, "equal, and each step moved p"
    assert micro.steps[-1].report().replays == 5


def test_the_reason_is_said_once_whatever_the_value(micro: Micro) -> None:
    kernel = micro.rig.library.kernel(Path(__file__).parent / "kernels.cu", "adam_by_value")
    m = micro.pool.take("m", N)
    micro.extra = lambda number: kernel(
        micro.stream, BLOCKS, 128, micro.y, m, micro.x, RATE / number, 1.0, N
    )
    step = micro.step(max_refusals=8)
    for _ in range(12):
        step()
    assert step.report().refusals == 8 and len(step.report().reasons) == 8
    assert [line.split(":")[-1] for line in micro.said[1:]] == [" DISABLED after 8 refusals"]
