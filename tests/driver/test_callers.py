"""Paths in lines for people: told from the folder that the program was started in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lowgraph
from lowgraph.debug.doctor.findings import OTHERS, THROUGH_US
from lowgraph.debug.doctor.frames import caller
from lowgraph.driver.callers import from_folder, raised_at, working_folder

pytestmark = pytest.mark.host


@pytest.mark.parametrize(
    ("folder", "text", "told"),
    [
        ("/tmp", "/tmp/step.py:3: and ('/tmp/a b.py')", "step.py:3: and ('a b.py')"),
        ("/tmp", "/var/tmp/step.py:3, ./tmp/x", "/var/tmp/step.py:3, ./tmp/x"),
        ("/a.c", "/abc/x.py /a.c/x.py", "/abc/x.py x.py"),
        ("/", "/x.py", "/x.py"),
        ("", "/x.py", "/x.py"),
    ],
)
def test_only_paths_that_begin_in_the_folder_are_cut(folder: str, text: str, told: str) -> None:
    assert from_folder(folder, text) == told


def test_a_folder_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert working_folder() == os.path.realpath(gone)
    gone.rmdir()
    assert working_folder() == ""


@pytest.mark.parametrize(("folder", "by"), [("", THROUGH_US), ("_more", OTHERS)])
def test_a_package_whose_name_begins_like_ours_is_somebody_elses(folder: str, by: str) -> None:
    package = Path(lowgraph.__file__).parent
    name = f"{package}{folder}/somewhere.py"
    seen = {"caller": caller}
    exec(compile("found = caller()", name, "exec"), seen)
    assert seen["found"] == (f"{name}:1", by)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("cupy/_core/core.pyx", True),
        ("cupy_backends/cuda/api/runtime.pyx", True),
        ("/x/lib/python3/site-packages/cupy/linalg.py", True),
        ("cupy/mine.py", False),
        ("/home/me/cupy/train.pyx", False),
    ],
)
def test_an_error_of_cupys_is_told_at_the_line_that_called_it(name: str, theirs: bool) -> None:
    """Frames of its compiled modules have the names of the sources that these were built from."""
    found: dict[str, object] = {}
    exec(compile("def call():\n    raise ValueError", name, "exec"), found)
    with pytest.raises(ValueError) as caught:
        found["call"]()  # type: ignore[operator]
    here = f"{__file__}:{caught.traceback[0].lineno + 1}"
    assert raised_at(caught.value) == (here if theirs else f"{name}:2")
