"""Inputs that move: stale by bare calls, refused when declared, followed by each kind of pin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph import counters, driver
from lowgraph.capture import CopyIn, ForeignMemory, Input, Phase, Rebind, Table
from lowgraph.errors import InputMoved
from lowgraph.memory import Slice, download, upload
from tests.capture.moving import BLOCKS, GAIN, KINDS, SOURCE, WALK, Moving, N


def test_bare_a_moved_input_is_stale(moving: Moving) -> None:
    """The failure: no error, and the output follows the address from the capture."""
    stream = moving.stream
    driver.stream.begin_capture(stream)
    moving.add(stream, BLOCKS, 128, moving.y, moving.places[0], N)
    graph = driver.stream.end_capture(stream)
    executable = driver.graph.instantiate(graph)
    for _ in WALK:  # whatever the producer returned
        driver.graph.launch(executable, stream)
    assert moving.value() == 2.0 * len(WALK) != GAIN
    driver.graph.exec_destroy(executable)
    driver.graph.destroy(graph)


def test_an_undeclared_input_is_as_stale(moving: Moving) -> None:
    step = moving.step(body=lambda s: moving.add(s, BLOCKS, 128, moving.y, moving.source(), N))
    step()
    step()
    assert moving.run(step, WALK) == 2.0 * len(WALK)


def test_a_declared_input_that_moved_is_refused_by_name(moving: Moving) -> None:
    step = moving.step(inputs=[Input("x", moving.source)])
    assert moving.run(step, [0, 0, 0]) == 6.0
    moving.at = 2
    before = moving.value()
    with counters.scope() as counts, pytest.raises(InputMoved) as raised:
        step()
    assert counts.by_name == {}, "nothing reached the driver"
    error = raised.value
    captured, given = (moving.places[place].address for place in (0, 2))
    assert (error.name, error.captured, error.given, error.shape) == ("x", captured, given, (N,))
    assert error.differs == ("address",)
    for part in ("'x' of 'step' moved (address)", hex(captured), hex(given), "CopyIn", "Rebind"):
        assert part in str(error)
    assert step.phase is Phase.READY and moving.value() == before
    assert moving.run(step, [0]) == 2.0, "put back, it goes on"
    assert step.report().refusals == 0 and step.report().inputs == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph", [True, False])
def test_every_pin_follows(moving: Moving, kind: Any, graph: bool) -> None:
    _, step = moving.ready(kind, graph=graph)
    assert moving.run(step, WALK) == GAIN
    assert step.report().replays == (1 + len(WALK) if graph else 0)


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        (CopyIn, {"cuLaunchKernelEx": 1, "cuGraphLaunch": 1}),
        (Rebind, {"cuGraphLaunch": 1}),
        (Table, {"cuGraphLaunch": 1}),
    ],
)
def test_the_price_of_a_replay(moving: Moving, kind: Any, calls: dict[str, int]) -> None:
    _, step = moving.ready(kind)
    with counters.scope() as counts:
        step()
    assert counts.by_name == calls, "nothing moved"
    report = step.report()
    launches = calls.get("cuLaunchKernelEx", 0)
    assert (report.pins, report.pin_launches, report.launches_replay_step) == (1, launches, 1)
    assert report.launches_eager_step == report.kernels == 1, "a pin's launch is not the step's"
    assert f"pins 1 (launches a replay: {launches})" in report.text()
    noun = "launch" if launches == 1 else "launches"
    assert f"pin 'x': pin={launches} {noun}" in report.text()
    moving.run(step, [2])  # the first move of a rebind also reads the nodes that it sets
    moving.at = 1
    with counters.scope() as moved:
        step()
    extra = {
        CopyIn: {},
        Rebind: {"cuGraphExecKernelNodeSetParams": 1},
        Table: {"cuEventSynchronize": 1, "cuMemcpyHtoDAsync": 1, "cuEventRecord": 1},
    }
    assert moved.by_name == calls | extra[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_replays_in_flight_keep_what_they_were_given(moving: Moving, kind: Any) -> None:
    """The device is behind while the host moves the input: every replay reads its own."""
    pin = kind("x", moving.source)
    kernel = moving.add_table if kind is Table else moving.add

    def body(stream: int) -> None:
        moving.busy(stream, 1, 1, moving.slow, 200_000)
        kernel(stream, BLOCKS, 128, moving.y, pin, N)

    step = moving.step(pin, body=body)
    moving.run(step, [0, 0, 0])
    assert moving.run(step, WALK) == GAIN


@pytest.mark.parametrize("kind", KINDS)
def test_the_content_may_change_in_place(moving: Moving, kind: Any) -> None:
    _, step = moving.ready(kind)
    upload(moving.places[0], np.full(N, 4, np.float32), moving.stream)
    assert moving.run(step, [0]) == 8.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_slice_given_back_is_refused_not_read(moving: Moving, kind: Any) -> None:
    _, step = moving.ready(kind)
    moving.run(step, [1])
    moving.pool.give_back(moving.places[1])
    with counters.scope() as counts, pytest.raises(InputMoved, match="was given back") as raised:
        step()
    assert counts.by_name == {} and raised.value.differs == ("lifetime",)
    assert moving.run(step, [2]) == 200.0


def test_a_reused_address_is_another_input(moving: Moving) -> None:
    """Same bytes of the device, another generation: what is there now was never declared."""
    memory = {"generation": 1}

    def source() -> ForeignMemory:
        address = moving.places[0].address
        return ForeignMemory(address, 4 * N, None, (N,), np.dtype(np.float32), **memory)

    step = moving.step(inputs=[Input("x", source)])
    moving.run(step, [0, 0])
    memory["generation"] = 2
    with pytest.raises(InputMoved) as raised:
        step()
    assert raised.value.differs == ("generation",)


@pytest.mark.parametrize("kind", [Input, *KINDS])
def test_another_shape_or_dtype_is_refused_by_every_kind(moving: Moving, kind: Any) -> None:
    given: list[Any] = [moving.places[0]]
    pin = kind("x", lambda: given[0])
    kernel = moving.add_table if kind is Table else moving.add
    options: dict[str, Any] = {"inputs": [pin]} if kind is Input else {}
    step = moving.step(
        *([] if kind is Input else [pin]),
        body=lambda s: kernel(s, BLOCKS, 128, moving.y, pin, N),
        **options,
    )
    step()
    step()
    given[0] = moving.places[1].part(0, (N // 2,))
    with pytest.raises(InputMoved, match="a graph is of one shape") as raised:
        step()
    assert "shape" in raised.value.differs and raised.value.shape == (N // 2,)
    given[0] = moving.pool.take("ints", N, np.int32)
    with pytest.raises(InputMoved) as raised:
        step()
    assert "dtype" in raised.value.differs
    given[0] = moving.places[0]
    assert moving.run(step, [0]) == 2.0


def test_a_rebind_reaches_every_node_and_offset_and_no_number(moving: Moving) -> None:
    """Two nodes hold x, one of them its second half; a by-value number has the same bits."""
    pin, half = Rebind("x", moving.source), N // 2
    number = moving.places[0].address

    def body(stream: int) -> None:
        moving.add(stream, BLOCKS, 128, moving.y, pin, half)
        second = moving.y.part(half, (half,))
        moving.add(stream, BLOCKS, 128, second, pin.address + 4 * half, half)
        moving.number(stream, BLOCKS, 128, moving.y, number, N)

    step = moving.step(pin, body=body)
    step()
    step()
    halves = np.repeat(np.float32([100, 300]), half)
    upload(moving.places[2], halves, moving.stream)
    before, moving.at = download(moving.y, moving.stream), 2
    with counters.scope() as counts:
        step()
    gained = download(moving.y, moving.stream) - before
    assert (gained == 2 * halves + number % 1000).all()
    assert counts.by_name["cuGraphExecKernelNodeSetParams"] == pin.nodes == 2


def test_pins_work_together(moving: Moving) -> None:
    """One of each, and two tables, which move in one write."""
    places = dict.fromkeys("abcd", 0)

    def source(name: str) -> Any:
        return lambda: moving.places[places[name]]

    a, b = CopyIn("a", source("a")), Rebind("b", source("b"))
    c, d = Table("c", source("c")), Table("d", source("d"))

    def body(stream: int) -> None:
        moving.add(stream, BLOCKS, 128, moving.y, a, N)
        moving.add(stream, BLOCKS, 128, moving.y, b, N)
        moving.add_table(stream, BLOCKS, 128, moving.y, c, N)
        moving.add_table(stream, BLOCKS, 128, moving.y, d, N)

    step = moving.step(a, b, c, d, body=body)
    step()
    step()
    places.update(a=1, b=2, c=2, d=1)
    with counters.scope() as counts:
        step()
    assert counts.copies == 1 and counts.launches == 1 and counts.graph_launches == 1
    before = moving.value()
    step()
    assert moving.value() - before == 2 * (10 + 100 + 100 + 10)
    assert (step.report().pins, step.report().pin_launches) == (4, 1)


@pytest.mark.parametrize("kind", [Rebind, Table])
def test_parameters_that_a_foreign_optimizer_moves(moving: Moving, kind: Any) -> None:
    """It updates out of place: each step's weights are a new buffer. Equal to the run without."""
    descend = moving.rig.library.kernel(SOURCE, "descend")
    results = []
    for graph in (False, True):
        buffers = [moving.rig.put(np.linspace(1, 2, N).astype(np.float32)) for _ in range(2)]
        held = [0]
        upload(moving.y, np.zeros(N, np.float32), moving.stream)
        pin = kind("weights", lambda buffers=buffers, held=held: buffers[held[0]])
        kernel = moving.add_table if kind is Table else moving.add
        step = moving.step(
            pin,
            body=lambda s, kernel=kernel, pin=pin: kernel(s, BLOCKS, 128, moving.y, pin, N),
            graph=graph,
            label=f"graph {graph}",
        )
        for _ in range(6):
            step()
            old, new = buffers[held[0]], buffers[1 - held[0]]
            driver.memory.copy_dtod_async(new.address, old.address, new.nbytes, moving.stream)
            descend(moving.stream, BLOCKS, 128, new, moving.y, 0.125, N)
            held[0] = 1 - held[0]
        results.append(download(moving.y, moving.stream).tobytes())
    assert results[0] == results[1] and step.report().replays == 5


def test_close_gives_masters_and_table_back(moving: Moving) -> None:
    before = moving.pool.stats()
    for kind in KINDS:
        _, step = moving.ready(kind)
        assert moving.pool.stats().live >= before.live
        step.close()
        step.close()
    assert moving.pool.stats().live == before.live and moving.pool.stats().retained == 0


def test_the_slices_of_a_rebind_are_not_held(moving: Moving) -> None:
    """A producer that takes a new slice each step makes no pool grow."""
    fresh: list[Slice] = [moving.pool.take("fresh", N)]
    pin = Rebind("x", lambda: fresh[0])
    step = moving.step(pin)
    reserved = []
    for _ in range(12):
        step()
        new = moving.pool.take("fresh", N)
        moving.pool.give_back(fresh[0])
        fresh[0] = new
        reserved.append(moving.pool.stats().reserved)
    assert reserved[4:] == [reserved[4]] * 8 and pin.moves == 11
