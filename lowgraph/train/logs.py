"""A run's figures, lap by lap, for other programs: as CSV, or for TensorBoard.

    with open_log(Path("run.csv")) as log:
        log.write(LapFigures(step=100, loss=2.31, step_ms=0.42))

Open a log before the device: a path that cannot be is refused then, and not after an hour.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import socket
import stat
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from lowgraph.capture.closing import Closing
from lowgraph.errors import ConfigError

__all__ = ["CsvLog", "LapFigures", "RunLog", "TensorBoardLog", "open_log"]


@dataclass(frozen=True)
class LapFigures:
    """What is known after `step` optimizer steps; None for what is not.

    loss: of the last step, heldout_loss: of the parameters, both in nats a token. gradient_norm:
    before clipping. learning_rate: of the last step. step_ms: milliseconds a step, mean of the lap.
    """

    step: int
    loss: float | None = None
    heldout_loss: float | None = None
    gradient_norm: float | None = None
    learning_rate: float | None = None
    step_ms: float | None = None


_COLUMNS = tuple(field.name for field in fields(LapFigures))
_HEADER = (",".join(_COLUMNS) + "\n").encode()
_TAGS = {
    "loss": "train/loss",
    "heldout_loss": "heldout/loss",
    "gradient_norm": "train/gradient_norm",
    "learning_rate": "train/learning_rate",
    "step_ms": "train/step_ms",
}


class RunLog(Protocol):
    """Where figures go. All raise ConfigError, naming the path, for what cannot be written."""

    def write(self, figures: LapFigures) -> None:
        """Append them; they are with the system at the return."""

    def close(self) -> None:
        """Write what is left. Idempotent."""

    def __enter__(self) -> RunLog:
        """Return the log."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""


def open_log(path: Path) -> RunLog:
    """The log that a path names: `.csv` is a file, a name without a suffix TensorBoard's folder.

    Raises ConfigError for another name, a path that cannot be written, and without tensorboard.
    """
    if path.suffix.lower() == ".csv":
        return CsvLog(path)
    if not path.suffix:
        return TensorBoardLog(path)
    raise ConfigError(
        f"--log {path}: use a name that ends in .csv, or a folder without a suffix for TensorBoard"
    )


class CsvLog(Closing):
    """A CSV file with one line a lap, empty where a figure is not known.

    A file that is there already is gone on with, so that a resumed run has one log: of a step that
    is in it twice the later line counts. A line is written whole or not at all; what a killed run
    left of its last one is cut off. A new file that got no line is removed again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unused = not os.path.lexists(path)  # and made by us
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._prepare(self._file)
        except OSError as error:
            self.close()
            raise self._failed(error) from error
        except BaseException:
            self.close()
            raise

    def write(self, figures: LapFigures) -> None:
        """Append a line."""
        if self._file is None:
            raise ConfigError(f"--log {self._path}: the log is closed")
        cells = ("" if value is None else repr(value) for value in astuple(figures))
        try:
            _append(self._file, (",".join(cells) + "\n").encode())
        except OSError as error:
            raise self._failed(error) from error
        self._unused = False

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is None:
            return
        if self._unused:
            with suppress(OSError):
                os.unlink(self._path)
        os.close(file)

    def _prepare(self, file: int) -> None:
        """Lock it, and leave a header and whole lines."""
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ConfigError(f"--log {self._path}: no ordinary file, which could be appended to")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"--log {self._path}: another run is writing it; give each run a log of its own"
            ) from error
        head = os.pread(file, len(_HEADER), 0)
        if head != _HEADER:
            if not _HEADER.startswith(head):
                raise ConfigError(
                    f"--log {self._path}: it is there and begins with another line than "
                    f"{_HEADER.decode().strip()}; give a new name"
                )
            os.ftruncate(file, 0)  # empty, or killed in the middle of the header
            _append(file, _HEADER)
        else:
            os.ftruncate(file, _end_of_last_line(file, os.fstat(file).st_size))

    def _failed(self, error: OSError) -> ConfigError:
        return ConfigError(f"--log {self._path}: {error.strerror or error}")


class TensorBoardLog(Closing):
    """Event files for TensorBoard in a folder; a run adds a file of its own.

    Folder and file are made by the first `write`; an event is written whole or not at all, and at
    once: what cannot be written is this call's error, not one of a thread beside the run. Needs the
    package tensorboard, and neither PyTorch nor TensorFlow.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None
        self._closed = False
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError as error:
            raise ConfigError(
                f"--log {folder}: a folder is for TensorBoard, which is not installed; install it "
                "with: pip install 'lowgraph[tensorboard]', or give a name that ends in .csv"
            ) from error
        self._packer = RecordWriter
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        whole = folder.absolute()
        nearest = next(part for part in (whole, *whole.parents) if os.path.lexists(part))
        if not os.path.isdir(nearest):
            raise ConfigError(f"--log {folder}: {nearest} is not a folder")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise ConfigError(f"--log {folder}: {nearest} may not be written")

    def write(self, figures: LapFigures) -> None:
        """Add an event with a scalar for each figure that is known."""
        if self._closed:
            raise ConfigError(f"--log {self._folder}: the log is closed")
        known = {tag: getattr(figures, name) for name, tag in _TAGS.items()}
        values = [
            self._summary.Value(tag=tag, simple_value=value)
            for tag, value in known.items()
            if value is not None
        ]
        summary = self._summary(value=values)
        try:
            if self._file is None:
                self._file = self._new_file()
                self._add(file_version="brain.Event:2")
            self._add(step=figures.step, summary=summary)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the event file."""
        self._closed = True
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _add(self, **event: Any) -> None:
        record = self._event(wall_time=time.time(), **event).SerializeToString()
        packed = io.BytesIO()
        self._packer(packed).write(record)
        assert self._file is not None
        _append(self._file, packed.getvalue())

    def _new_file(self) -> int:
        """Of a name that TensorBoard looks for, and no other run has."""
        self._folder.mkdir(parents=True, exist_ok=True)
        begin = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        for number in count():
            with suppress(FileExistsError):
                path = self._folder / f"{begin}.{number}"
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        raise AssertionError("count() does not end")

    def _failed(self, error: OSError) -> ConfigError:
        return ConfigError(f"--log {self._folder}: {error.strerror or error}")


def _append(file: int, content: bytes) -> None:
    """Write it whole or not at all. Raises OSError."""
    found = os.fstat(file)
    if not found.st_nlink:
        raise FileNotFoundError(errno.ENOENT, "it was removed while the run was writing it")
    try:
        written = os.write(file, content)
        if written < len(content):
            os.write(file, content[written:])  # raises the reason for the first one's shortness
    except OSError:
        os.ftruncate(file, found.st_size)
        raise


def _end_of_last_line(file: int, size: int) -> int:
    """Bytes up to the last newline, that included; there is one, the header's."""
    end = size
    while end:
        start = max(0, end - 4096)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
