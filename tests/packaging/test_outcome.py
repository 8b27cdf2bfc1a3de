"""How a command ends where its output cannot be written, however Python buffers it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.packaging.tree import ROOT

pytestmark = pytest.mark.host

COMMAND = [sys.executable, "-m", "lowgraph", "include"]


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def given(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of a command."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": request.param}


def test_without_a_reader_it_ends_without_a_word(given: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(COMMAND, env=given, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_on_a_full_disk_it_ends_with_one_line(given: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(COMMAND, env=given, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b"error: standard output: No space left on device\n"
    assert done.returncode == 2


def test_an_error_of_its_own_is_told_all_the_same(given: dict[str, str]) -> None:
    command = [*COMMAND[:3], "audit", "missing.json"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=given, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2 and done.stderr.startswith(b"error: missing.json cannot be read: ")
    assert done.stderr.count(b"\n") == 1
