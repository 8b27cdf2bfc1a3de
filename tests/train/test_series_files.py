"""Series in files: what is read of CSV and NPY, its split and scale, and every bad file's line."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.models.mamba2_config import Mamba2Config
from lowgraph.train.datasets import read_data
from lowgraph.train.series_files import read_series_file

HEADER = "a,b,label\n"
GOOD = [f"{n},{n * n},{n % 2}\n" for n in range(30)]


def _table(rows: int = 40, columns: int = 4, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    table = generator.normal(3.0, 20.0, size=(rows, columns))
    table[:, -1] = np.arange(rows) % 2
    return table


def _csv(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def _npy(table: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, table)
    return file.getvalue()


def _expected(features: np.ndarray) -> np.ndarray:
    cut = len(features) * 9 // 10
    return (features - features[:cut].mean(0)) / features[:cut].std(0)


@pytest.mark.parametrize("rows", [31, 257, 1000])
@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_file_is_split_in_time_and_scaled_by_its_train_part(
    tmp_path: Path, kind: str, rows: int
) -> None:
    table = _table(rows, 4, seed=rows)
    path = tmp_path / f"series.{kind}"
    if kind == "csv":
        text = "x,y,z,up\n" + "".join(",".join(map(repr, row)) + "\n" for row in table.tolist())
        content = text.encode()
    else:
        content = _npy(table)
    path.write_bytes(content)
    series = read_series_file(path)
    cut = rows * 9 // 10
    assert (len(series.train.labels), len(series.heldout.labels)) == (cut, rows - cut)
    scaled = np.concatenate([series.train.features, series.heldout.features])
    # One rounding to float32 of values that float64 has to 1e-13.
    np.testing.assert_allclose(scaled, _expected(table[:, :3]), rtol=1e-6, atol=1e-7)
    labels = np.concatenate([series.train.labels, series.heldout.labels])
    assert np.array_equal(labels, table[:, 3])
    assert scaled.dtype == labels.dtype == np.float32
    assert series.sha256 == hashlib.sha256(content).hexdigest()
    assert ("column up" if kind == "csv" else "column 3") in series.describe()


def test_the_column_named_label_is_the_label_wherever_it_stands(tmp_path: Path) -> None:
    text = "a,label,b\n" + "".join(f"{n},{n % 2},{1 - n % 2}\n" for n in range(20))
    series = read_series_file(_csv(tmp_path / "s.csv", text))
    assert series.features == 2
    assert np.array_equal(series.train.labels, np.arange(18) % 2)
    assert "label in column label" in series.describe()


def test_what_spreadsheets_write_is_read(tmp_path: Path) -> None:
    """A byte-order mark, CRLF, quotes, blanks around cells, an empty last line."""
    rows = "".join(f'"{n}", {n * 2} ,{n % 2}\r\n' for n in range(20))
    text = b"\xef\xbb\xbf" + ('a, b ,"label"\r\n' + rows + "\r\n").encode()
    assert read_series_file(_csv(tmp_path / "s.CSV", text)).features == 2


def test_a_name_with_an_underscore_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("wind_speed,label\n" + "1,0\n2,1\n" * 10)
    assert read_series_file(path).train.features.shape == (18, 1)


def test_the_label_is_found_whatever_its_case(tmp_path: Path) -> None:
    rows = "".join(f"{n % 2},{n}\n" for n in range(20))
    series = read_series_file(_csv(tmp_path / "s.csv", "Label,a\n" + rows))
    assert np.array_equal(series.train.labels, np.arange(18) % 2)
    assert "label in column Label" in series.describe()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "bool", ">f8"])
def test_any_numbers_of_an_array_are_read(tmp_path: Path, dtype: str) -> None:
    table = np.stack([np.arange(20) % 3, np.arange(20) % 2], axis=1).astype(dtype)
    series = read_series_file(_csv(tmp_path / "s.npy", _npy(table)))
    assert np.array_equal(series.train.labels, np.arange(18) % 2)


def test_a_constant_column_is_zero(tmp_path: Path) -> None:
    """0.1 is no binary number: the deviation of many of them is about 1e-17, and no scale."""
    table = _table(1000)
    table[:, 1] = 0.1
    series = read_series_file(_csv(tmp_path / "s.npy", _npy(table)))
    assert np.abs(series.train.features[:, 1]).max() < 1e-15


BAD_CSV = {
    "empty": ("", "is empty"),
    "only a header": (HEADER, "has a header and no rows"),
    "no header": ("".join(GOOD), "has no header: all of its first line are numbers"),
    "ragged": (HEADER + GOOD[0] + "1,2\n", "line 3 has 2 columns, the header 3"),
    "a word": (HEADER + GOOD[0] + "1,x,0\n", "line 3, column 2 (b) is 'x', no number"),
    "digits parted as Python does": (
        HEADER + GOOD[0] + "1,1_0,0\n",
        "line 3, column 2 (b) is '1_0', no number",
    ),
    "the same in the label": (
        HEADER + GOOD[0] + "1,2,0_1\n",
        "line 3, column 3 (label) is '0_1', no number",
    ),
    "an empty cell": (HEADER + GOOD[0] + ",1,0\n", "line 3, column 1 (a) is empty, no number"),
    "after a blank line": (HEADER + "\n" + "1,?,0\n", "line 3, column 2 (b) is '?', no number"),
    "NaN": (HEADER + GOOD[0] + "1,nan,0\n", "line 3, column 2 (b) is nan, no finite number"),
    "infinite": (HEADER + "1e999,1,0\n", "line 2, column 1 (a) is inf, no finite number"),
    "label 2": (HEADER + GOOD[0] + "1,1,2\n", "line 3, column 3 (label) is 2; a label is 0 or 1"),
    "label 0.5": (HEADER + "1,1,0.5\n", "line 2, column 3 (label) is 0.5; a label is 0 or 1"),
    "one class": (HEADER + "1,1,0\n" * 20, "18 rows, are 0: there is nothing to learn"),
    "one row": (HEADER + "1,1,0\n", "has 1 row, which cannot be split"),
    "one column": ("label\n0\n1\n", "has 1 column; a series has one feature or more"),
    "semicolons": ("a;label\n1;0\n", "columns are parted by commas"),
    "two labels in two spellings": ("Label,a,LABEL\n1,0,1\n", "has 2 columns named label"),
    "two labels": ("a,label,label\n1,0,1\n", "has 2 columns named label"),
    "no text": (b"a,label\n\xff\xfe,1\n", "is no CSV text"),
    "NUL": (b"a,label\n\x00,1\n", ("is no CSV text", "no number")),
    "an NPY file": (_npy(_table()), "is an NPY file; name it .npy"),
    "too near 0": (
        HEADER + "".join(f"{n % 7}e-320,1,{n % 2}\n" for n in range(30)),
        "column a has values too far apart, or too near 0, for float32; scale it",
    ),
    "too far apart": (
        HEADER + "".join(GOOD) + "1e300,1,0\n" * 3,
        "column a has values too far apart, or too near 0, for float32; scale it",
    ),
}


@pytest.mark.parametrize("name", BAD_CSV)
def test_a_bad_csv_file_is_one_line(tmp_path: Path, name: str) -> None:
    content, said = BAD_CSV[name]
    _refused(_csv(tmp_path / "bad.csv", content), said)


BAD_NPY = {
    "empty": (b"", "is empty"),
    "CSV": ((HEADER + "".join(GOOD)).encode(), "is no NPY file; a series is a .csv file"),
    "cut off": (_npy(_table())[:-8], "cannot be read as NPY"),
    "header cut off": (_npy(_table())[:20], "cannot be read as NPY"),
    "too large a size": (
        _npy(_table()).replace(b"(40, 4)", b"(%d, 4)" % 10**30),
        "cannot be read as NPY",
    ),
    "header never closed": (_npy(_table())[:10] + b"(" * 118, "cannot be read as NPY"),
    "objects": (None, "cannot be read as NPY"),
    "words": (_npy(np.array([["a", "b"]])), "holds <U1, which are no numbers"),
    "complex": (_npy(np.ones((3, 2), complex)), "holds complex128, which are no numbers"),
    "one dimension": (_npy(np.ones(9)), "has shape (9,); give two dimensions"),
    "three dimensions": (_npy(np.ones((3, 3, 2))), "has shape (3, 3, 2); give two dimensions"),
    "no rows": (_npy(np.ones((0, 3))), "has no rows"),
    "no rows, no columns": (_npy(np.ones((0, 0))), "has 0 columns"),
    "no columns": (_npy(np.ones((3, 0))), "has 0 columns"),
    "one column": (_npy(np.ones((3, 1))), "has 1 column;"),
    "NaN": (_npy(np.array([[1.0, 0], [np.nan, 1]])), "row 1, column 0 is nan, no finite number"),
    "label": (_npy(np.array([[1.0, 0], [3, -1]])), "row 1, column 1 is -1; a label is 0 or 1"),
}


@pytest.mark.parametrize("name", BAD_NPY)
def test_a_bad_npy_file_is_one_line(tmp_path: Path, name: str) -> None:
    content, said = BAD_NPY[name]
    if content is None:
        file = io.BytesIO()
        np.save(file, np.array([[1, "x"]], dtype=object), allow_pickle=True)
        content = file.getvalue()
    _refused(_csv(tmp_path / "bad.npy", content), said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.csv", "no such file or folder"),
        ("folder", "is a folder; a series is a .csv file"),
        ("notes.txt", "has another ending; a series is a .csv file"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("words")
    _refused(tmp_path / name, said)


def _refused(path: Path, said: str | tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_data("mamba2", path)
    message = str(caught.value)
    assert message.startswith(f"--data {path}") and "\n" not in message
    assert any(text in message for text in ([said] if isinstance(said, str) else said)), message


def test_a_model_of_text_reads_csv_as_text_and_refuses_npy(tmp_path: Path) -> None:
    assert read_data("charlm", _csv(tmp_path / "s.csv", HEADER + "".join(GOOD))).kind == "text"
    with pytest.raises(ConfigError, match="is an NPY file, a series; give a text, or the --model"):
        read_data("charlm", _csv(tmp_path / "s.npy", _npy(_table())))


def test_the_shape_takes_the_features_of_a_file(tmp_path: Path) -> None:
    series = read_data("mamba2", _csv(tmp_path / "s.npy", _npy(_table())))
    fitted, shape = series.fit(Mamba2Config(features=8, width=32, context=4, head_size=16))
    assert (fitted.features, shape.features, shape.width) == (3, 3, 32)
