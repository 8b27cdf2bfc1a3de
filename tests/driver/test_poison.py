"""After a sticky code: no driver call any more, and the first error told each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import event, gate, graph, poison, stream
from lowgraph.errors import ContextPoisoned, DriverError
from tests.driver.test_gate import answering
from tests.packaging.tree import PACKAGE
from tests.support.process import output_of
from tests.support.rig import Rig

OK = cu.CUresult.CUDA_SUCCESS


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    poison.forget()
    yield
    poison.forget()
    poison.graph_names.clear()


def fail(code: int = 700, name: str = "cuStreamSynchronize") -> ContextPoisoned:
    with pytest.raises(ContextPoisoned) as raised:
        gate.call(answering(name, (code,)), 7)
    return raised.value


def test_later_calls_are_not_made_and_tell_the_first_error() -> None:
    first = fail()
    reached: list[int] = []

    def cuMemAlloc(nbytes: int) -> tuple[Any, ...]:
        reached.append(nbytes)
        return (OK, 0)

    for _ in range(3):
        with pytest.raises(ContextPoisoned) as raised:
            gate.call(cuMemAlloc, 64)
        error = raised.value
        assert (error.call, error.code, error.arguments) == ("cuMemAlloc", 700, "64")
        assert "not sent to the driver" in str(error) and "cuStreamSynchronize(7) 700" in str(error)
        assert error.first_seen_at == first.first_seen_at
        assert error.first_seen_at.startswith(f"{__file__}:")
    with pytest.raises(ContextPoisoned):
        gate.finished(cuMemAlloc, 1)
    with pytest.raises(ContextPoisoned):
        gate.attempt(cuMemAlloc, 1)
    assert reached == []


def test_the_first_sticky_code_stays_the_first() -> None:
    fail(719)
    poison.mark(700, "LATER", "a later one")
    with pytest.raises(ContextPoisoned, match="719"):
        gate.call(answering("cuAny", (OK,)))


@pytest.mark.parametrize("code", [1, 2, 600, 900, 901, 906, 999])
def test_other_codes_do_not_poison(code: int) -> None:
    with pytest.raises(DriverError):
        gate.call(answering("cuAny", (code,)))
    assert gate.call(answering("cuAny", (OK,))) is None


def test_replays_since_the_last_good_wait_are_counted_by_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cu, "cuGraphLaunch", answering("cuGraphLaunch", (OK,)))
    monkeypatch.setattr(cu, "cuStreamSynchronize", answering("cuStreamSynchronize", (OK,)))
    monkeypatch.setattr(cu, "cuEventSynchronize", answering("cuEventSynchronize", (OK,)))
    poison.graph_names.update({5: "train", 6: "eval"})
    graph.launch(5, 1)
    graph.launch(5, 2)
    stream.synchronize(1)
    event.synchronize(1)  # it may have been recorded long ago: no replay is off the list for it
    for executable in (5, 6, 5, 7):
        graph.launch(executable, 1)
    error = fail()
    assert error.replays == {"train": 3, "eval": 1, "0x7": 1}
    told = "replays since the last good sync: 5 (3 of 'train', 1 of 'eval', 1 of '0x7')"
    assert told in str(error)


REPLAYS = """
import sys
from lowgraph import driver
from lowgraph.capture import GraphStep
from lowgraph.driver import memory, stream
from lowgraph.errors import ContextPoisoned
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, download, upload
import numpy as np

device = driver.open_device({device!r})
library, pool, s = Library(device), PersistentPool(device), stream.create()
follow = library.kernel({kernels!r}, "follow")
target = pool.take("target", 1, np.int64)
value = pool.take("value", 1)
upload(target, np.array([value.address]), s)
step = GraphStep(lambda s: follow(s, 1, 1, target), device=device, pool=pool, library=library,
                 stream=s, label="train")
for _ in range(4):
    step()
stream.synchronize(s)
step()
upload(target, np.array([1 << 45]), s)
step()
calls = []
try:
    stream.synchronize(s)
except ContextPoisoned as error:
    print(error.code, dict(error.replays), error.first_seen_at)
driver.gate.observer = lambda name, args, code: calls.append(name)
for act in (step, lambda: memory.alloc(64), lambda: stream.synchronize(s)):
    try:
        act()
    except ContextPoisoned as error:
        print("not sent to the driver" in str(error), dict(error.replays))
print(calls)
step.close()
print(step.report().replays, "readable")
"""


def test_a_fault_in_a_replay_tells_the_replays_that_may_have_done_it(
    rig: Rig, tmp_path: Any
) -> None:
    source = tmp_path / "follow.cu"
    source.write_text(
        'extern "C" __global__ void follow(long long* target)\n'
        "{\n    *(float*)target[0] = 1.0f;\n}\n"
    )
    code = REPLAYS.format(device=rig.device.spec, kernels=str(source))
    lines = output_of(code).splitlines()
    assert lines[0].startswith("700 {'train': 2} <string>:")
    assert lines[1:4] == ["True {'train': 2}"] * 3
    assert lines[4] == "[]", "nothing reached the driver"
    assert lines[5].endswith("readable")


def test_no_code_asks_for_a_last_error() -> None:
    """It may be another call's, of long ago: only the code that a call returned decides.

    But at the border to other libraries, which takes it away so that they blame no call of theirs.
    """
    asking = [path.name for path in PACKAGE.rglob("*.py") if "LastError" in path.read_text("utf-8")]
    assert asking == ["runtime_errors.py"]
