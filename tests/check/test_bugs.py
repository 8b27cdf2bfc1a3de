"""The seeded bugs: the table is sound, the clean kernels are right, and the checker finds them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lowgraph.driver import Device
from lowgraph.hostdev.toolchain import INCLUDE_DIR, cuda_include_dirs, run_compiler
from lowgraph.kernels import Library
from lowgraph.kernels.signature import kernel_names
from tests.check.bugs.bench import Bench
from tests.check.bugs.bug import KERNELS, KINDS, Bug, write_changed
from tests.check.bugs.scenarios import SCENARIOS
from tests.check.bugs.table import BUGS, BY_NAME
from tests.check.judging import Verdict, check, has_checker, judge_all
from tools.bug_table import CHECK

MISSES: dict[str, str] = json.loads(
    Path(__file__).with_name("misses.json").read_text(encoding="utf-8")
)
"""Bugs that the checker is known to miss, with the reason."""

NAMES = [bug.name for bug in BUGS]

ENDS = {"right", "wrong", "fault"}
"""What run_bug.py says of a bug that neither killed Python nor went on for ever."""

QUICK = {
    "fill_no_guard",
    "add_freed_input",
    "window_sum_end_not_written",
    "pair_length_second_float",
    "gather_host_table",
    "block_sum_one_barrier",
    "histogram_plain_increment",
    "block_sum_barrier_in_branch",
    "warp_sum_half_mask",
    "streams_no_event",
    "hash_insert_table_full",
}
"""One of each kind that compiles quickly: all of them are for `--exhaustive`."""


# ---- the table ----


def test_every_kind_and_every_kernel_has_its_bugs() -> None:
    kinds = Counter(bug.kind for bug in BUGS)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 3, kinds
    assert len(BUGS) == len(BY_NAME) >= 66, "two bugs of one name"
    ours = {(path.name, name) for path in KERNELS.glob("*.cu") for name in kernel_names(path)}
    assert ours - {(bug.file, bug.kernel) for bug in BUGS} == set(), "kernels without a bug"
    assert set(MISSES) <= set(NAMES)
    assert {BY_NAME[name].kind for name in QUICK} == set(KINDS)


@pytest.mark.parametrize("bug", BUGS, ids=NAMES)
def test_a_bug_is_one_fault_that_takes_place(bug: Bug) -> None:
    assert bug.old or bug.fault
    assert (bug.changed() != bug.source.read_text(encoding="utf-8")) == bool(bug.old)
    assert bug.places() or bug.kind == "node-race"
    assert all(kind in KINDS and reason for kind, reason in bug.other_kinds)
    assert f"void {bug.kernel}(" in bug.changed() or f") {bug.kernel}(" in bug.changed()
    assert bug.why.endswith("."), bug.why
    assert bug.scenario in SCENARIOS


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.fault], ids=lambda bug: bug.name)
def test_the_scenario_knows_its_fault(bug: Bug) -> None:
    """A fault that is spelled otherwise would run the correct program."""
    module = sys.modules[SCENARIOS[bug.scenario].__module__]
    assert module.__file__ is not None
    assert f'"{bug.fault}"' in Path(module.__file__).read_text(encoding="utf-8")


# ---- without the checker ----


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the scenarios' sources, one for all: a module is compiled once."""
    return tmp_path_factory.mktemp("sources")


@pytest.mark.parametrize("separate", [False, True], ids=["pool", "separate"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_clean_scenario_is_right(
    device: Device, session_library: Library, sources: Path, name: str, separate: bool
) -> None:
    bench = Bench(device, session_library, sources, None, separate)
    try:
        troubles = [check.trouble for check in SCENARIOS[name](bench, "")]
    finally:
        bench.close()
    assert not any(troubles), troubles


MARKS = ("-DLOWGRAPH_MARK_GLOBAL=", "-DLOWGRAPH_MARK_SHARED=", "-DLOWGRAPH_MARK_BOUNDS(...)=")


@pytest.mark.exhaustive
@pytest.mark.host
def test_every_bug_compiles(tmp_path: Path) -> None:
    """Without making code, which takes ten times as long."""
    folders = (INCLUDE_DIR, KERNELS, *cuda_include_dirs())
    flags = ["-std=c++20", "-w", "-fsyntax-only", "-DHEAD_SIZE=16", *MARKS]
    flags += ["-DTILE_M=64", "-DTILE_N=64"]
    flags += [*(f"-I{folder}" for folder in folders), "-include", "cuda_on_host.h", "-x", "c++"]
    changed = [bug for bug in BUGS if bug.old]
    for bug in changed:
        write_changed(tmp_path, bug)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(run_compiler, [*flags, str(tmp_path / f"{bug.name}.cu")], bug.name)
                for bug in changed]  # fmt: skip
    for job in jobs:
        job.result()


# ---- under the checker ----


def test_no_bug_of_the_recorded_run_took_python_with_it() -> None:
    """All of them: an ordinary run of the tests has one of each kind."""
    held = json.loads(CHECK.read_text(encoding="utf-8"))
    assert set(held) == set(NAMES)
    assert {verdict["result"] for verdict in held.values()} <= ENDS


@pytest.fixture(scope="module")
def checker() -> None:
    if not has_checker():
        pytest.skip("this lowgraph has no `python -m lowgraph check`")


@pytest.fixture(scope="module")
def verdicts(checker: None, request: pytest.FixtureRequest) -> dict[str, Verdict]:
    """Of the bugs that this run has selected, which share processes."""
    items = (getattr(item, "callspec", None) for item in request.session.items)
    chosen = {call.params.get("judged") for call in items if call is not None}
    return judge_all([name for name in NAMES if name in chosen])


@pytest.mark.host
def test_no_finding_without_a_bug(checker: None) -> None:
    # None of them is endless: the time is for a slow machine, or a sanitizer.
    findings, results, output = check(list(SCENARIOS), "--clean", give_up=240)
    assert findings == [], output
    assert {result["result"] for result in results} == {"right"}, output


@pytest.mark.host
@pytest.mark.timeout(1800)  # the first one waits for all
@pytest.mark.parametrize(
    "judged",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.exhaustive) for name in NAMES],
)
def test_the_checker_finds_it(verdicts: dict[str, Verdict], judged: str) -> None:
    verdict = verdicts[judged]
    assert verdict.result in ENDS, f"the process did not come to an end of its own: {verdict}"
    if judged in MISSES:
        assert not verdict.found, f"{judged} is found: take it off misses.json"
    else:
        assert verdict.found, f"{verdict}; right: {sorted(BY_NAME[judged].places())}"
