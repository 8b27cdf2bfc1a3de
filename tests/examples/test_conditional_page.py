"""The example of docs/conditional.md runs as it stands there."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from tests.support.process import ROOT, run_python

PAGE = (ROOT / "docs" / "conditional.md").read_text(encoding="utf-8")


def _block(name: str) -> str:
    part = PAGE.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    found = re.search(r"```\w+\n(.*?)```", part, re.DOTALL)
    assert found, f"conditional.md has no block {name}"
    return found[1]


@pytest.mark.both
def test_newton(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (tmp_path / "newton.cu").write_text(_block("newton-source"), encoding="utf-8")
    spec = request.config.getoption("--device")
    code = _block("newton").replace('open_device("auto")', f"open_device({spec!r})")
    done = run_python(f"import os; os.chdir({str(tmp_path)!r})\n{code}")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()[:4]]
    assert [float(value) for value, _ in lines] == [2.0, 9.0, 1e6, 2.0]
    for value, root in lines:
        exact = math.sqrt(float(value))
        assert abs(float(root) - exact) <= 2e-6 * exact, "the page's own tolerance, and rounding"
    assert "3 replayed" in done.stdout
