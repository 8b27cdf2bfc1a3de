"""Series in files: CSV with a header, or NPY; each row the features of a time step and its label.

Of a CSV the label is the column that is named `label`, in any case of letters, else the last; of an
NPY array, float or integer [rows, F + 1], the last. Every fault is a ConfigError of one line that
says where it is.
"""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError

import numpy as np
import numpy.typing as npt

from lowgraph.errors import ConfigError
from lowgraph.memory import counted
from lowgraph.train.data import NPY_MAGIC, is_folder, read_bytes
from lowgraph.train.series import Rows, Series, split_series

__all__ = ["LABEL_IS", "Table", "read_series_file", "read_table", "refused", "split_table"]

_LABEL = "label"
LABEL_IS = "the label is the column named label, else the last"
_KINDS = "a series is a .csv file with a header, or a .npy file [rows, features + 1]"


@dataclass(frozen=True)
class Table:
    """A file's numbers [rows, columns], and how its faults name a place.

    names: of the columns. lines: of a CSV the file's line of each row; None counts rows from 0, as
    NumPy does.
    """

    path: Path
    values: npt.NDArray[np.float64]
    names: list[str]
    lines: list[int] | None = None

    def place(self, row: int, column: int) -> str:
        """A cell, for people."""
        if self.lines is None:
            return f"row {row}, column {column}"
        return f"line {self.lines[row]}, column {column + 1} ({self.names[column]})"


def read_series_file(path: Path) -> Series:
    """Read, check, split and standardise a file. Raises ConfigError for one that is no series."""
    table, label, digest = read_table(path)
    for row in np.flatnonzero(~np.isin(table.values[:, label], (0, 1)))[:1]:
        value = table.values[row, label]
        raise refused(table.path, f"{table.place(row, label)} is {value:g}; a label is 0 or 1 "
                      f"({LABEL_IS})")  # fmt: skip
    train, heldout = split_table(table, label)
    return Series(str(path), f"label in column {table.names[label]}", digest, train, heldout)


def read_table(path: Path) -> tuple[Table, int, str]:
    """A file's numbers, all finite, its label's column, and its sha256. Raises ConfigError."""
    if is_folder(path):
        raise refused(path, f"is a folder; {_KINDS}")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise refused(path, f"has another ending; {_KINDS}")
    content = read_bytes(path)
    if not content:
        raise refused(path, "is empty")
    table = reader(path, content)
    label = _label_column(table)
    _check_values(table)
    return table, label, hashlib.sha256(content).hexdigest()


def split_table(table: Table, label: int) -> tuple[Rows, Rows]:
    """`split_series` of a table whose labels are checked. Raises ConfigError, naming a column."""
    if len(table.values) < 2:
        raise refused(table.path, "has 1 row, which cannot be split")
    labels = table.values[:, label]
    try:
        train, heldout = split_series(np.delete(table.values, label, axis=1), labels)
    except OverflowError as error:
        names = [name for column, name in enumerate(table.names) if column != label]
        raise refused(
            table.path,
            f"column {names[error.args[0]]} has values too far apart, or too near 0, for "
            "float32; scale it",
        ) from error
    if train.labels.min() == train.labels.max():
        raise refused(
            table.path,
            f"all labels of the part to train on, {len(train.labels)} rows, are "
            f"{train.labels[0]:g}: there is nothing to learn",
        )
    return train, heldout


def _read_csv(path: Path, content: bytes) -> Table:
    if content.startswith(NPY_MAGIC):
        raise refused(path, "is an NPY file; name it .npy")
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        rows = [(reader.line_num, row) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise refused(path, f"is no CSV text: {error}") from error
    if not rows:
        raise refused(path, "is empty")
    names = [name.strip() for name in rows[0][1]]
    if all(_is_number(name) for name in names):
        raise refused(path, "has no header: all of its first line are numbers; name the columns")
    _check_count(path, len(names))
    if len(rows) == 1:
        raise refused(path, "has a header and no rows")
    lines = [line for line, _ in rows[1:]]
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise refused(
                path, f"line {line} has {counted(len(row), 'column')}, the header {len(names)}"
            )
    cells = [row for _, row in rows[1:]]
    try:
        if b"_" in content and any("_" in cell for row in cells for cell in row):
            raise ValueError("Python's own 1_0, which is 10 to float(), is a slip in a file")
        values = np.array(cells, dtype=np.float64)
    except ValueError as error:
        table = Table(path, np.empty((0, 0)), names, lines)
        raise _first_that_is_no_number(table, cells) from error
    return Table(path, values, names, lines)


def _read_npy(path: Path, content: bytes) -> Table:
    if not content.startswith(NPY_MAGIC):
        raise refused(path, f"is no NPY file; {_KINDS}")
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    # A damaged header ends in as many ways as Python reads a number, a text, a size.
    except (ValueError, EOFError, MemoryError, OverflowError, SyntaxError, TokenError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise refused(path, f"cannot be read as NPY: {reason}") from error
    if array.dtype.kind not in "fiub":
        raise refused(path, f"holds {array.dtype}, which are no numbers")
    if array.ndim != 2:
        raise refused(path, f"has shape {array.shape}; give two dimensions [rows, features + 1]")
    _check_count(path, array.shape[1])
    if not len(array):
        raise refused(path, "has no rows")
    names = [str(column) for column in range(array.shape[1])]
    return Table(path, array.astype(np.float64), names)


def _label_column(table: Table) -> int:
    count = len(table.names)
    named = [column for column, name in enumerate(table.names) if name.lower() == _LABEL]
    if len(named) > 1:
        raise refused(table.path, f"has {len(named)} columns named {_LABEL}")
    return named[0] if named else count - 1


def _check_count(path: Path, columns: int) -> None:
    if columns < 2:
        raise refused(
            path,
            f"has {counted(columns, 'column')}; a series has one feature or more, and a label "
            "(a CSV's columns are parted by commas)",
        )


def _check_values(table: Table) -> None:
    """Refuse a number that is not finite."""
    for row, column in np.argwhere(~np.isfinite(table.values))[:1]:
        value = table.values[row, column]
        raise refused(table.path, f"{table.place(row, column)} is {value}, no finite number")


def _first_that_is_no_number(table: Table, cells: list[list[str]]) -> ConfigError:
    for row, texts in enumerate(cells):
        for column, text in enumerate(texts):
            if not _is_number(text):
                found = repr(text[:40]) if text.strip() else "empty"
                return refused(table.path, f"{table.place(row, column)} is {found}, no number")
    return refused(table.path, "holds a cell that is no number")


def _is_number(text: str) -> bool:
    if "_" in text:
        return False
    try:
        np.array([text], dtype=np.float64)
    except ValueError:
        return False
    return True


def refused(path: Path, what: str) -> ConfigError:
    """The error of a file."""
    return ConfigError(f"--data {path}: {what}")


_READERS = {".csv": _read_csv, ".npy": _read_npy}
