"""docs/debugging.md holds what its ten cases print, broken and mended, on either device."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT, words_of
from tools.debugging_guide import blocks

GUIDE = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
CASES = sorted(
    path.stem for path in (ROOT / "examples" / "debugging").glob("*.py") if path.stem != "shared"
)
COMMAND = "python examples/debugging/{}.py{}"
TOLD = blocks(GUIDE)

# What each broken case has to name, and how its mended program ends.
NAMED = {
    "allocation": ("CaptureAllocationError", "replayed: 2; w[0] = 0.8500"),
    "cluster": ("driver accepts, result wrong", "CLUSTER_CHANGED"),
    "frozen_scalar": ("FrozenScalar", "replayed: 3; w[0] = 0.8125"),
    "lazy_load": ("ModuleLoadDuringCapture", "replayed: 2; averaged[0] = 0.9439"),
    "legacy_stream": ("CaptureIncomplete", "replayed: 2; w[0] = 0.8500"),
    "missing_join": ("UnjoinedFork", "replayed: 2; doubled[0] = 2.0000"),
    "node_race": ("a race on 'gradient'", "findings: 0"),
    "other_thread": ("watchdog: cuEventQuery", "replayed: 2; w[0] = 0.7000"),
    "refused_update": ("TOPOLOGY_CHANGED", "an update would be: updatable"),
    "stale_pointer": ("was byte 0 of 'batch'", "replayed: 2; w[0] = 0.4000"),
}


@pytest.fixture(scope="module")
def printed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What every command prints, from one process that ran them all."""
    path = tmp_path_factory.mktemp("guide") / "printed.json"
    device = request.config.getoption("--device")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tools.debugging_guide", "--device", device,
         "--json", str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert words_of(done.stderr) == ""
    found: dict[str, str] = json.loads(path.read_text())
    return found


def _comparable(text: str) -> str:
    """Without what a run may choose: addresses, and where a line of them is wrapped."""
    return " ".join(re.sub(r"0x[0-9a-f]{3,}", "ADDRESS", text).split())


def test_the_guide_has_ten_cases_each_broken_and_mended() -> None:
    assert sorted(NAMED) == CASES and len(CASES) == 10
    assert set(TOLD) == {COMMAND.format(n, flag) for n in CASES for flag in ("", " --fixed")}


@pytest.mark.both
@pytest.mark.parametrize("flag", ["", " --fixed"])
@pytest.mark.parametrize("case", CASES)
def test_a_case_prints_what_the_guide_says(printed: dict[str, str], case: str, flag: str) -> None:
    said = printed[COMMAND.format(case, flag)]
    assert _comparable(said) == _comparable(TOLD[COMMAND.format(case, flag)])
    named, mended = NAMED[case]
    assert (mended if flag else named) in _comparable(said)
    assert (named in _comparable(said)) == (not flag), "only the broken one is told of"


@pytest.mark.both
def test_a_stale_pointer_is_named_before_a_replay_follows_it(printed: dict[str, str]) -> None:
    """The script's audit comes before its next step, which therefore is not reached."""
    said = printed[COMMAND.format("stale_pointer", "")]
    assert said.startswith("AuditFailed: 1 finding: node 0 (kernel descend,")
    assert "replayed" not in said


@pytest.mark.both
def test_a_place_that_is_named_is_the_line_at_fault(printed: dict[str, str]) -> None:
    at_fault = {
        "allocation": "c.pool.take(",
        "frozen_scalar": "by_value, N)",
        "lazy_load": "c.library.kernel(",
        "legacy_stream": "scale(stream,",
        "missing_join": "wait_event(side",
        "stale_pointer": "descend(stream,",
    }
    for case, part in at_fault.items():
        place = re.search(rf"{case}\.py:(\d+)", printed[COMMAND.format(case, "")])
        assert place is not None
        source = (ROOT / "examples" / "debugging" / f"{case}.py").read_text().splitlines()
        assert part in source[int(place[1]) - 1], case


@pytest.mark.both
def test_a_case_is_run_by_the_command_of_the_guide(request: pytest.FixtureRequest) -> None:
    command = COMMAND.format("stale_pointer", "").split()[1:]
    device = request.config.getoption("--device")
    done = subprocess.run(
        [sys.executable, "-W", "error", *command, "--device", device],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0 and words_of(done.stderr) == "", done.stderr
    first, _, rest = done.stdout.partition("\n")
    assert first.startswith("device: ")
    assert _comparable(rest) == _comparable(TOLD[COMMAND.format("stale_pointer", "")])


def test_a_device_that_is_no_device_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "examples/debugging/allocation.py", "--device", "tpu"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ") and "tpu" in done.stderr


@pytest.mark.parametrize("case", CASES)
def test_a_case_stays_small(case: str) -> None:
    path = Path(ROOT / "examples" / "debugging" / f"{case}.py")
    text = path.read_text(encoding="utf-8")
    assert 20 <= len(text.splitlines()) <= 50
    assert "The mistake: " in (ast.get_docstring(ast.parse(text)) or "")
