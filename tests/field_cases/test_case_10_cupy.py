"""Case 10 with CuPy, as reported: a captured block goes to a new array, and a replay reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.capture import Input, Phase
from lowgraph.interop import cupy_ops, cupy_view
from lowgraph.memory import download
from tests.capture.micro import Micro
from tests.field_cases.bare import N

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


def test_bare_the_second_replay_reads_the_new_owner() -> None:
    """CuPy's own capture, and its pool: no error, somebody else's numbers."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        a = cupy.ones(N, "f4")
        (a * 2).sum()  # compiled, and with a block in the pool for the result
        stream.synchronize()
        stream.begin_capture()
        y = a * 2
        graph = stream.end_capture()
        graph.launch()
        stream.synchronize()
        assert (y.get() == 2).all(), "the first one looks right"
        address = a.data.ptr
        del a
        taken = [cupy.full(N, 7, "f4") for _ in range(4)]
        assert address in [other.data.ptr for other in taken], "the pool hands the block out"
        graph.launch()
        stream.synchronize()
        assert (y.get() == 14).all()


def test_an_array_that_is_declared_is_kept_whatever_its_name(micro: Micro) -> None:
    arrays = {"a": cupy.ones(N, "f4")}
    cupy.cuda.get_current_stream().synchronize()
    y = cupy_view(micro.y)

    def body(stream: int) -> None:
        with cupy_ops(micro.pool, stream):
            y[...] = arrays["a"] * 2

    step = micro.step(body=body, inputs=[Input("a", arrays["a"])])
    step()
    step()
    address = arrays.pop("a").data.ptr
    others = [cupy.full(N, 7, "f4") for _ in range(4)]
    cupy.cuda.get_current_stream().synchronize()
    assert address not in [other.data.ptr for other in others]
    step()
    assert np.all(download(micro.y, micro.stream) == 2)
    assert step.report().replays == 2


def test_temporaries_are_the_graphs_and_have_names(micro: Micro) -> None:
    x, y = cupy_view(micro.x), cupy_view(micro.y)
    values = download(micro.x, micro.stream).astype(np.float64)

    def body(stream: int) -> None:
        with cupy_ops(micro.pool, stream):
            double = x * 2
            y[...] = cupy.exp(double) - double

    step = micro.step(body=body)
    for _ in range(3):
        step()
        theirs = [cupy.full(N, 7, "f4") for _ in range(4)]
        ours = [micro.pool.take(f"other {n}", N) for n in range(4)]
        for piece in ours:
            cupy_view(piece).fill(7)
        cupy.cuda.get_current_stream().synchronize()
        # float32: exp within 2 ulp of values below 8, and one rounding of each operation.
        np.testing.assert_allclose(download(micro.y, micro.stream),
                                   np.exp(2 * values) - 2 * values, rtol=0, atol=4e-6)  # fmt: skip
        for piece in ours:
            micro.pool.give_back(piece)
        del theirs
    assert step.phase is Phase.READY and step.report().replays == 2
    held = step.graph.buffers()  # type: ignore[union-attr]
    roles = {buffer.name: buffer.role for buffer in held}
    assert roles["x"] == "unknown", "whether a kernel of CuPy's writes it, nobody says"
    assert roles["y"] in ("unknown", "written") and "temporary" in roles.values()


def test_rebinding_does_not_iterate_and_is_told(micro: Micro) -> None:
    """A = A * 2, as in the report: the graph reads the array that it was recorded with."""
    now: list[Any] = [cupy.ones(N, "f4")]
    cupy.cuda.get_current_stream().synchronize()

    def body(stream: int) -> None:
        with cupy_ops(micro.pool, stream):
            now[0] = now[0] * 2

    step = micro.step(body=body)
    for _ in range(4):
        step()
    micro.rig.sync()
    assert step.report().replays == 3
    assert (now[0].get() == 4).all(), "1 doubled by the plain pass, and that by each replay anew"
    now.clear()
    step.close()
    micro.reset()
    state = cupy_view(micro.y)
    state.fill(1)
    cupy.cuda.get_current_stream().synchronize()

    def in_place(stream: int) -> None:
        with cupy_ops(micro.pool, stream):
            state.__imul__(2)

    step = micro.step(body=in_place, inputs=[Input("A", micro.y, state=True)])
    for _ in range(4):
        step()
    assert np.all(download(micro.y, micro.stream) == 16), "written in place it iterates"
    assert micro.said == []
