"""A fault at every driver call of prime, record, instantiate, replay and recapture, one at a time.

What is called is found by a run without faults; then the n-th call of each name fails, for every n.
The fault must show (an exception, or a counted refusal with the call's name), what it hit must be
sound, and the next attempt must work and compute what an untouched run computes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
from cuda.bindings import driver as cu

from lowgraph import counters, driver
from lowgraph.capture import GraphStep, Phase, drain_dropped
from lowgraph.errors import LowgraphError
from lowgraph.hostdev import control
from lowgraph.kernels import Library
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound
from tests.soak.flat import HANDLES, Footprint, handles_left
from tests.soak.rich import Rich
from tests.support.rig import Rig

pytestmark = pytest.mark.host

INVALID_VALUE, OUT_OF_MEMORY, UNKNOWN = 1, 2, 999
STEPS = 5
# The bindings reach some calls by another name than they give them.
_ALIASES = {"cuGraphInstantiateWithFlags": "cuGraphInstantiate"}
NEEDED = ("cuFuncLoad", "cuMemAlloc", "cuLaunchKernelEx", "cuStreamBeginCapture",
          "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphUpload", "cuGraphLaunch",
          "cuGraphExecUpdate")  # fmt: skip
# How often these are called depends on how soon the device is done.
POLLED = ("cuStreamQuery",)
Make = Callable[[Rig], Micro]


@pytest.fixture(autouse=True)
def few_kernels(rig: Rig) -> None:
    """A library with the model's kernels alone: a load of each one of them is a call to fail."""
    rig.library = Library(rig.device)


@pytest.fixture(autouse=True)
def no_fault_left() -> Iterator[None]:
    yield
    for name in control.all_calls():
        control.fail(name, 0, 0)
    # Where the call that puts it back was the one to fail, this thread is still in another mode.
    usual = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    driver.gate.call(cu.cuThreadExchangeStreamCaptureMode, usual)


def _run(step: GraphStep) -> list[LowgraphError]:
    """Prime, record and replay, replay, recapture, replay; what was raised meanwhile."""
    raised = []
    for number in range(STEPS):
        try:
            if number == STEPS - 2 and step.phase is Phase.READY:
                step.recapture()
            else:
                step()
        except LowgraphError as error:
            raised.append(error)
    return raised


def _calls_of_a_run(rig: Rig, make: Make) -> dict[str, int]:
    """Calls by name of a run that has nothing to do for the first time, or for an earlier test."""
    first = make(rig)
    _run(first.step())
    first.close()
    gc.collect()
    drain_dropped()
    model = make(rig)
    step = model.step()
    rig.library._resident.clear()  # loaded once, they could fail no more
    control.reset_calls()
    assert _run(step) == []
    calls = {name: count for name, count in control.all_calls().items() if count}
    report = step.report()
    assert (report.replays, report.eager_steps, report.updates) == (STEPS - 2, 2, 1)
    model.close()
    return calls


def _without_graph(rig: Rig, make: Make) -> tuple[int, bytes]:
    """The state after the same steps, eagerly."""
    model = make(rig)
    step = model.step(graph=False)
    for _ in range(STEPS):
        step()
    state = model.state()
    model.close()
    return state


def _shows(name: str, code: int, step: GraphStep, raised: list[LowgraphError]) -> bool:
    """Whether the fault was raised, or is a refusal of the report, with the call and the code."""
    told = " ".join([*map(str, raised), step.report().text(), *step.report().reasons])
    call = _ALIASES.get(name, name)
    return call in told or (bool(raised) and str(code) in told)


def _attempt(
    rig: Rig, make: Make, name: str, nth: int, code: int, expected: tuple[int, bytes]
) -> str:
    """What is wrong after that fault; "" if nothing is, or if the run did not reach it."""
    free = driver.memory.info()[0]
    model = make(rig)
    step = model.step()
    rig.library._resident.clear()
    control.reset_calls()
    control.fail(name, nth, code)
    raised = _run(step)
    control.fail(name, 0, 0)
    reached = control.calls(name) >= nth
    assert reached or name in POLLED, f"{name} #{nth} of {control.all_calls()}"
    assert_sound(model)
    stats = model.pool.stats()
    if stats.reserved != stats.live + stats.retained + stats.primed + stats.free:
        return f"the pool's books do not balance: {stats}"
    if reached and not _shows(name, code, step, raised):
        return f"the fault does not show: raised {raised}, {step.report().text()}"
    if step.report().steps + len(raised) < STEPS:
        return f"{STEPS} calls, {len(raised)} raised, {step.report().text()}"
    if step.phase is not Phase.READY:
        _run(step)
    model.reset()
    if step.phase is not Phase.READY or _run(step):
        return f"the next attempt did not work: {step.report().text()}"
    if model.state() != expected:
        return "the next attempt computed something else"
    model.close()
    left = free - driver.memory.info()[0]
    return f"{left} bytes were not given back" if left else ""


@pytest.mark.parametrize(
    ("make", "code"),
    [
        pytest.param(Micro, INVALID_VALUE, marks=pytest.mark.exhaustive),
        (Micro, OUT_OF_MEMORY),
        pytest.param(Micro, UNKNOWN, marks=pytest.mark.exhaustive),
        (Rich, UNKNOWN),
    ],
)
def test_a_fault_at_every_call_leaves_everything_sound(rig: Rig, make: Make, code: int) -> None:
    calls = _calls_of_a_run(rig, make)
    missing = [name for name in NEEDED if not calls.get(name)]
    assert not missing, f"{missing} are not among {sorted(calls)}"
    expected = _without_graph(rig, make)
    wrong = []
    for name, count in sorted(calls.items()):
        for nth in range(1, count + 1):
            with counters.scope() as counts:
                said = _attempt(rig, make, name, nth, code, expected)
            left = handles_left(counts.by_name)
            if not said and left and name not in HANDLES.values():
                said = f"handles left: {left}"
            if said:
                wrong.append(f"{name} #{nth}: {said}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("call", ["cuGraphExecDestroy", "cuGraphDestroy"])
def test_a_fault_at_close_is_raised_once_and_the_memory_is_given_back(rig: Rig, call: str) -> None:
    micro = Micro(rig)
    step = micro.step()
    _run(step)
    before = Footprint.of(micro.pool)
    control.fail(call, 1, UNKNOWN)
    with pytest.raises(LowgraphError, match=call):
        step.close()
    step.close()
    after = Footprint.of(micro.pool)
    assert before.retained > 0 and after.retained == 0 and after.reserved == before.reserved
    assert step.phase is Phase.CLOSED
    micro.close()
