"""The folder of checkpoints: two are kept, and a kill at any moment leaves one that loads."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lowgraph.errors import ConfigError
from lowgraph.train import checkpoint
from lowgraph.train.files import remove_leftovers, replace_file
from tests.train.runs import ROOT, environment, filled_checkpoint

NEWEST, PREVIOUS = checkpoint.FILE_NAME, checkpoint.PREVIOUS_NAME


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def _write(folder: Path, *steps: int) -> None:
    for step in steps:
        checkpoint.write(folder, filled_checkpoint(step))


def _step(file: Path) -> int:
    return checkpoint.read(file).step


def test_the_newest_and_the_one_before_are_kept(tmp_path: Path) -> None:
    _write(tmp_path, 1)
    assert _names(tmp_path) == [NEWEST]
    _write(tmp_path, 2, 3)
    assert _names(tmp_path) == [NEWEST, PREVIOUS]
    assert (_step(tmp_path), _step(tmp_path / PREVIOUS)) == (3, 2)


@pytest.mark.parametrize("failing", ["file", "folder"])
def test_a_failed_write_leaves_whole_files_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    _write(tmp_path, 1, 2)
    flushed: list[int] = []

    def full(handle: int) -> None:
        flushed.append(handle)
        if failing == "file" or len(flushed) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("lowgraph.train.files.os.fsync", full)
    with pytest.raises(ConfigError, match=r"--checkpoint .*: No space left on device"):
        _write(tmp_path, 3)
    assert _step(tmp_path) == (2 if failing == "file" else 3)
    assert _names(tmp_path) == [NEWEST, PREVIOUS]


def test_an_interrupt_behind_the_rename_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_replace = os.replace

    def replace(old: Any, new: Any) -> None:
        real_replace(old, new)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "f", b"new")
    assert _names(tmp_path) == ["f"] and (tmp_path / "f").read_bytes() == b"new"


def test_file_and_folder_are_flushed_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        done.append("flush " + ("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file"))
        real_fsync(handle)

    def replace(old: Any, new: Any) -> None:
        done.append(f"rename to {Path(new).name}")
        real_replace(old, new)

    _write(tmp_path, 1)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    _write(tmp_path, 2)
    assert done == ["flush file", f"rename to {PREVIOUS}", f"rename to {NEWEST}", "flush folder"]


class _Killed(BaseException):
    pass


def _kill_at(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    """From the call number `moment` on the process is dead: no call has an effect any more."""
    made = 0

    def mortal(module: Any, name: str) -> None:
        whole = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal made
            made += 1
            if made >= moment:
                raise _Killed
            return whole(*arguments, **named)

        monkeypatch.setattr(module, name, call)

    for module, name in ((tempfile, "mkstemp"), (fcntl, "flock"), (os, "fsync"), (os, "chmod"),
                         (os, "replace"), (os, "unlink")):  # fmt: skip
        mortal(module, name)


def test_a_kill_between_any_two_calls_leaves_one_that_loads(tmp_path: Path) -> None:
    found = []
    for moment in range(1, 20):
        folder = tmp_path / str(moment)
        _write(folder, 1, 2)
        try:
            with pytest.MonkeyPatch.context() as patched:
                _kill_at(patched, moment)
                _write(folder, 3)
        except _Killed:
            pass
        else:
            break
        found.append((_step(folder), checkpoint.find(folder).name))
        checkpoint.prepare(folder)
        assert set(_names(folder)) <= {NEWEST, PREVIOUS}
        assert _step(folder) == found[-1][0]
        _write(folder, 4)
        assert (_step(folder), _step(folder / PREVIOUS)) == (4, found[-1][0])
    assert _step(folder) == 3
    # mkstemp, flock, fsync, chmod, the first rename | the second one | the folder's fsync
    assert found == [(2, NEWEST)] * 5 + [(2, PREVIOUS), (3, NEWEST)]


def _fork_and_kill(folder: Path, rounds: int) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.fork_and_kill", str(folder), str(rounds), "1"],
        capture_output=True, text=True, cwd=ROOT, env=environment(), check=False, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    leftovers, _, step = map(int, done.stdout.split())
    return leftovers, step


def test_writers_killed_at_random_moments_leave_one_that_loads(tmp_path: Path) -> None:
    leftovers, step = _fork_and_kill(tmp_path, 40)
    assert leftovers > 0 and step > 0  # else no kill met a write, or none was ever finished


@pytest.mark.exhaustive
def test_hundreds_of_killed_writers(tmp_path: Path) -> None:
    leftovers, step = _fork_and_kill(tmp_path, 300)
    assert leftovers > 30 and step > 30


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "f[1].json"  # a name with a pattern's characters is no pattern
    dead = tmp_path / ".f[1].json.abcd1234"
    others = [tmp_path / name for name in (".f1.json.abcd1234", ".f[1].json.old", "f[1].json.x")]
    for file in (target, dead, *others):
        file.write_bytes(b"x")
    assert remove_leftovers(target) == [dead.name]
    assert _names(tmp_path) == sorted(file.name for file in (target, *others))


def test_the_file_of_a_living_writer_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "f.json"
    during: list[list[str]] = []
    whole = os.fsync

    def fsync(handle: int) -> None:
        during.append(remove_leftovers(target))
        whole(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    replace_file(target, b"new")
    assert during[0] == [] and target.read_bytes() == b"new"


def test_a_damaged_newest_does_not_push_out_the_one_before(tmp_path: Path) -> None:
    """Resumed from the one before: until there is a new one, it is the only whole one."""
    _write(tmp_path, 1, 2)
    damaged = (tmp_path / NEWEST).read_bytes()[:-1]
    (tmp_path / NEWEST).write_bytes(damaged)
    said = checkpoint.prepare(tmp_path)
    assert said == ["checkpoint.safetensors is not readable; moved to damaged.safetensors"]
    assert (tmp_path / "damaged.safetensors").read_bytes() == damaged
    _write(tmp_path, 3)
    assert (_step(tmp_path), _step(tmp_path / PREVIOUS)) == (3, 1)


def test_a_folder_that_is_not_there_needs_no_preparing(tmp_path: Path) -> None:
    assert checkpoint.prepare(tmp_path / "none") == []
    assert _names(tmp_path) == []
