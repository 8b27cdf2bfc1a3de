"""Ctrl-C before a command has begun: one line and exit code 130, not the traceback of an import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lowgraph.early import EndsAtOnce
from tests.train.runs import EXAMPLE, ROOT, environment

# Imported by every Python at its start: sends the signal when a module is looked for.
_PRESS = """
import os, signal, sys

class Press:
    done = False

    def find_spec(self, name, path=None, target=None):
        if name == os.environ["PRESS_AT"] and not Press.done:
            Press.done = True
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, Press())
"""
COMMANDS = {
    "example": [str(EXAMPLE), "--steps", "1"],
    "module": ["-m", "lowgraph", "info"],
    "script": ["-c", "import sys; from lowgraph.__main__ import main; sys.exit(main())", "info"],
}
EARLY = ["lowgraph.cli", "numpy", "datetime", "cuda.bindings.driver", "lowgraph.models.charlm"]


@pytest.mark.parametrize(
    ("command", "module"),
    [
        *((command, module) for command in ("example", "module") for module in EARLY),
        ("example", "lowgraph.train.run"),
        ("script", "lowgraph.cli"),
    ],
)
def test_it_is_told_in_one_line(tmp_path: Path, command: str, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(_PRESS)
    done = subprocess.run(
        [sys.executable, *COMMANDS[command]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(PYTHONPATH=str(tmp_path), PRESS_AT=module),
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n"), done.stderr


def test_a_handler_that_is_there_stays(capfd: pytest.CaptureFixture[str]) -> None:
    """Also one that ignores it, as of a job in the background; and it is put back at the end."""
    before = signal.getsignal(signal.SIGINT)
    pressed: list[int] = []
    try:
        for handler in (signal.SIG_IGN, lambda number, frame: pressed.append(number)):
            signal.signal(signal.SIGINT, handler)
            with EndsAtOnce():
                assert signal.getsignal(signal.SIGINT) is handler
                os.kill(os.getpid(), signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with EndsAtOnce():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed == [signal.SIGINT]


def test_another_thread_may_import_inside() -> None:
    done: list[bool] = []

    def work() -> None:
        with EndsAtOnce():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
