"""The test suite's own options: what a usual run leaves out, and what brings it back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.process import ROOT

pytestmark = pytest.mark.host


def collected(*words: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_one_seed_is_usual_and_every_setting_is_kept() -> None:
    usual, every = (collected("tests/ops/test_relu.py", *more) for more in ([], ["--seeds", "all"]))
    seeded = {name for name in every if name.endswith(("-0]", "-1]"))}
    assert every - usual == {name for name in seeded if name.endswith("-1]")} != set()
    assert {name[:-3] for name in seeded} == {name[:-3] for name in seeded & usual}
    assert collected("tests/ops/test_relu.py", "--exhaustive") == every


def test_further_settings_come_with_all_seeds_and_exhaustive_ones_do_not() -> None:
    file = "tests/models/test_branches.py"
    assert not any("race_with_nothing" in name for name in collected(file, "--seeds", "all"))
    assert any("race_with_nothing" in name for name in collected(file, "--exhaustive"))
    usual, every = (
        {name for name in collected("tests/train/test_parity.py", *more) if "another_se" in name}
        for more in ([], ["--seeds", "all"])
    )
    assert 0 < len(usual) < len(every)
