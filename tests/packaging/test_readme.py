"""What the README and the examples show runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.packaging.tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def _run(*arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _block(name: str) -> str:
    """The fenced code between the markers of that name."""
    part = README.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    found = re.search(r"```\w+\n(.*?)```", part, re.DOTALL)
    assert found, f"README.md has no block {name}"
    return found[1]


@pytest.mark.both
def test_own_kernel_in_the_readme(request: pytest.FixtureRequest) -> None:
    spec = request.config.getoption("--device")
    code = _block("own-kernel").replace('open_device("auto")', f"open_device({spec!r})")
    assert "own kernel" in _run("-c", code)


@pytest.mark.both
def test_own_kernel_example(request: pytest.FixtureRequest) -> None:
    out = _run("examples/own_kernel.py", request.config.getoption("--device"))
    assert "own kernel" in out


def test_the_readme_shows_the_kernel_as_it_is() -> None:
    lines = (ROOT / "examples" / "own_kernel.cu").read_text(encoding="utf-8").splitlines()
    code = "\n".join(line for line in lines if line and not line.startswith("//"))
    assert _block("own-kernel-source").strip() == code


def test_test_command_is_one_that_runs_pytest() -> None:
    assert "-m pytest" in _block("test-command")
