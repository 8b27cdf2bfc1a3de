"""The gate: what an error says, and what the hooks see. No driver is called."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cuda.bindings import driver
from cuda.pathfinder import DynamicLibNotFoundError

from lowgraph import counters, errors
from lowgraph.driver import captures, codes, gate, launch, poison
from tests.support.interleave import between_instructions, in_passing

CUresult = driver.CUresult


def answering(name: str, answer: Any) -> Any:
    """A stand-in for a bindings function: returns the answer, or raises it."""

    def function(*args: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    function.__name__ = name
    return function


class FunctionNotFoundError(RuntimeError):
    """By its name what the bindings raise; theirs sits in a private module."""


@pytest.fixture(autouse=True)
def no_hooks() -> Iterator[None]:
    yield
    gate.guard = gate.observer = None
    poison.forget()


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ((CUresult.CUDA_SUCCESS,), None),
        ((CUresult.CUDA_SUCCESS, 7), 7),
        ((CUresult.CUDA_SUCCESS, 7, 8), (7, 8)),
    ],
)
def test_results_come_without_the_code(answer: Any, result: Any) -> None:
    assert gate.call(answering("cuAny", answer)) == result


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, errors.DriverError),
        (2, errors.OutOfMemory),
        (700, errors.ContextPoisoned),
        (719, errors.ContextPoisoned),
        (899, errors.DriverError),
        (900, errors.CaptureError),
        (908, errors.CaptureError),
        (909, errors.DriverError),
        (910, errors.DriverError),
    ],
)
def test_code_chooses_the_class(code: int, kind: type[errors.DriverError]) -> None:
    with pytest.raises(errors.DriverError) as caught:
        gate.call(answering("cuAny", (code,)))
    assert type(caught.value) is kind
    assert caught.value.code == code


def test_error_carries_the_call() -> None:
    failing = answering("cuMemAlloc", (CUresult.CUDA_ERROR_OUT_OF_MEMORY, None))
    with pytest.raises(errors.OutOfMemory) as caught:
        gate.call(failing, 1 << 40, nbytes=1 << 40)
    error = caught.value
    assert (error.call, error.arguments, error.nbytes) == ("cuMemAlloc", hex(1 << 40), 1 << 40)
    assert (error.code, error.name) == (2, "CUDA_ERROR_OUT_OF_MEMORY")
    for part in ("cuMemAlloc", str(1 << 40), "2 CUDA_ERROR_OUT_OF_MEMORY", error.text):
        assert part in str(error)


def test_error_survives_pickling() -> None:
    error = errors.OutOfMemory("cuMemAlloc", "8", 2, "NAME", "text", 8)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.nbytes) == (errors.OutOfMemory, str(error), 8)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12, "12"),
        (0x7F0000001000, "0x7f0000001000"),
        (b"kernel", "b'kernel'"),
        (b"\x7fELF" * 100, "<400 bytes>"),
        (driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED, "RELAXED"),
        (None, "None"),
    ],
)
def test_arguments_are_readable(value: Any, text: str) -> None:
    assert text in gate.readable(value)


def test_launch_arguments_are_readable() -> None:
    config = launch.LaunchConfig(0x123456789, (3, 2), 64, shared=128)
    text = gate.readable(config.raw)
    assert text == "grid=(3, 2, 1) block=(64, 1, 1) shared=128 stream=0x123456789"
    gate.function_names[0xABCDEF] = "softmax"
    assert gate.readable(driver.CUfunction(0xABCDEF)) == "softmax"


def test_unknown_enum_value_names_the_call() -> None:
    broken = answering("cuGraphNodeGetType", ValueError("16 is not a valid CUgraphNodeType"))
    with pytest.raises(
        errors.DriverError, match=r"cuGraphNodeGetType\(0xabcdef0\).*16 is not"
    ) as e:
        gate.call(broken, 0xABCDEF0)
    assert e.value.code == -1
    assert isinstance(e.value.__cause__, ValueError)


def test_code_unknown_to_the_bindings_is_still_reported() -> None:
    with pytest.raises(errors.DriverError, match="98765"):
        gate.call(answering("cuAny", (98765,)))


def test_missing_function_says_that_the_driver_is_too_old() -> None:
    missing = answering("cuFuncLoad", FunctionNotFoundError("function cuFuncLoad is not found"))
    with pytest.raises(errors.DriverError, match=r"cuFuncLoad.*newer driver") as caught:
        gate.call(missing, 5)
    assert caught.value.name == "FUNCTION_NOT_FOUND"


def test_missing_driver_is_an_unavailable_device() -> None:
    with pytest.raises(errors.DeviceUnavailable, match="--device host"):
        gate.call(answering("cuInit", DynamicLibNotFoundError("cuda")), 0)


def test_wrong_argument_kind_is_reported_not_leaked() -> None:
    with pytest.raises(errors.DriverError, match=r"cuStreamSynchronize.*REFUSED_BY_THE_BINDINGS"):
        gate.call(driver.cuStreamSynchronize, "a stream")


def test_query_maps_not_ready_only() -> None:
    assert gate.finished(answering("cuStreamQuery", (CUresult.CUDA_SUCCESS,)), 1)
    assert not gate.finished(answering("cuStreamQuery", (CUresult.CUDA_ERROR_NOT_READY,)), 1)
    with pytest.raises(errors.CaptureError):
        gate.finished(answering("cuStreamQuery", (900,)), 1)


def test_observer_sees_every_call_and_its_code() -> None:
    seen: list[tuple[str, tuple[Any, ...], int]] = []
    gate.observer = lambda name, args, code: seen.append((name, args, code))
    gate.call(answering("cuGood", (CUresult.CUDA_SUCCESS,)), 1)
    with pytest.raises(errors.DriverError):
        gate.call(answering("cuBad", (1,)), 2)
    with pytest.raises(errors.DriverError):
        gate.call(answering("cuOdd", ValueError("x")), 3)
    gate.finished(answering("cuStreamQuery", (CUresult.CUDA_ERROR_NOT_READY,)), 4)
    assert seen == [
        ("cuGood", (1,), 0),
        ("cuBad", (2,), 1),
        ("cuOdd", (3,), codes.OUTSIDE_TABLE),
        ("cuStreamQuery", (4,), codes.NOT_READY),
    ]


def test_guard_keeps_a_call_from_the_driver() -> None:
    reached: list[int] = []

    def cuMemAlloc(nbytes: int) -> tuple[Any, ...]:
        reached.append(nbytes)
        return (CUresult.CUDA_SUCCESS, 0)

    def refuse(name: str, args: tuple[Any, ...]) -> None:
        raise errors.CaptureAllocationError(f"{name}{args} in a window")

    gate.guard = refuse
    with pytest.raises(errors.CaptureAllocationError, match=r"cuMemAlloc\(64,\)"):
        gate.call(cuMemAlloc, 64)
    assert reached == []


def test_sticky_error_tells_what_the_device_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "fault_text", lambda: "kernel 'k' block 0 thread 3")
    with pytest.raises(errors.ContextPoisoned, match="block 0 thread 3"):
        gate.call(answering("cuStreamSynchronize", (700,)), 1)
    poison.forget()
    with pytest.raises(errors.DriverError) as caught:
        gate.call(answering("cuStreamSynchronize", (1,)), 1)
    assert "block 0" not in str(caught.value)


def test_counters_count_in_every_open_scope_and_only_successes() -> None:
    good = answering("cuLaunchKernelEx", (CUresult.CUDA_SUCCESS,))
    bad = answering("cuLaunchKernelEx", (1,))
    with counters.scope() as outer:
        gate.call(good)
        with counters.scope() as inner:
            gate.call(good)
            with pytest.raises(errors.DriverError):
                gate.call(bad)
        gate.call(answering("cuStreamSynchronize", (CUresult.CUDA_SUCCESS,)))
    gate.call(good)
    assert (outer.launches, inner.launches, outer.syncs, inner.syncs) == (2, 1, 1, 0)
    assert outer.by_name == {"cuLaunchKernelEx": 2, "cuStreamSynchronize": 1}


@pytest.mark.parametrize("code", [0, None])
def test_a_hook_may_be_taken_away_by_another_thread_at_any_moment(code: int | None) -> None:
    """As its window's end does: the call is made with the hook or without, and goes on."""
    made: list[str] = []

    def take_away() -> None:
        gate.guard = gate.observer = None

    answer: Any = RuntimeError("no such function") if code is None else (CUresult(code),)
    for at in between_instructions(gate._invoke, take_away):
        gate.guard = lambda name, args: made.append("guard")
        gate.observer = lambda name, args, code: made.append("observer")
        with at:
            if code is None:
                with pytest.raises(errors.DriverError, match="no such function"):
                    gate.attempt(answering("cuAny", answer))
            else:
                gate.attempt(answering("cuAny", answer))
    assert {"guard", "observer"} == set(made)


