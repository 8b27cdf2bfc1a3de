"""Census, frozen scalars and verdict over journals written by hand: no device."""

from __future__ import annotations

import pytest

from lowgraph.capture.census import Census, judge
from lowgraph.capture.journal import Call, Journal, LaunchRecord, LibraryCall
from lowgraph.capture.scalars import find_frozen
from lowgraph.capture.suspects import Suspect
from lowgraph.capture.verdict import Evidence, verdict
from lowgraph.errors import (
    CaptureError,
    CaptureFailed,
    CaptureIncomplete,
    CaptureRefused,
    ContextPoisoned,
    EmptyCapture,
    GraphHasMemoryNodes,
    SyncDuringCapture,
)


def launch(function: int, **scalars: float) -> LaunchRecord:
    return LaunchRecord(0, f"k{function}", function, 7, tuple(scalars.items()), (), "user.py:3")


def journal(*launches: LaunchRecord, failed: tuple[str, int] | None = None) -> Journal:
    made = Journal()
    made.launches = list(launches)
    if failed is not None:
        made.calls = [Call(0, "cuEventCreate", "", 0, "user.py:1", "main"),
                      Call(1, failed[0], "0x7", failed[1], "user.py:2", "main")]  # fmt: skip
    return made


def census(*functions: int, **types: int) -> Census:
    counted = {**types, **({"kernel": len(functions)} if functions else {})}
    return Census(sum(counted.values()), counted, functions)


def driver_error(code: int) -> CaptureError:
    return CaptureError("cuStreamEndCapture", "0x7", code, f"CODE_{code}", "text")


def test_a_graph_that_holds_what_was_sent_is_good() -> None:
    sent = journal(launch(1), launch(2), launch(1))
    sent.library = [LibraryCall("gemm", 2, (), "user.py:9")]
    assert judge(census(1, 9, 2, 1, 9, memset=1), sent, "step", "here:1") is None


def test_memory_nodes_are_refused_and_counted() -> None:
    wrong = judge(census(1, mem_alloc=2, mem_free=1), journal(launch(1)), "step", "here:1")
    assert isinstance(wrong, GraphHasMemoryNodes)
    assert "2 mem_alloc, 1 mem_free" in str(wrong) and str(wrong).startswith("here:1: ")


def test_an_empty_graph_is_refused() -> None:
    assert isinstance(judge(census(), journal(), "step", "here:1"), EmptyCapture)


def test_missing_launches_are_named_with_stream_and_line() -> None:
    wrong = judge(census(1), journal(launch(1), launch(1), launch(2)), "step", "here:1")
    assert isinstance(wrong, CaptureIncomplete)
    assert "2 of 3 launches" in str(wrong) and "k2 on stream 0x7" in str(wrong)
    assert wrong.where == "user.py:3"


def test_fewer_kernels_than_the_libraries_sent_are_refused() -> None:
    sent = journal(launch(1))
    sent.library = [LibraryCall("gemm", 2, (), "user.py:9")]
    wrong = judge(census(1, 9), sent, "step", "here:1")
    assert isinstance(wrong, CaptureIncomplete) and "2 kernel nodes, the window sent 3" in str(
        wrong
    )


def test_a_scalar_that_differs_is_named_with_both_values() -> None:
    frozen = find_frozen(journal(launch(1, lr=0.5, n=3)), journal(launch(1, lr=0.25, n=3)))
    assert frozen is not None and frozen.where == "user.py:3"
    assert "'lr' of k1 (launch 0) was 0.5 in the priming pass and 0.25" in frozen.reason


def test_equal_scalars_nan_and_other_kernels_are_no_finding() -> None:
    nan = float("nan")
    assert find_frozen(journal(launch(1, lr=nan)), journal(launch(1, lr=nan))) is None
    assert find_frozen(journal(launch(1, lr=1)), journal(launch(2, lr=2))) is None
    assert find_frozen(journal(launch(1, lr=1)), journal()) is None


def judged(
    evidence: Journal, end: int | None = None, error: BaseException | None = None
) -> BaseException | None:
    end_error = None if end is None else driver_error(end)
    found = None if end else census(1)
    return verdict(Evidence("step", "here:1", evidence, None), found, end_error, error)


def test_nothing_wrong_is_none() -> None:
    assert judged(journal(launch(1))) is None


def test_a_failing_code_fails_the_capture_even_if_the_end_succeeds() -> None:
    wrong = judged(journal(launch(1), failed=("cuMemAlloc", 900)))
    assert isinstance(wrong, CaptureFailed) and wrong.where == "user.py:2"
    assert "cuMemAlloc(0x7) answered 900 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" in wrong.reason


@pytest.mark.parametrize("error", [None, driver_error(901)])
def test_901_never_stands_alone_when_the_journal_has_the_cause(error: CaptureError | None) -> None:
    wrong = judged(journal(failed=("cuCtxSynchronize", 900)), 901, error)
    assert isinstance(wrong, CaptureFailed)
    assert "cuCtxSynchronize(0x7) answered 900" in wrong.reason and "901" in wrong.reason
    assert isinstance(wrong.__cause__, CaptureError) and wrong.__cause__.code == 901


def test_901_from_outside_names_the_calls_of_other_threads() -> None:
    sent = journal(launch(1))
    for n in range(10):
        sent.suspects.add(Suspect("watchdog", "cuEventQuery", "0x5", 900, f"dog.py:{n}"))
    wrong = judged(sent, 901)
    assert isinstance(wrong, CaptureFailed)
    newest = "watchdog: cuEventQuery(0x5) answered 900 (dog.py:9); watchdog: cuEventQuery"
    assert f"newest first: {newest}" in wrong.reason and "and 2 earlier ones" in wrong.reason
    assert [one.where for one in wrong.suspects] == [f"dog.py:{n}" for n in range(9, -1, -1)]
    assert "none through lowgraph" in str(judged(journal(launch(1)), 901))


def test_an_end_that_fails_by_itself_is_told_as_it_is() -> None:
    wrong = judged(journal(launch(1)), 904)
    assert isinstance(wrong, CaptureFailed) and "904 CODE_904" in wrong.reason


def test_a_swallowed_refusal_comes_first_and_keeps_the_ends_code_as_its_cause() -> None:
    refusal = SyncDuringCapture("no", "user.py:5")
    sent = journal(launch(1))
    sent.refuse(refusal)
    assert judged(sent) is refusal
    later = CaptureRefused("later")
    assert judged(sent, 901, later) is refusal
    assert isinstance(refusal.__cause__, CaptureError)


def test_the_bodys_own_error_and_a_poisoned_context_pass_through() -> None:
    own = ValueError("mine")
    sent = journal(failed=("cuMemAlloc", 900))
    assert judged(sent, 901, own) is own
    poisoned = ContextPoisoned("cuLaunchKernelEx", "", 700, "ILLEGAL_ADDRESS", "text")
    assert judged(sent, 901, poisoned) is poisoned
