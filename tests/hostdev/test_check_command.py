"""`python -m lowgraph check` as a command: its exit codes, arguments, refusals and time limit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostdev.check_kit import CHECKS, expected, run_check, run_python
from tests.support.process import ROOT

pytestmark = pytest.mark.host

ENDLESS = ("waits", "counts", "asks", "meets", "computes")
EMPTY = {"findings": [], "unchecked": [], "launches": 0, "silent_processes": []}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that prints its arguments, opens the device it is told to, ends with code 3."""
    path = tmp_path / "script.py"
    path.write_text(
        "import sys\n"
        "print(__name__, sys.argv[1:])\n"
        "if sys.argv[1:2] == ['--device']:\n"
        "    from lowgraph import open_device\n"
        "    open_device(sys.argv[2])\n"
        "sys.exit(3)\n"
    )
    return path


def test_the_script_gets_its_arguments_and_its_exit_code_stands(
    tmp_path: Path, script: Path
) -> None:
    done = run_check(tmp_path, script, "a", "--steps", "2")
    assert done.out.splitlines() == [
        "__main__ ['a', '--steps', '2']",
        "0 findings: no kernel was launched",
    ]
    assert done.code == 3
    assert json.loads((tmp_path / "findings.json").read_text()) == EMPTY


def test_a_script_may_leave_the_folder_that_it_was_started_in(tmp_path: Path) -> None:
    script, path = tmp_path / "script.py", tmp_path / "findings.json"
    script.write_text("import os\nos.mkdir('below')\nos.chdir('below')\nos.rmdir('../below')\n")
    command = [sys.executable, "-m", "lowgraph", "check", "script.py", "--json", path.name]
    given = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=given, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(path.read_text()) == EMPTY


def test_what_it_raises_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    script = tmp_path / "raises.py"
    script.write_text("raise ValueError('of its own')\n")
    done = run_check(tmp_path, script)
    assert done.code == 1 and done.err.splitlines()[-1] == "ValueError: of its own"
    assert f'File "{script}", line 1' in done.err
    assert "lowgraph/cli" not in done.err and "runpy" not in done.err


def test_what_follows_two_dashes_is_the_scripts(tmp_path: Path, script: Path) -> None:
    done = run_python("-m", "lowgraph", "check", str(script), "--", "--json", str(tmp_path / "f"))
    assert f"['--json', '{tmp_path / 'f'}']" in done.stdout
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_is_refused(tmp_path: Path, script: Path, device: str) -> None:
    done = run_check(tmp_path, script, "--device", device)
    assert done.code == 2
    assert f"device {device}: the check build runs kernels on the host device only" in done.err
    assert "--device host or auto" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name the Python script to check"),
        (("missing.py",), "missing.py: no such file"),
        (("README.md",), "README.md cannot be read as Python: "),
        (("kernels_cu/fill.cu",), "name the Python script that launches its kernels"),
        (("examples/own_kernel.py", "--json"), "--json needs a file"),
        (("examples/own_kernel.py", "--json="), "the path is empty"),
    ],
)
def test_bad_input_is_refused(words: tuple[str, ...], message: str) -> None:
    done = run_python("-m", "lowgraph", "check", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and message in done.stderr


@pytest.mark.parametrize("seconds", ["soon", "-1", "inf"])
def test_a_wrong_time_limit_is_refused(script: Path, seconds: str) -> None:
    done = run_python("-m", "lowgraph", "check", str(script), LOWGRAPH_HOST_KERNEL_SECONDS=seconds)
    assert done.returncode == 2
    assert f"$LOWGRAPH_HOST_KERNEL_SECONDS is '{seconds}': must be seconds" in done.stderr


def test_a_wrong_switch_is_refused() -> None:
    done = run_python("-c", "from lowgraph import hostdev; hostdev.load()", LOWGRAPH_HOST_CHECK="2")
    assert "$LOWGRAPH_HOST_CHECK is '2': must be 1 (check kernels) or 0" in done.stderr


def test_a_clean_script_ends_well(tmp_path: Path) -> None:
    done = run_check(tmp_path, ROOT / "examples" / "own_kernel.py")
    assert (done.code, done.findings) == (0, []), done.out + done.err
    assert "0 findings in 10 launches checked" in done.out


@pytest.mark.parametrize("kernel", ENDLESS)
def test_an_endless_kernel_is_stopped_and_the_script_goes_on(tmp_path: Path, kernel: str) -> None:
    limit = {"LOWGRAPH_HOST_KERNEL_SECONDS": "0.3"}
    done = run_check(tmp_path, CHECKS / "endless.py", kernel, **limit)
    (found,) = done.findings
    assert [(found["line"], found["kind"], None)] == expected(CHECKS / "endless.cu")[kernel]
    assert found["kernel"] == kernel and found["block"] == [0, 0, 0]
    assert "ran for more than 0.3 s" in found["text"]
    assert "went on" in done.out


@pytest.mark.parametrize("kernel", ENDLESS[:3])  # an inlined barrier has the line before it
def test_without_checks_an_endless_kernel_is_a_fault(kernel: str) -> None:
    """With a line in it that is the loop's: the compiler may name its condition or its body."""
    script = str(CHECKS / "endless.py")
    done = run_python(script, kernel, "host", LOWGRAPH_HOST_KERNEL_SECONDS="0.3")
    ((line, _, _),) = expected(CHECKS / "endless.cu")[kernel]
    assert done.returncode == 1
    assert f"kernel '{kernel}', block (" in done.stderr
    assert "ran for more than 0.3 s" in done.stderr
    assert f"endless.cu:{line}" in done.stderr


@pytest.mark.parametrize("size", ["micro", pytest.param("nano", marks=pytest.mark.exhaustive)])
def test_nothing_is_found_in_a_training_run(tmp_path: Path, size: str) -> None:
    """Eager, captured and evaluated: every kernel that the model uses, none of them reported."""
    done = run_check(tmp_path, CHECKS / "training.py", size, str(tmp_path))
    assert done.findings == [], done.out
    assert done.code == 0, done.err
    assert "step 2, 2 losses" in done.out


def test_the_hooks_code_is_apart_from_the_kernels(tmp_path: Path) -> None:
    """An endless kernel is told where it is, and never at a line of the hooks."""
    image = tmp_path / "endless.so"
    compile_it = (
        "import sys; from pathlib import Path; from lowgraph.hostdev import kernel_build; "
        "Path(sys.argv[2]).write_bytes(kernel_build.compile(Path(sys.argv[1]), [], {}))"
    )
    done = run_python(
        "-c", compile_it, str(CHECKS / "endless.cu"), str(image), LOWGRAPH_HOST_CHECK="1"
    )
    assert done.returncode == 0, done.stderr
    command = ["readelf", "-SsW", str(image)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    sections = dict(re.findall(r"\[ *(\d+)\] (\S+)", told.stdout))
    symbols = re.findall(r"FUNC +\w+ +\w+ +(\d+) (\S+)", told.stdout)
    hooks = {name for number, name in symbols if sections.get(number) == "lowgraph_hooks"}
    ours = ("__tsan_", "__ubsan_", "__wrap_", "_Zn", "_Zd")  # the last two: new and delete
    calls = {name for _, name in symbols if name.startswith(ours)}
    assert hooks == calls | {"_ZL23lowgraph_let_others_runv"} and "__tsan_read4" in hooks
