"""Pins that cannot be followed are refused with the reason; what is no memory is said at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import CopyIn, ForeignMemory, GraphStep, Input, Phase, Rebind, Table
from lowgraph.errors import ConfigError, InputMoved
from lowgraph.memory import fill_zero
from tests.capture.moving import BLOCKS, KINDS, Moving, N

FLOAT = np.dtype(np.float32)


def refusal(step: GraphStep) -> str:
    """Why the second call recorded nothing; the steps themselves ran."""
    step()
    step()
    assert step.phase is Phase.PRIMING and step.report().eager_steps == 2
    return step.report().first_refusal


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_uses_the_memory_itself_is_refused(moving: Moving, kind: Any) -> None:
    """The likeliest mistake: declared, and then the bare memory is launched on."""
    y = moving.pool.take("other", N)
    other = moving.places[1]
    pin = kind("x", moving.source)
    step = moving.step(pin, body=lambda s: moving.add(s, BLOCKS, 128, y, other, N))
    fill_zero(y, moving.stream)
    text = refusal(step)
    assert f"was given {pin.kind} 'x'" in text and "hand the pin itself to the launch" in text


def copied(moving: Moving, pin: Rebind, stream: int) -> None:
    driver.memory.copy_dtod_async(moving.y.address, pin.address, 4 * N, stream)


def filled(moving: Moving, pin: Rebind, stream: int) -> None:
    driver.memory.memset_d8_async(pin.address + 8, 0, 4, stream)


@pytest.mark.parametrize(("act", "name"), [(copied, "memcpy"), (filled, "memset")])
def test_a_rebind_that_a_copy_or_fill_holds_is_refused(
    moving: Moving, act: Callable[..., None], name: str
) -> None:
    pin = Rebind("x", moving.source)

    def body(stream: int) -> None:
        moving.add(stream, BLOCKS, 128, moving.y, pin, N)
        act(moving, pin, stream)

    text = refusal(moving.step(pin, body=body))
    assert f"node 1 ({name}, " in text and "holds the address of rebind pin 'x'" in text
    assert "CopyIn" in text and f"{__name__.rpartition('.')[2]}.py:" in text


def test_a_rebind_that_a_foreign_kernel_holds_is_refused(moving: Moving) -> None:
    """Launched past the kernel library: its parameters have no names that we know."""
    pin, kernel = Rebind("x", moving.source), moving.add

    def body(stream: int) -> None:
        values = kernel.pack.values([moving.y, pin, N])
        kernel.pack.store(values)
        config = driver.launch.LaunchConfig(stream, BLOCKS, 128)
        driver.launch.launch(config, kernel.handle, kernel.pack.address)

    assert "kernel add_twice" in refusal(moving.step(pin, body=body))


def test_a_rebind_that_a_library_call_holds_is_refused(moving: Moving) -> None:
    from lowgraph.memory import open_window

    pin = Rebind("x", moving.source)

    def body(stream: int) -> None:
        moving.add(stream, BLOCKS, 128, moving.y, pin, N)
        recorder = open_window.recorder()
        if recorder is not None:
            recorder.library_call("gemm of a library", 0, (pin.address + 64,))

    assert "gemm of a library holds the address" in refusal(moving.step(pin, body=body))


def test_rebinds_that_overlap_are_refused(moving: Moving) -> None:
    whole = Rebind("whole", moving.source)
    part = Rebind("part", lambda: moving.source().part(0, (10,)))
    step = moving.step(whole, part, body=lambda s: moving.add(s, BLOCKS, 128, moving.y, whole, N))
    assert "'whole' and 'part' overlap" in refusal(step)


@pytest.mark.host
def test_a_rebind_that_the_driver_refuses_half_way_costs_the_graph_not_the_step(
    moving: Moving,
) -> None:
    """Some nodes have the new address, some the old: such a graph is never launched again."""
    from lowgraph.hostdev import control

    pin = Rebind("x", moving.source)

    def body(stream: int) -> None:
        for _ in range(3):
            moving.add(stream, BLOCKS, 128, moving.y, pin, N)

    step = moving.step(pin, body=body)
    assert moving.run(step, [0, 0, 1]) == 2 * 6.0 + 60.0
    control.fail("cuGraphExecKernelNodeSetParams", 2, 1)
    assert moving.run(step, [2]) == 600.0, "that step ran without the graph"
    report = step.report()
    assert (report.refusals, report.replays, report.eager_steps) == (1, 2, 2)
    assert "cuGraphExecKernelNodeSetParams" in report.first_refusal
    assert moving.run(step, [2, 0, 1]) == 666.0 and step.phase is Phase.READY
    assert step.report().captures == 2


def test_declarations_that_make_no_sense(moving: Moving) -> None:
    x = moving.places[0]
    with pytest.raises(ConfigError, match="two inputs of the name 'x'"):
        moving.step(CopyIn("x", x), Table("x", x))
    with pytest.raises(ConfigError, match="is no Input, CopyIn, Rebind or Table"):
        moving.step(x)
    with pytest.raises(ConfigError, match="needs a library"):
        GraphStep(lambda stream: None, device=moving.rig.device, pool=moving.pool,
                  stream=moving.stream, pins=[CopyIn("x", x)])  # fmt: skip
    pin = Rebind("x", x)
    with pytest.raises(ConfigError, match="no address yet"):
        moving.add(moving.stream, BLOCKS, 128, moving.y, pin, N)
    moving.step(pin, label="first")
    with pytest.raises(ConfigError, match="belongs to 'first'"):
        moving.step(pin)
    moving.steps[-1].close()
    moving.step(pin, label="second")


def test_a_copy_into_itself_is_refused(moving: Moving) -> None:
    given: list[Any] = [moving.places[0]]
    pin = CopyIn("x", lambda: given[0])
    step = moving.step(pin)
    step()
    step()
    given[0] = pin.master
    with pytest.raises(ConfigError, match="lies in its own master"):
        step()


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (np.zeros(4), "ndarray is no device memory"),
        (type("Bare", (), {"address": 4096})(), "no shape and dtype"),
    ],
)
def test_a_source_that_is_no_device_memory(moving: Moving, memory: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        moving.step(Table("x", memory))()


def test_foreign_memory_must_hold_what_it_says(moving: Moving) -> None:
    with pytest.raises(ConfigError, match=r"float32 \[5\] \(20 bytes\) does not lie in 16 bytes"):
        ForeignMemory(4096, 16, None, (5,), FLOAT)
    with pytest.raises(ConfigError, match="does not lie"):
        ForeignMemory(0, 16, None)
    assert ForeignMemory(4096, 16, None).shape == (16,)
    with pytest.raises(ConfigError, match="has no bytes"):
        moving.step(Table("x", ForeignMemory(4096, 0, None)))()


class Array:
    """What CuPy and torch arrays look like to us."""

    def __init__(self, address: int, **more: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (N,), "typestr": "<f4", "data": (address, False), "version": 3, **more,
        }  # fmt: skip


@pytest.mark.parametrize("kind", [CopyIn, Rebind])
def test_arrays_of_other_libraries(moving: Moving, kind: Any) -> None:
    pin = kind("x", lambda: Array(moving.source().address, strides=(4,)))
    step = moving.step(pin)
    assert moving.run(step, [0, 0, 1, 2]) == 2 + 2 + 20 + 200
    strided = kind("s", Array(moving.source().address, strides=(8,)))
    with pytest.raises(ConfigError, match="make it contiguous"):
        moving.step(strided)()


class Buffer:
    """An owner that dies with its last reference."""


@pytest.mark.parametrize("kind", KINDS)
def test_owners_live_until_the_device_is_done_with_them(moving: Moving, kind: Any) -> None:
    owners: list[Buffer] = []

    def source() -> ForeignMemory:
        return ForeignMemory(moving.source().address, 4 * N, owners[-1], (N,), FLOAT)

    pin = kind("x", source)
    kernel = moving.add_table if kind is Table else moving.add

    def body(stream: int) -> None:
        moving.busy(stream, 1, 1, moving.slow, 20_000_000)
        kernel(stream, BLOCKS, 128, moving.y, pin, N)

    owners.append(Buffer())
    step = moving.step(pin, body=body)
    step()
    step()
    moving.rig.sync()
    step()
    first = weakref.ref(owners.pop())
    owners.append(Buffer())
    moving.at = 1
    in_flight = not driver.stream.is_done(moving.stream)
    step()
    gc.collect()
    assert first() is not None or not in_flight, "a replay in flight may read it"
    assert in_flight, "the device was to be busy: the test showed nothing"
    moving.rig.sync()
    owners.append(Buffer())
    step()
    gc.collect()
    assert first() is None, "and then it goes"
    last = weakref.ref(owners.pop())
    step.close()
    gc.collect()
    assert last() is None


def test_an_input_checks_the_first_replay_too(moving: Moving) -> None:
    step = moving.step(inputs=[Input("x", moving.source)])
    step.prime()
    step.capture()
    moving.at = 1
    with pytest.raises(InputMoved):
        step()
    assert moving.run(step, [0]) == 2.0
