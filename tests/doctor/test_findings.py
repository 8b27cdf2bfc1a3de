"""What `doctor` finds in lowgraph's own graphs: one step for each kind, on either device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lowgraph.driver import Device
from tests.doctor.kit import SCRIPTS, Run, line, run_doctor
from tests.support.process import ROOT, words_of

pytestmark = pytest.mark.both

WRONG = ("unowned", "stale", "closed", "frozen", "plateau", "allocates", "races")
RIGHT = ("clean", "declared")


@pytest.fixture(scope="module")
def wrong(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of all that is wrong."""
    folder = tmp_path_factory.mktemp("wrong")
    return run_doctor(folder, SCRIPTS / "wrong.py", device.spec, *WRONG)


def only(found: list[dict[str, Any]]) -> dict[str, Any]:
    assert len(found) == 1, found
    return found[0]


def test_each_kind_is_a_finding_and_nothing_else_is(wrong: Run) -> None:
    assert wrong.code == 1, wrong.out + wrong.err
    assert wrong.report["findings"] == len(WRONG)
    assert wrong.report["notes"] == []
    # The script did what it does without the doctor.
    told = dict(text.split() for text in wrong.out.splitlines()[: len(WRONG)])
    replays = {**dict.fromkeys(WRONG, "3"), "frozen": "0", "allocates": "0"}
    assert told == replays


def test_graphs_are_told_by_kind_and_stage_and_where_they_began(wrong: Run) -> None:
    seen = only(wrong.of("captures", "unowned"))
    assert (seen["by"], seen["outcome"], seen["mode"]) == ("lowgraph", "recorded", "thread_local")
    assert seen["nodes"] == {"kernel": 2} and seen["kernels"] == {"add": 2}
    assert seen["stages"] == {"forward": {"kernel": 1}, "": {"kernel": 1}}
    assert seen["began_at"].startswith(f"{SCRIPTS}/wrong.py:")
    assert "  'unowned': 2 nodes: 2 kernel; begun at " in wrong.out
    assert "by stage: forward 1 kernel; in none 1 kernel" in wrong.out
    assert f"doctor: recorded 'unowned': 2 nodes, begun at {seen['began_at']}" in wrong.err


def test_a_pointer_that_nobody_owns(wrong: Run) -> None:
    found = only(wrong.of("unowned", "unowned"))
    assert (found["kernel"], found["argument"], found["node"]) == ("add", "x", 1)
    assert found["where"] == line("wrong.py", "UNOWNED")
    assert "in no slice, no staging slot and no registered buffer" in found["text"]
    assert {"about": "unowned pointers", "page": "docs/pins.md"}.items() <= advised(
        wrong, "unowned pointers"
    ).items()


def test_a_pointer_into_a_slice_that_was_given_back(wrong: Run) -> None:
    found = only(wrong.of("unowned", "stale"))
    assert "given back, its bytes are kept by a graph" in found["text"]
    assert f"since {line('wrong.py', 'GIVEN BACK')}" in found["text"]
    assert found["nodes"] == 3 and "; 2 more nodes of it" in wrong.out
    assert advised(wrong, "stale pointers")["page"] == "docs/graphs.md"
    before = only(wrong.of("unowned", "closed"))
    assert f"since {line('wrong.py', 'BEFORE THE END')}" in before["text"]


def test_a_scalar_that_was_refused(wrong: Run) -> None:
    found = only(wrong.of("frozen_scalars", "frozen"))
    assert (found["kernel"], found["argument"], found["refused"]) == ("add", "value", True)
    assert (found["recorded"], found["later"], found["times"]) == ("0.5", "1.0", 3)
    refusal = only(wrong.of("refusals", "frozen"))
    assert (refusal["type"], refusal["times"]) == ("FrozenScalar", 3)
    assert refusal["where"] == line("wrong.py", "FROZEN")
    assert refusal["remedy"].startswith("keep what changes from step to step in device memory")
    assert "(3 times)" in wrong.out


