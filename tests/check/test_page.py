"""docs/seeded-bugs.md is what the recorded runs say, and README has its numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.check.bugs import digest as digests
from tests.check.bugs.table import BUGS, BY_NAME
from tools import bug_table

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_a_row_for_each_bug_and_what_is_known_of_it() -> None:
    runs = {"plain": {"result": "right"}, "memcheck": {"found": True, "place": "x.cu:1",
            "place_is_right": False, "exit": 99}}  # fmt: skip
    gpu = {"version": "Version 1", "bugs": {"fill_no_guard": runs}, "clean": {}}
    host = {"bugs": {"fill_no_guard": {"plain": {"result": "fault"}}}}
    page = bug_table.text({"fill_no_guard": {"found": True}}, gpu, host)
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == len(BUGS)
    (known,) = (line for line in rows if line.startswith("| `fill_no_guard`"))
    cells = [cell.strip() for cell in known.strip("|").split("|")]
    assert cells[3:] == ["found", "elsewhere", "–", "–", "–", "fault", "right"]
    (kind,) = (line for line in page.splitlines() if line.startswith("| out-of-bounds |"))
    cells = [cell.strip() for cell in kind.strip("|").split("|")]
    assert cells[2:] == ["1 of 1", "1 of 1", "–", "–", "–", "1 of 1"], "of those that were run"


def test_the_page_lists_what_was_not_run_and_what_was_run_of_other_sources() -> None:
    checker = {"found": True, "checker": digests.digest_of_checker()}
    today = {bug.name: {**checker, "source": digests.digest(bug)} for bug in BUGS}
    host = {"bugs": {name: {"plain": {**run, "result": "right"}} for name, run in today.items()}}
    gpu = json.loads(json.dumps(host))
    assert "are to be made" not in bug_table.text(today, gpu, host)

    del gpu["bugs"]["fill_no_guard"]
    gpu["bugs"]["smooth_after_last"]["plain"]["source"] = "another"
    page = bug_table.text(today, gpu, host)

    lines = [line for line in page.splitlines() if " not run" in line and line.startswith("- **c")]
    told = "1 not run (`fill_no_guard`); 1 old (`smooth_after_last`)."
    assert lines == [f"- **compute-sanitizer and GPU**: {told}"]
    assert "earlier checker" not in page

    today["fill_no_guard"]["checker"] = "another"
    today["smooth_after_last"].pop("checker")
    page = bug_table.text(today, host, host)
    assert "- **check build**: 2 verdicts of an earlier checker." in page
    assert "are to be made" in page and "old (" not in page, "the sources are today's"


def committed() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    files = bug_table.CHECK, bug_table.SANITIZER, bug_table.PLAIN
    return tuple(map(bug_table.load, files))  # type: ignore[return-value]


def test_the_page_is_what_the_results_say() -> None:
    page = (ROOT / "docs/seeded-bugs.md").read_text(encoding="utf-8")
    assert page == bug_table.text(*committed()), "run tools/bug_table.py"


def test_readme_has_the_numbers_of_the_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = re.search(r"Of (\d+) bugs seeded into our kernels it finds (\d+) .*?"
                     r"compute-sanitizer (\d+) of the (\d+) that it was", readme)  # fmt: skip
    assert said is not None, "README's sentence on the seeded bugs is worded otherwise"
    check, gpu, _ = committed()
    runs = {name: [run for tool, run in row.items() if tool in bug_table.SANITIZERS]
            for name, row in gpu["bugs"].items()}  # fmt: skip
    runs = {name: row for name, row in runs.items() if row and name in BY_NAME}
    found = sum(verdict["found"] for verdict in check.values())
    seen = sum(any(run["found"] for run in row) for row in runs.values())
    assert [int(number) for number in said.groups()] == [len(BUGS), found, seen, len(runs)]