def test_a_refusal_is_told_though_its_pass_ends_meanwhile() -> None:
    told: list[errors.CaptureRefused] = []

    class Recorder:
        def refuse(self, error: errors.CaptureRefused) -> None:
            told.append(error)

    for at in between_instructions(captures.refused, lambda: captures.set_recorder(None)):
        captures.set_recorder(Recorder())  # type: ignore[arg-type]
        refusal = errors.CaptureRefused("no")
        with at:
            assert captures.refused(refusal) is refusal
    captures.set_recorder(None)
    assert told


def test_calls_of_two_threads_at_once_are_all_counted() -> None:
    threads: list[threading.Thread] = []
    act = in_passing(lambda: counters.note("cuLaunchKernelEx"), threads)
    for at in between_instructions(counters.note, act):
        with counters.scope() as counts:
            with at:
                counters.note("cuLaunchKernelEx")
            for thread in threads:
                thread.join()
        assert counts.launches == counts.by_name["cuLaunchKernelEx"] == 1 + at.came


def test_a_scope_may_be_of_one_thread_alone() -> None:
    good = answering("cuGraphLaunch", (CUresult.CUDA_SUCCESS,))
    with counters.scope() as everybody, counters.scope(own=True) as mine:
        gate.call(good)
        thread = threading.Thread(target=gate.call, args=(good,))
        thread.start()
        thread.join()
    assert (everybody.graph_launches, mine.graph_launches) == (2, 1)
