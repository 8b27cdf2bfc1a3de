"""Case 18: who is blamed for an error. Codes decide, and a poisoned context says so at each call.

The stale "last error" of the runtime API comes with CuPy's border; the driver API has none.
"""

from __future__ import annotations

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import DriverError
from tests.capture.micro import Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N, foreign
from tests.support.codes import code_of
from tests.support.process import output_of

HUGE = 1 << 50
_BEGIN = """
from pathlib import Path
import numpy as np
from lowgraph import GraphStep, Library, PersistentPool, driver
from lowgraph.errors import ContextPoisoned, LowgraphError
device = driver.open_device({spec!r})
from lowgraph.hostdev import control
stream, library, pool = driver.stream.create(), Library(device), PersistentPool(device)
fill = library.kernel(Path("tests/field_cases/kernels.cu").resolve(), "fill")
y = pool.take("y", 1000)
WILD = 0x40  # nobody's address
"""
_BARE = """
driver.stream.begin_capture(stream)
fill(stream, 8, 128, WILD, 1.0, 1000)
executable = driver.graph.instantiate(driver.stream.end_capture(stream))
driver.graph.launch(executable, stream)
for call in (
    lambda: driver.stream.synchronize(stream),
    lambda: driver.memory.alloc(4096),
    lambda: driver.memory.memset_d8_async(y.address, 0, 16, stream),
    lambda: fill(stream, 8, 128, y, 1.0, 1000),
):
    try:
        call()
        print("0")
    except ContextPoisoned as error:
        print(error.code)
"""
_STEP = """
said = []
target = [y.address]
step = GraphStep(lambda s: fill(s, 8, 128, y, 1.0, 1000), device=device, pool=pool, stream=stream,
                 library=library, say=said.append)
for _ in range(3):
    step()
driver.stream.synchronize(stream)
losses = [1.0, 2.0]
fill(stream, 8, 128, WILD, 1.0, 1000)
try:
    driver.stream.synchronize(stream)
except ContextPoisoned as error:
    print("first", error.code)
for _ in range(3):
    try:
        step()
        print("ran")
    except ContextPoisoned as error:
        print("later", error.code, error.first_seen_at.split("/")[-1], error.replays)
sent = sum(control.all_calls().values()) if device.spec == "host" else 0
try:
    driver.memory.alloc(4096)
except ContextPoisoned as error:
    print("unsent", (sum(control.all_calls().values()) if device.spec == "host" else 0) - sent)
    print("alloc was not sent" if "not sent to the driver" in str(error) else str(error))
report = step.report()
print(report.refusals, report.eager_steps, report.replays, said, losses)
"""

_FAULTING_REPLAY = """
target = [y.address]
step = GraphStep(lambda s: fill(s, 8, 128, target[0], 1.0, 1000), device=device, pool=pool,
                 stream=stream, library=library, label="wild")
step()
driver.stream.synchronize(stream)
target[0] = WILD
try:
    for _ in range(3):
        step()
    driver.stream.synchronize(stream)
except ContextPoisoned as error:
    print(*error.replays, *error.replays.values())
    print("told the replays" if "replays since the last good sync: " in str(error) else error)
"""


_FAULT_SEEN_BY_CLOSE = """
target = [y.address]
step = GraphStep(lambda s: fill(s, 8, 128, target[0], 1.0, 1000), device=device, pool=pool,
                 stream=stream, library=library, label="wild")
step()
driver.stream.synchronize(stream)
target[0] = WILD
step()
for _ in range(2):
    try:
        step.close()
        print("closed")
    except ContextPoisoned as error:
        print("close told", error.code)
"""


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


def test_bare_a_failed_call_does_not_stick_to_the_next(bare: Bare) -> None:
    out = bare.rig.empty(N)
    code, _ = foreign("cuMemAlloc", HUGE)
    assert code == 2
    fill = bare.kernel("fill")
    assert code_of(lambda: fill(bare.stream, GRID, BLOCK, out, 1.0, N)) == 0
    graph = bare.ready(lambda: fill(bare.stream, GRID, BLOCK, out, 1.0, N))
    bare.replay(graph)


def test_an_error_before_a_step_is_not_blamed_on_it(micro: Micro) -> None:
    step = micro.step()
    for _ in range(4):
        with pytest.raises(DriverError):
            driver.memory.alloc(HUGE)
        assert foreign("cuMemAlloc", HUGE)[0] == 2
        step()
    report = step.report()
    assert step.phase is Phase.READY and report.refusals == 0 and micro.said == []
    assert micro.state() == micro.expected(4)


@pytest.mark.both
def test_bare_after_700_every_call_answers_700(spec: str) -> None:
    assert output_of(_BEGIN.format(spec=spec) + _BARE).split() == ["700"] * 4


@pytest.mark.both
def test_a_poisoned_step_raises_and_does_not_fall_back(spec: str) -> None:
    lines = output_of(_BEGIN.format(spec=spec) + _STEP).splitlines()
    assert lines[0] == "first 700"
    assert [line.split()[:2] for line in lines[1:4]] == [["later", "700"]] * 3
    assert all(line.split()[2].startswith("<string>:") for line in lines[1:4]), "where first seen"
    assert lines[4:6] == ["unsent 0", "alloc was not sent"]
    assert lines[6] == "0 1 2 [] [1.0, 2.0]", "no refusal, no silent eager step; the host goes on"


@pytest.mark.both
def test_a_replay_that_faults_is_among_the_suspects(spec: str) -> None:
    lines = output_of(_BEGIN.format(spec=spec) + _FAULTING_REPLAY).splitlines()
    name, count = lines[0].split()
    # The fault is seen by whichever call comes after it: a later replay, or the wait.
    assert name == "wild" and 1 <= int(count) <= 3 and lines[1] == "told the replays"


def test_a_fault_that_close_is_the_first_to_see_is_told_once(spec: str) -> None:
    text = output_of(_BEGIN.format(spec=spec) + _FAULT_SEEN_BY_CLOSE)
    assert text == "close told 700\nclosed\n"
