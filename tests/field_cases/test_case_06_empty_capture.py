"""Case 6: the work went to another stream; the graph is empty and replays do nothing, silently."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lowgraph import driver
from lowgraph.errors import CaptureIncomplete, EmptyCapture
from tests.capture.micro import BLOCKS, Micro, N
from tests.field_cases.bare import BLOCK, GRID, Bare, types_of
from tests.field_cases.remedy import names_the_line, refusal_of

FILE = Path(__file__).name


def test_bare_the_graph_is_empty_and_its_replays_change_nothing(bare: Bare) -> None:
    scale = bare.kernel("scale")
    x, out = bare.rig.put(np.ones(N, np.float32)), bare.rig.empty(N)
    elsewhere = bare.new_stream()
    graph = bare.record(lambda: scale(elsewhere, GRID, BLOCK, out, x, 2.0, N))
    driver.stream.synchronize(elsewhere)
    assert types_of(graph) == {}
    bare.kernel("fill")(bare.stream, GRID, BLOCK, x, 5.0, N)
    bare.replay(bare.instantiate(graph), 3)
    assert np.all(bare.rig.get(out) == 2.0), "the eager value is still there, and looks right"


def test_a_launch_elsewhere_is_refused_before_it_runs(micro: Micro, bare: Bare) -> None:
    elsewhere = bare.new_stream()
    before = micro.rig.get(micro.y)
    refusal = refusal_of(
        micro,
        lambda: micro.forward(elsewhere, BLOCKS, 128, micro.y, micro.x, N),
        CaptureIncomplete,
    )
    text = str(refusal)
    assert f"kernel forward was sent to stream {elsewhere:#x}" in text
    assert "it would run at once and be in no replay" in text
    assert names_the_line(refusal, FILE)
    assert before.shape == (N,)


def test_an_empty_window_is_refused_at_its_end(micro: Micro) -> None:
    step = micro.step(body=lambda stream: None)
    step()
    step()
    first = step.report().first_refusal
    assert "the window of 'step' recorded nothing: replays would do nothing" in first
    assert list(micro.said) == [f"lowgraph: step: no graph: {EmptyCapture.__name__}: {first}"]


def test_a_copy_elsewhere_is_refused_too(micro: Micro, bare: Bare) -> None:
    elsewhere = bare.new_stream()
    refusal = refusal_of(
        micro,
        lambda: driver.memory.memset_d8_async(micro.y.address, 0, 4 * N, elsewhere),
        CaptureIncomplete,
    )
    assert "cuMemsetD8Async was sent to stream" in str(refusal) and names_the_line(refusal, FILE)
