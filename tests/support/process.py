"""Running Python in a process of its own: for another device, a broken context, another cache."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SEED_LINE = "lowgraph host device: LOWGRAPH_HOST_SHUFFLE"


def run_python(
    code: str, env: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `code` from the checkout's root with `env` on top of this environment; output as text."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(env or {})},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def output_of(code: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> str:
    """Return the standard output of `run_python`; fails, showing stderr, unless it ends with 0."""
    done = run_python(code, env, timeout)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def words_of(stderr: str) -> str:
    """What a program has on stderr besides what the host device says of shuffle mode."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_SEED_LINE))
