"""What surrounds the seeded bugs: the runner, the judge, the sanitizer's table and the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.check import judging
from tests.check.bugs.table import BUGS, BY_NAME
from tests.check.judging import judge
from tools import sanitizer_table

ROOT = Path(__file__).resolve().parents[2]

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at store_quad(float *, float4, int)+0x2c0 in quad.cuh:36
=========     by thread (34,0,0) in block (2,0,0)
=========     Address 0x7f2c5be01220 is out of bounds
========= ERROR SUMMARY: 1 error
"""


def run_bug(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and results of run_bug.py."""
    out = Path(arguments[-1])
    script = str(ROOT / "tests/check/run_bug.py")
    done = subprocess.run(
        [sys.executable, script, *arguments[:-1], "--out", str(out)], check=False, timeout=120
    )
    return done.returncode, json.loads(out.read_text(encoding="utf-8"))["results"]


@pytest.mark.host
def test_the_runner_tells_results_apart(tmp_path: Path) -> None:
    names = ["control_behind_a_float", "dropout_state_not_saved", "add_freed_input", "smooth"]
    clean = run_bug(*names, "--clean", str(tmp_path / "clean.json"))
    assert clean[0] == 0
    assert [result["result"] for result in clean[1]] == ["right"] * 4

    code, results = run_bug(*names[:3], "smooth_after_last", str(tmp_path / "wrong.json"))

    assert code == 1
    # An x86 CPU loads from any address; a freed slice is guarded; nothing runs after a fault.
    assert [result["result"] for result in results] == ["right", "wrong", "fault", "not run"]


@pytest.mark.host
def test_the_runner_gives_up_a_kernel_that_does_not_end(tmp_path: Path) -> None:
    code, results = run_bug("hash_insert_table_full", "--give-up", "3", str(tmp_path / "r.json"))
    assert code == 3
    assert [result["result"] for result in results] == ["gave up"]


def finding(**changes: Any) -> dict[str, Any]:
    """A finding of the bug histogram_plain_increment."""
    place = {"file": "/x/histogram_plain_increment.cu", "line": 19, "other": "", "text": "a race"}
    return {"kind": "global-race", "kernel": "histogram", **place, **changes}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, True),
        ({"line": 18}, False),
        ({"kind": "shared-race"}, False),
        ({"kernel": "scatter_add", "file": "/x/scatter_plain_add.cu"}, False),
        ({"file": "/x/quad.cuh"}, False),
    ],
)
def test_the_judge_wants_kind_and_place(changes: dict[str, Any], found: bool) -> None:
    bug = BY_NAME["histogram_plain_increment"]
    assert judge(bug, [finding(**changes)], "wrong").found is found


def test_the_judge_takes_other_kinds_and_the_lines_of_a_helper() -> None:
    bug = BY_NAME["column_sum_chunks_collide"]
    line = min(line for file, line in bug.places() if file == "quad.cuh")
    helper = finding(kernel="column_sum_partial", file="quad.cuh", line=line)
    assert judge(bug, [helper], "wrong").found
    own = next(line for file, line in bug.places() if file == f"{bug.name}.cu")
    other = finding(kind="uninitialised-read", file=f"{bug.name}.cu", line=own)
    assert judge(bug, [other], "wrong").found
    assert not judge(bug, [], "wrong").found


def test_an_endless_loop_around_an_atomic_is_stopped_in_either() -> None:
    bug = BY_NAME["hash_insert_table_full"]
    inside = finding(kind="endless-kernel", kernel="hash_insert", file="/x/atomics.h", line=27)
    assert judge(bug, [inside], "wrong").found
    assert not judge(bug, [{**inside, "file": "/x/scatter.cu", "line": 1}], "wrong").found


def test_a_race_of_nodes_is_told_by_its_kernels() -> None:
    bug = BY_NAME["streams_no_event"]
    race = finding(kind="node-race", kernel="gelu_backward", other="residual_add", file="", line=0)
    assert judge(bug, [race], "right").found
    assert not judge(bug, [{**race, "other": "fill"}], "right").found


def test_all_are_judged_though_a_fault_ends_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that finds the first two of each process, where the second's fault ends it."""
    groups: list[list[str]] = []

    def check(names: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
        groups.append(names)
        found = [finding(kind=bug.kind, kernel=bug.kernel, file=f"{bug.name}.cu", line=line)
                 for bug in map(BY_NAME.__getitem__, names[:2])
                 for _, line in [min(bug.places())]]  # fmt: skip
        results = [*("right", "fault"), *["not run"] * len(names)]
        return found, [{"name": n, "result": r} for n, r in zip(names, results, strict=False)], ""

    monkeypatch.setattr(judging, "check", check)
    names = [bug.name for bug in BUGS if bug.places() and not bug.through]

    verdicts = judging.judge_all(names)

    assert set(verdicts) == set(names)
    assert all(verdict.found for verdict in verdicts.values())
    for group in groups:
        kernels = [BY_NAME[name].kernel for name in group]
        assert len(set(kernels)) == len(kernels), "findings in a header could not be told apart"
        assert len(group) == 1 or not any(BY_NAME[name].is_alone for name in group)


def test_a_process_that_is_lost_takes_no_other_bugs_findings_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bug that outlasts the time ends its process before the command has written anything."""
    fatal = "smooth_after_last"

    def check(names: list[str]) -> tuple[list[dict[str, Any]] | None, list[dict[str, Any]], str]:
        if fatal in names:
            return None, [{"name": name, "result": "gave up"} for name in names], "lost"
        found = [finding(kind=bug.kind, kernel=bug.kernel, file=f"{bug.name}.cu", line=line)
                 for bug in map(BY_NAME.__getitem__, names)
                 for _, line in [min(bug.places())]]  # fmt: skip
        return found, [{"name": name, "result": "wrong"} for name in names], ""

    monkeypatch.setattr(judging, "check", check)
    names = [bug.name for bug in BUGS if bug.places() and not bug.through]
    verdicts = judging.judge_all(names)

    assert [name for name in names if not verdicts[name].found] == [fatal]
    assert verdicts[fatal].result == "gave up"


def test_what_a_file_keeps_names_files_from_the_checkouts_root() -> None:
    printed = f"{ROOT}/tests/check/bugs/bench.py:189; {ROOT}/kernels_cu/fill.cu"
    command = [sys.executable, "-c", f"print({printed!r})"]
    told = "tests/check/bugs/bench.py:189; kernels_cu/fill.cu\n"
    assert sanitizer_table.run_group(command, 60) == (0, told)


def test_a_report_of_memcheck_is_read() -> None:
    run = sanitizer_table.parse("fill_no_guard", 99, MEMCHECK, [{"result": "fault"}])
    assert run["found"]
    assert run["line"] == "Invalid __global__ write of size 4 bytes"
    assert (run["place"], run["place_is_right"]) == ("quad.cuh:36", True)
    silent = sanitizer_table.parse("fill_no_guard", 0, "========= ERROR SUMMARY: 0 errors\n", [])
    assert not silent["found"]
