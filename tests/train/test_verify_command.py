"""`python -m lowgraph verify`: its JSON file and its exit codes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.process import words_of
from tests.train.runs import ROOT, environment, micro_file

COMMAND = "import sys; from lowgraph.cli import main; sys.exit(main())"
GATES = ["positive", "moves", "repeats", "launches", "negative", "coverage"]


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


def _verify(*flags: str, patch: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{patch}\n{COMMAND}", "verify", *flags],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
        timeout=240,
    )


def _seconds_of_children() -> float:
    """Processor time, which other work on the machine does not change much."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.both
def test_every_gate_passes_for_nano(spec: str, tmp_path: Path) -> None:
    file = tmp_path / "gates.json"
    flags = ("--device", spec, "--preset", "nano", "--json", str(file))
    shortest = _verify(*flags, "--steps", "1")  # compiles what is still to compile
    assert shortest.returncode == 0, shortest.stdout + shortest.stderr
    before = _seconds_of_children()
    done = _verify(*flags, "--steps", "4")
    assert _seconds_of_children() - before < 20, "it takes 7 s"
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    assert [gate["name"] for gate in found["gates"]] == GATES
    assert all(gate["passed"] is True for gate in found["gates"])
    for gate in found["gates"]:
        assert gate.keys() == {"name", "passed", "figure", "detail"}
        assert gate["detail"] in done.stdout
    assert found["model"] == "charlm"
    assert found["steps"] == 4


@pytest.mark.both
def test_every_gate_passes_for_a_model_of_series(spec: str, tmp_path: Path) -> None:
    """Its features are the file's three, not the preset's eight."""
    data, file = micro_file("mamba2", tmp_path), tmp_path / "gates.json"
    flags = ("--model", "mamba2", "--preset", "nano", "--steps", "2", "--data", str(data))
    done = _verify("--device", spec, *flags, "--json", str(file))
    assert done.returncode == 2 and "30 rows held out are shorter than one window" in done.stderr
    np.save(data, np.concatenate([np.load(data)] * 2))
    done = _verify("--device", spec, *flags, "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    assert (found["model"], [gate["passed"] for gate in found["gates"]]) == ("mamba2", [True] * 6)


@pytest.mark.both
def test_the_flags_of_the_update_are_those_of_a_run(spec: str) -> None:
    done = _verify(
        "--device", spec, "--preset", "nano", "--steps", "2", "--clip", "1", "--ema", "0.9",
        "--accumulate", "2", "--schedule", "constant",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "get a gradient and state (moment1, moment2, ema)" in done.stdout
    refused = _verify("--accumulate", "0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--accumulate must be at least 1, got 0" in refused.stderr


@pytest.mark.both
def test_a_failed_gate_is_exit_code_1_and_in_the_file(spec: str, tmp_path: Path) -> None:
    file = tmp_path / "gates.json"
    patch = "from lowgraph.optim import AdamW; AdamW.step = lambda *_: None"
    flags = ("--device", spec, "--preset", "nano", "--steps", "2", "--json", str(file))
    done = _verify(*flags, patch=patch)
    assert done.returncode == 1, done.stdout + done.stderr
    assert words_of(done.stderr) == "error: 2 of 6 gates failed: moves, coverage\n"
    passed = {gate["name"]: gate["passed"] for gate in json.loads(file.read_text())["gates"]}
    assert [name for name in GATES if not passed[name]] == ["moves", "coverage"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--model", "nothing"], "unknown model 'nothing'"),
        (["--steps", "0"], "--steps must be at least 1"),
        (["--steps", "many"], "invalid int value"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--data", "/no/such/text"], "/no/such/text"),
        (["--json", "/no/such/folder/f.json"], "/no/such/folder is not there"),
        (["--data", ""], "the path is empty"),
        (["--json", ""], "the path is empty"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_line(flags: list[str], named: str) -> None:
    done = _verify(*flags)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr
