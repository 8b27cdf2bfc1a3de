"""Logs of a run: CSV and TensorBoard's event files."""

from __future__ import annotations

import csv
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lowgraph.errors import ConfigError
from lowgraph.train.logs import CsvLog, LapFigures, TensorBoardLog, open_log

HEADER = "step,loss,heldout_loss,gradient_norm,learning_rate,step_ms\n"
FIGURES = (
    LapFigures(10, loss=2.5, step_ms=0.125),
    LapFigures(20, loss=2.25, heldout_loss=2.3, gradient_norm=0.7, learning_rate=1e-4, step_ms=0.1),
    LapFigures(30, heldout_loss=float("nan")),
)


def _write(path: Path, figures: Sequence[LapFigures]) -> None:
    with open_log(path) as log:
        for one in figures:
            log.write(one)


def test_a_csv_file_has_a_header_and_a_line_a_lap(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    _write(path, FIGURES)
    assert path.read_text().startswith(HEADER)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["10", "20", "30"]
    for row, one in zip(rows, FIGURES, strict=True):
        for name, cell in row.items():
            value = getattr(one, name)
            assert cell == "" if value is None else repr(float(cell)) == repr(float(value))


def test_a_line_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    with CsvLog(path) as log:
        assert path.read_text() == HEADER
        log.write(FIGURES[0])
        assert path.read_text() == HEADER + "10,2.5,,,,0.125\n"
        log.close()
        with pytest.raises(ConfigError, match="closed"):
            log.write(FIGURES[0])


@pytest.mark.parametrize("cut", range(len(HEADER) + len("10,2.5,,,,0.125\n") + 1))
def test_a_killed_runs_file_is_gone_on_with_by_whole_lines(tmp_path: Path, cut: int) -> None:
    """Cut off anywhere: what is left is the whole lines, and a header."""
    path = tmp_path / "run.csv"
    line = "10,2.5,,,,0.125\n"
    path.write_text((HEADER + line)[:cut])
    _write(path, FIGURES[1:2])
    kept = line if cut == len(HEADER + line) else ""
    assert path.read_text() == f"{HEADER}{kept}20,2.25,2.3,0.7,0.0001,0.1\n"


def test_a_long_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(HEADER + "10,2.5,,,,0.125\n" + "9" * 10_000)
    _write(path, FIGURES[:1])
    assert path.read_text() == HEADER + 2 * "10,2.5,,,,0.125\n"


@pytest.mark.parametrize("text", ["x", "step,loss\n", HEADER[:-1] + ",more\n", "a,b\n1,2\n"])
def test_another_file_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"begins with another line than step,loss.*a new name"):
        open_log(path)
    assert path.read_text() == text


def test_two_runs_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    with open_log(path), pytest.raises(ConfigError, match="another run is writing it"):
        open_log(path)
    open_log(path).close()


def full_after_half() -> tuple[list[int], Callable[[int, bytes], int]]:
    """The lengths that `os.write` was asked for, and one that fails behind the first half."""
    calls: list[int] = []
    write = os.write

    def full(file: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: len(data) // 2])

    return calls, full


def test_a_line_that_does_not_fit_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full after half of a line."""
    path = tmp_path / "run.csv"
    log = CsvLog(path)
    log.write(FIGURES[0])
    calls, full = full_after_half()
    with monkeypatch.context() as patched, pytest.raises(ConfigError, match=r"run\.csv: No space"):
        patched.setattr(os, "write", full)
        log.write(FIGURES[1])
    assert len(calls) == 2 and path.read_text() == HEADER + "10,2.5,,,,0.125\n"
    log.write(FIGURES[0])
    log.close()
    assert path.read_text() == HEADER + 2 * "10,2.5,,,,0.125\n"


@pytest.mark.parametrize("name", ["run.csv", "run"])
def test_a_log_that_is_removed_ends_the_run(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its lines would go where nobody reads them. In one error, with nothing on stderr beside."""
    with open_log(tmp_path / name) as log:
        log.write(FIGURES[0])
        for file in (tmp_path / name).glob("*") if name == "run" else [tmp_path / name]:
            file.unlink()
        with pytest.raises(ConfigError, match=rf"--log .*{name}: it was removed while the run"):
            log.write(FIGURES[1])
    assert capfd.readouterr().err == ""


def test_an_event_that_does_not_fit_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full after half of an event: TensorBoard stops reading at a torn one."""
    log = TensorBoardLog(tmp_path / "run")
    calls, full = full_after_half()
    log.write(FIGURES[0])

    with monkeypatch.context() as patched, pytest.raises(ConfigError, match=r"run: No space"):
        patched.setattr(os, "write", full)
        log.write(FIGURES[1])
    assert len(calls) == 2
    log.write(LapFigures(40, loss=2.0))
    log.close()
    reader = EventAccumulator(str(tmp_path / "run"))
    reader.Reload()
    assert [(e.step, e.value) for e in reader.Scalars("train/loss")] == [(10, 2.5), (40, 2.0)]


def test_tensorboard_reads_the_scalars(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    _write(folder, FIGURES[:2])
    _write(folder, [LapFigures(40, loss=2.0)])  # a resumed run: a file more
    assert len(list(folder.iterdir())) == 2
    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.iterdir()):
        reader = EventAccumulator(str(file))
        reader.Reload()
        for tag in reader.Tags()["scalars"]:
            found.setdefault(tag, []).extend((e.step, e.value) for e in reader.Scalars(tag))
    assert sorted(found["train/loss"]) == [(10, 2.5), (20, 2.25), (40, 2.0)]
    assert found["train/step_ms"] == [(10, 0.125), (20, pytest.approx(0.1))]
    assert found["heldout/loss"] == [(20, pytest.approx(2.3))]
    assert found["train/gradient_norm"] == [(20, pytest.approx(0.7))]
    assert found["train/learning_rate"] == [(20, pytest.approx(1e-4))]
    assert len(found) == 5


def test_an_event_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    log = TensorBoardLog(tmp_path / "run")
    log.write(FIGURES[0])
    reader = EventAccumulator(str(tmp_path / "run"))
    reader.Reload()
    assert [e.value for e in reader.Scalars("train/loss")] == [2.5]
    log.close()
    log.close()
    with pytest.raises(ConfigError, match="closed"):
        log.write(FIGURES[0])


def test_without_tensorboard_a_folder_says_how_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.record_writer", None)
    with pytest.raises(ConfigError, match=r"pip install 'lowgraph\[tensorboard\]', or .* \.csv"):
        open_log(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none/a.csv", "No such file or directory"),
        ("file/a.csv", "Not a directory"),
        ("folder.csv", "Is a directory"),
        ("file/run", ".*/file is not a folder"),
        ("x.txt", r"use a name that ends in \.csv, or a folder"),
    ],
)
def test_a_path_that_cannot_be_is_refused_at_once(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.csv").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=f"--log {tmp_path / name}: {told}"):
        open_log(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_log_that_got_nothing_leaves_nothing(tmp_path: Path) -> None:
    """As of a run whose device is not there."""
    for name in ("run.csv", "run"):
        open_log(tmp_path / name).close()
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "run.csv").write_text(HEADER)
    open_log(tmp_path / "run.csv").close()
    assert (tmp_path / "run.csv").read_text() == HEADER, "it was there before"


def test_a_folder_that_may_not_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the tests may run as root
    with pytest.raises(ConfigError, match=f"{tmp_path} may not be written"):
        open_log(tmp_path / "run")


def test_what_is_no_ordinary_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ConfigError, match="no ordinary file"):
        open_log(tmp_path / "pipe.csv")