def test_a_scalar_that_was_frozen_all_the_while(wrong: Run) -> None:
    found = only(wrong.of("frozen_scalars", "plateau"))
    assert (found["recorded"], found["later"], found["refused"]) == ("1.0", "2.0", False)
    assert found["where"] == line("wrong.py", "PLATEAU")
    assert "value of add is 1.0 in every replay, and 2.0 in another step" in wrong.out
    assert "FrozenScalar" not in {one["type"] for one in wrong.of("refusals", "plateau")}


def test_memory_that_no_priming_pass_took(wrong: Run) -> None:
    """One line, however its sizes grow from attempt to attempt."""
    leak = only(wrong.of("leaks", "allocates"))
    assert (leak["kind"], leak["stopped"], leak["times"]) == ("allocation", True, 3)
    assert leak["where"] == line("wrong.py", "TAKES")
    assert only(wrong.of("refusals", "allocates"))["type"] == "CaptureAllocationError"


def test_two_nodes_that_race(wrong: Run) -> None:
    found = only(wrong.of("races", "races"))
    assert (found["memory"], found["certain"]) == ("x", True)
    assert "no path leads from one to the other" in found["text"]


def test_each_advice_names_a_page_that_is_there(wrong: Run) -> None:
    assert {one["about"] for one in wrong.report["advice"]} == {
        "unowned pointers", "stale pointers", "FrozenScalar", "CaptureAllocationError",
        "frozen scalars", "races",
    }  # fmt: skip
    assert all((ROOT / one["page"]).is_file() for one in wrong.report["advice"])


def test_everything_is_said_once_with_a_count(wrong: Run) -> None:
    """A refusal is no leak, no frozen scalar and no advice beside: that is where it was thrice."""
    report = wrong.out[wrong.out.index("doctor: ") :]
    for label, mark in (("frozen", "FROZEN"), ("allocates", "TAKES")):
        refusal, where = only(wrong.of("refusals", label)), line("wrong.py", mark)
        (said,) = [text for text in report.splitlines() if where.removeprefix(f"{ROOT}/") in text]
        assert said.startswith(f"  {label!r}: {refusal['type']}: ") and said.endswith(" (3 times)")
        assert report.count(refusal["remedy"]) == 1
    assert "  remedy: keep what changes from step to step" in report
    for one in wrong.report["advice"]:
        assert report.count(one["text"]) == 1, one
    assert [text for text in report.splitlines() if not text.startswith(" ")][1:-1] == [
        "captures:", "unowned pointers:", "frozen scalars:", "refusals:", "races:", "advice:",
    ]  # fmt: skip
    advice = report[report.index("advice:") :]
    assert "FrozenScalar" not in advice and "leaked" not in advice


def test_nothing_is_found_where_nothing_is_wrong(device: Device, tmp_path: Path) -> None:
    """Declared memory of others, stages, and a graph that is closed before the end."""
    flags = ("--bisect", "--quiet")
    done = run_doctor(tmp_path, SCRIPTS / "wrong.py", device.spec, *RIGHT, flags=flags)
    assert (done.code, words_of(done.err)) == (0, ""), done.out + done.err
    assert f"doctor: 0 findings; 2 graphs recorded on {device.spec}" in done.out
    empty = ("leaks", "unowned", "frozen_scalars", "refusals", "advice", "races", "breaks", "notes")
    assert [done.report[key] for key in empty] == [[]] * len(empty)
    assert [one["broken"] for one in done.report["probes"]] == [None, None]
    assert "probe of 'clean': nothing was sent to the legacy stream" in done.out


def test_two_steps_of_one_label_keep_their_own_pins(device: Device, tmp_path: Path) -> None:
    done = run_doctor(tmp_path, SCRIPTS / "twins.py", device.spec)
    assert done.out.splitlines()[0] == "3 3"
    assert (done.code, done.report["unowned"]) == (0, []), done.out


def test_its_own_exit_code_comes_before_that_of_findings(device: Device, tmp_path: Path) -> None:
    done = run_doctor(tmp_path, SCRIPTS / "wrong.py", device.spec, "races", "exits")
    assert (done.code, done.report["exit_code"], done.report["findings"]) == (3, 3, 1)


def advised(run: Run, about: str) -> dict[str, Any]:
    return only([one for one in run.report["advice"] if one["about"] == about])
