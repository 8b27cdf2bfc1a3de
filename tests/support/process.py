"""Running Python in a process of its own: for another device, a broken context, another cache."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SEED_LINE = "lowgraph host device: LOWGRAPH_HOST_SHUFFLE"


def environment(**changes: str) -> dict[str, str]:
    """The process's environment with `changes`; this checkout is the lowgraph that is imported."""
    folders = [changes.pop("PYTHONPATH", ""), str(ROOT), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(folder for folder in folders if folder)
    return {**os.environ, "PYTHONPATH": path, **changes}


def run_command(
    *words: str, given: str = "", timeout: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run this Python with `words` from the checkout's root, `given` on its standard input.

    variables: on top of this process's environment. Output is text.
    """
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment(**variables),
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def run_python(
    code: str, env: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `code`, with warnings as errors, as `run_command` does."""
    return run_command("-W", "error", "-c", code, timeout=timeout, **(env or {}))


def output_of(code: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> str:
    """Return the standard output of `run_python`; fails, showing stderr, unless it ends with 0."""
    done = run_python(code, env, timeout)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def words_of(stderr: str) -> str:
    """What a program has on stderr besides what the host device says of shuffle mode."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_SEED_LINE))
