"""Ready steps called from threads that never made the device current."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import CopyIn, Phase
from lowgraph.errors import DriverError
from lowgraph.memory import download, upload
from tests.capture.micro import BLOCKS, Micro, N


def in_bare_thread(act: Callable[[], Any]) -> Any:
    """What comes of `act` in a thread without a context."""
    answers: list[Any] = []

    def run() -> None:
        try:
            assert driver.Device.current_context() == 0
            answers.append(act())
        except BaseException as error:
            answers.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    return answers[0]


@pytest.mark.parametrize("call", ["step", "replay"])
@pytest.mark.parametrize("replayed", [0, 3])
def test_a_thread_without_a_context_replays(micro: Micro, call: str, replayed: int) -> None:
    step = micro.step()
    step.prime()
    step.capture()
    for _ in range(replayed):
        step()
    graph = step.graph

    def act() -> None:
        for _ in range(3):
            getattr(step, call)()

    assert in_bare_thread(act) is None
    report = step.report()
    assert step.phase is Phase.READY and step.graph is graph and report.refusals == 0
    assert (report.replays, report.launches_replay_step) == (replayed + 3, 1)
    assert micro.state() == micro.expected(replayed + 4)


def test_a_pins_copy_is_made_once_all_the_same(micro: Micro) -> None:
    given = micro.pool.take("given", N)
    pin = CopyIn("x", given)

    def body(stream: int) -> None:
        micro.forward(stream, BLOCKS, 128, micro.y, pin, N)

    step = micro.step(body=body, pins=[pin])
    upload(given, np.full(N, 2, np.float32), micro.stream)
    step()
    step()
    upload(given, np.full(N, 5, np.float32), micro.stream)
    micro.rig.sync()
    assert in_bare_thread(step) is None
    assert step.report().replays == 2 and step.report().refusals == 0
    assert np.all(download(micro.y, micro.stream) == 11)  # 2 x + 1


@pytest.mark.host
@pytest.mark.parametrize("call", ["step", "replay"])
def test_a_thread_with_another_context_is_told_and_the_graph_stays(
    micro: Micro, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host device has one context: another one is only pretended, the refusal is planted."""
    from lowgraph.hostdev import control

    step = micro.step()
    for _ in range(3):
        step()
    monkeypatch.setattr(micro.rig.device, "current_context", lambda: 0x1234)
    control.fail("cuGraphLaunch", 1, 201)
    with pytest.raises(DriverError, match=r"201 .*call device.make_current\(\) once in each"):
        getattr(step, call)()
    assert step.phase is Phase.READY and step.report().refusals == 0
    step()
    assert step.report().replays == 3


@pytest.mark.host
def test_201_with_the_devices_own_context_is_a_refusal(micro: Micro) -> None:
    from lowgraph.hostdev import control

    step = micro.step()
    for _ in range(3):
        step()
    control.fail("cuGraphLaunch", 1, 201)
    step()
    assert step.phase is Phase.PRIMING and step.report().refusals == 1
    assert micro.state() == micro.expected(4)
