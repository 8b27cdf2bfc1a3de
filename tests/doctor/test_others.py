"""Captures that do not come through lowgraph, as the host device's driver tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lowgraph.driver import Device
from lowgraph.hostdev import build
from tests.doctor.kit import SCRIPTS, Run, line, run_doctor
from tests.foreign import programs

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of every capture of `others.py`."""
    return run_doctor(tmp_path_factory.mktemp("others"), SCRIPTS / "others.py")


def captures(run: Run, mark: str) -> dict[str, Any]:
    (found,) = [one for one in run.report["captures"] if one["began_at"] == line("others.py", mark)]
    return dict(found)


def leaks(run: Run, mark: str) -> dict[str, Any]:
    (found,) = [one for one in run.report["leaks"] if one["where"] == line("others.py", mark)]
    return dict(found)


def test_all_are_found_and_none_is_lowgraphs(others: Run) -> None:
    assert others.code == 1, others.err
    assert {one["by"] for one in others.report["captures"]} == {"others", "lowgraph.driver"}
    # Four captures that failed, an empty one, and four leaks.
    failed = [one for one in others.report["captures"] if one["outcome"] == "failed"]
    assert (len(failed), len(others.report["leaks"]), others.report["findings"]) == (4, 4, 9)


def test_a_good_capture_is_counted_and_no_finding(others: Run) -> None:
    good = captures(others, "GOOD")
    assert (good["outcome"], good["mode"], good["times"]) == ("recorded", "thread_local", 3)
    assert good["nodes"] == {"kernel": 1, "memset": 1} and good["kernels"] == {"add": 1}
    assert (good["broken"], good["refused"]) == (None, [])
    assert ", by others: 2 nodes: 1 kernel, 1 memset; begun at tests/doctor/scripts/" in others.out
    assert "(3 times)" in others.out


def test_the_call_that_broke_it_and_those_refused_behind_it(others: Run) -> None:
    broken = captures(others, "BROKEN")
    assert (broken["outcome"], broken["code"]) == ("failed", 901)
    call = broken["broken"]
    assert (call["call"], call["code"], call["own"]) == ("cuMemAlloc", 900, True)
    assert call["where"] == line("others.py", "BREAKS")
    (refused,) = [one for one in broken["refused"] if one != call]
    assert (refused["call"], refused["code"], refused["times"]) == ("cuLaunchKernel", 901, 2)
    assert refused["where"] == line("others.py", "REFUSED")
    assert "broken by cuMemAlloc at tests/doctor/scripts/others.py:" in others.out
    assert "which answered 900 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" in others.out
    assert "code 900: the call may not be made while a stream captures" in others.out


def test_a_call_of_a_c_library_has_the_line_of_python_that_led_to_it(others: Run) -> None:
    call = captures(others, "IN C")["broken"]
    assert (call["call"], call["where"]) == ("cuCtxSynchronize", line("others.py", "WAITS IN C"))


def test_a_call_of_another_thread(others: Run) -> None:
    call = captures(others, "OTHER THREAD")["broken"]
    assert (call["call"], call["own"]) == ("cuCtxSynchronize", False)
    assert call["where"] == line("others.py", "WAITS")
    assert "in another thread, which answered 900" in others.out


def test_a_fork_that_is_not_joined_was_broken_by_nobody(others: Run) -> None:
    unjoined = captures(others, "UNJOINED")
    assert (unjoined["by"], unjoined["code"]) == ("lowgraph.driver", 904)
    assert unjoined["broken"] is None
    assert [one["call"] for one in unjoined["refused"]] == ["cuStreamEndCapture"]


def test_an_empty_graph_is_a_finding(others: Run) -> None:
    empty = captures(others, "EMPTY")
    assert (empty["outcome"], empty["nodes"]) == ("recorded", {})
    assert "others: EMPTY; begun at tests/doctor/scripts/others.py:" in others.out
    assert "empty graphs: nothing was sent to the stream while it captured" in others.out


def test_work_on_another_stream_and_synchronous_copies(others: Run) -> None:
    launch, fill = leaks(others, "ELSEWHERE"), leaks(others, "AT ONCE")
    assert (launch["kind"], launch["call"], launch["what"]) == (
        "work", "cuLaunchKernel", "kernel add"
    )  # fmt: skip
    assert (fill["kind"], fill["call"], fill["what"]) == ("work", "cuMemsetD8", "memset")
    assert launch["stream"] == 1 and launch["began_at"] == line("others.py", "LEAKY")
    assert "others.py:" in others.out and "kernel add (cuLaunchKernel) on stream 0x1" in others.out


def test_work_of_another_thread_is_no_finding(others: Run) -> None:
    assert others.report["beside"] == {"memset": 1}
    assert "other threads ran beside captures: 1 memset" in others.out


def test_an_allocation_that_only_the_mode_allows_and_one_that_is_a_node(others: Run) -> None:
    allowed, node = leaks(others, "LET THROUGH"), leaks(others, "NODE")
    assert (allowed["kind"], allowed["call"]) == ("allocation", "cuMemAlloc")
    assert (node["kind"], node["what"]) == ("allocation", "the graph has 1 mem_alloc nodes")


def test_the_script_is_told_nothing_else_than_without_the_doctor(
    others: Run, tmp_path: Path
) -> None:
    """Its own asserts hold its codes; this is its output."""
    assert others.out.splitlines()[0] == "codes as ever"
    assert others.report["exit_code"] == 0


def test_a_program_of_cuda_cores_on_the_library_path(device: Device, tmp_path: Path) -> None:
    """It imports nothing of lowgraph, whose library its bindings find by themselves."""
    pytest.importorskip("cuda.core.graph", reason="this cuda.core has no graph package")
    image = tmp_path / "capture.image"
    image.write_bytes(programs.image_of(device, programs.EXAMPLE.with_suffix(".cu")))
    found = {"LD_LIBRARY_PATH": str(build.link_folder())}
    done = run_doctor(tmp_path, "examples/cuda_core_graph.py", str(image), **found)
    assert (done.code, done.out.splitlines()[0]) == (0, f"device: {device.title}"), done.err
    assert done.report["device"] == "host"
    # The first two are one, seen twice, where the second stream has the address of the first.
    nodes = [
        (one["by"], one["nodes"], one["kernels"])
        for one in done.report["captures"]
        for _ in range(one["times"])
    ]
    assert nodes == [
        ("others", {"kernel": 2, "memcpy": 1}, {"add_scaled": 1, "square": 1}),
        ("others", {"kernel": 2, "memcpy": 1}, {"add_scaled": 1, "square": 1}),
        ("others", {"kernel": 1, "memcpy": 1}, {"add_scaled": 1}),
    ]
    places = {one["began_at"].partition(":")[0] for one in done.report["captures"]}
    assert places == {"examples/cuda_core_graph.py"}
