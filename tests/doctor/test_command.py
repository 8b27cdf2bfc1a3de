"""`python -m lowgraph doctor` as a command: the script behaves as it does by itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.doctor.kit import SCRIPTS, run_doctor
from tests.support.process import ROOT, run_command

BEHAVES = SCRIPTS / "behaves.py"
NAME = BEHAVES.relative_to(ROOT).as_posix()


def test_the_script_is_main_and_has_its_arguments(tmp_path: Path) -> None:
    done = run_doctor(tmp_path, NAME, "tells", "--steps", "2")
    assert done.out.splitlines()[0] == f"__main__ {NAME} ['tells', '--steps', '2']"
    assert done.out.splitlines()[1] == (
        "doctor: 0 findings; 0 graphs recorded on no device: none was opened"
    )
    assert done.out.splitlines()[2].startswith(f"{NAME} ended with 0 after ")
    assert (done.code, done.err) == (0, "")
    keys = {
        "script", "exit_code", "device", "findings", "captures", "leaks", "unowned",
        "frozen_scalars", "refusals", "races", "breaks", "probes", "advice", "beside", "seconds",
        "notes",
    }  # fmt: skip
    assert set(done.report) == keys


def test_what_it_raises_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    done, alone = run_doctor(tmp_path, NAME, "raises"), run_command(NAME, "raises")
    assert (done.code, done.report["exit_code"]) == (alone.returncode, 1)
    assert done.out.splitlines()[0] == "before"
    assert f'File "{NAME}"' in done.err and "lowgraph/cli" not in done.err
    assert "runpy" not in done.err
    # The path that it was started by is the only difference.
    assert done.err.replace(NAME, "X") == alone.stderr.replace(str(BEHAVES), "X").replace(NAME, "X")


@pytest.mark.parametrize(
    ("act", "code", "err"), [("exits", 3, ""), ("says", 1, "no luck\n"), ("interrupted", 130, "")]
)
def test_its_exit_code_is_kept(tmp_path: Path, act: str, code: int, err: str) -> None:
    done = run_doctor(tmp_path, NAME, act)
    assert done.code == code
    assert done.err == err or (act == "interrupted" and done.err == "interrupted\n")
    assert "doctor: 0 findings" in done.out
    assert f"{NAME} ended with {code} after " in done.out and done.report["exit_code"] == code


@pytest.mark.parametrize("act", ["closes", "replaces"])
def test_the_report_is_told_whatever_the_script_makes_of_stdout(tmp_path: Path, act: str) -> None:
    done = run_doctor(tmp_path, NAME, act)
    told = done.err if act == "closes" else done.out
    assert (done.code, done.report["exit_code"]) == (0, 0)
    assert [text[:19] for text in told.splitlines()] == ["doctor: 0 findings;", NAME[:19]]


def test_a_script_may_leave_the_folder_that_it_was_started_in(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    told = os.path.relpath(path, ROOT)
    done = run_command("-m", "lowgraph", "doctor", NAME, "leaves", "--json", told)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(path.read_text())["exit_code"] == 0


def test_it_reads_what_it_is_given(tmp_path: Path) -> None:
    done = run_doctor(tmp_path, NAME, "reads", given="two words\n")
    assert (done.code, done.out.splitlines()[0]) == (0, "read two words")


def test_its_children_run_without_the_doctor(tmp_path: Path) -> None:
    spawned = run_doctor(tmp_path, NAME, "processes")
    assert (spawned.code, spawned.out.splitlines()[0]) == (0, "[2, 4]"), spawned.err
    forked = run_doctor(tmp_path, NAME, "forks")
    assert (forked.code, forked.out.splitlines()[0]) == (0, "child ended with 5"), forked.err
    assert [one.out.count("doctor: ") for one in (spawned, forked)] == [1, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name the Python script to doctor: doctor SCRIPT [ARGS ...]"),
        (("missing.py",), "missing.py: no such file; name the Python script to doctor"),
        (("README.md",), "README.md cannot be read as Python: "),
        (("kernels_cu/fill.cu",), "name the Python script that launches its kernels"),
        ((NAME, "tells", "--json"), "--json needs a file"),
        ((NAME, "tells", "--json="), "--json: the path is empty"),
        (("--loud", NAME), "--loud"),
    ],
)
def test_bad_input_is_refused(words: tuple[str, ...], message: str) -> None:
    done = run_command("-m", "lowgraph", "doctor", *words)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("x = 1\nif x\n    pass\n")
    done = run_doctor(tmp_path, script)
    assert (done.code, done.report) == (2, {})
    assert "cannot be read as Python: " in done.err and "line 2" in done.err


def test_what_follows_two_dashes_is_the_scripts(tmp_path: Path) -> None:
    done = run_command("-m", "lowgraph", "doctor", NAME, "tells", "--", "--json", "f", "--bisect")
    assert "['tells', '--json', 'f', '--bisect']" in done.stdout
    assert not (ROOT / "f").exists()


def test_a_report_that_cannot_be_written_is_told_before_the_run(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "f.json"
    done = run_command("-m", "lowgraph", "doctor", NAME, "tells", "--json", str(target))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: --json {target}: {target.parent} is no folder\n"
    done = run_command("-m", "lowgraph", "doctor", NAME, "tells", "--json", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: --json {tmp_path}: it is a folder, name a file\n"
