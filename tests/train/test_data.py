"""Reading a corpus, its split, its bigrams, and what is refused."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.models import CharLMConfig
from lowgraph.train import data


def test_a_file_is_split_nine_to_one(tmp_path: Path) -> None:
    text = bytes(range(100))
    (tmp_path / "a.txt").write_bytes(text)
    corpus = data.read_corpus(tmp_path / "a.txt")
    assert corpus.train.tobytes() == text[:90]
    assert corpus.heldout.tobytes() == text[90:]
    assert corpus.sha256 == hashlib.sha256(text).hexdigest()
    assert (corpus.nbytes, corpus.files) == (100, 1)


def test_a_folder_is_read_in_sorted_order_without_hidden_and_binary_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name, text in [
        ("b.txt", b"bb"),
        ("sub/a.txt", b"aa"),
        ("image.bin", b"\0\1"),
        (".hidden", b"hh"),
        (".git/x", b"gg"),
    ]:
        (tmp_path / name).write_bytes(text)
    corpus = data.read_corpus(tmp_path)
    assert corpus.train.tobytes() + corpus.heldout.tobytes() == b"bbaa"
    assert (corpus.files, corpus.skipped) == (2, 1)
    assert "1 binary left out" in corpus.describe()


def test_the_default_is_this_pythons_library() -> None:
    corpus = data.read_corpus(None)
    assert corpus.nbytes > 1_000_000
    assert b"import" in corpus.train.tobytes()
    assert corpus.sha256 == data.read_corpus(None).sha256
    assert corpus.sha256 in corpus.describe()


@pytest.mark.parametrize("content", [None, b""])
def test_nothing_to_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"no such file|holds no text"):
        data.read_corpus(path)


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_what_may_never_end_is_refused(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "a device" else tmp_path / "pipe"
    if kind == "a pipe":
        os.mkfifo(path)
    with pytest.raises(ConfigError, match=f"--data {path}: neither a regular file nor a folder"):
        data.read_corpus(path)


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="File name too long"):
        data.read_corpus(Path("x" * 300))


def test_a_folder_that_cannot_be_listed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would be missing from the text unsaid. The refusal is made: root may list all."""
    (tmp_path / "a.txt").write_bytes(b"text")
    (tmp_path / "closed").mkdir()
    listed = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ConfigError, match="closed: Permission denied"):
        data.read_corpus(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no text"):
        data.read_corpus(tmp_path)


@pytest.mark.parametrize(
    ("nbytes", "batch", "said"),
    [(100, 10, "shorter than one batch"), (100, 1, "held-out bytes are shorter than one window")],
)
def test_a_text_too_short_is_refused(tmp_path: Path, nbytes: int, batch: int, said: str) -> None:
    (tmp_path / "text").write_bytes(b"x" * nbytes)
    corpus = data.read_corpus(tmp_path / "text")
    with pytest.raises(ConfigError, match=said):
        corpus.check(CharLMConfig(context=12, width=4, heads=1, layers=1), batch)
    corpus.check(CharLMConfig(context=9, width=4, heads=1, layers=1), batch=9)


def test_bigram_cross_entropy_is_that_of_the_counts(tmp_path: Path) -> None:
    """Against the definition written as a loop over the pairs."""
    generator = np.random.default_rng(0)
    (tmp_path / "text").write_bytes(generator.integers(97, 101, 300, dtype=np.uint8).tobytes())
    corpus = data.read_corpus(tmp_path / "text")
    pairs: dict[tuple[int, int], int] = {}
    for pair in itertools.pairwise(corpus.train.tolist()):
        pairs[pair] = pairs.get(pair, 0) + 1
    costs = []
    heldout = corpus.heldout.tolist()
    for first, second in itertools.pairwise(heldout):
        row = sum(count for (a, _), count in pairs.items() if a == first)
        costs.append(-np.log((pairs.get((first, second), 0) + 1) / (row + 256)))
    assert data.bigram_cross_entropy(corpus) == pytest.approx(np.mean(costs), rel=1e-12)


@pytest.mark.parametrize(
    ("nbytes", "windows", "starts"),
    [
        (1000, 4, [0, 319, 639, 959]),  # 4 * 10 + 1 bytes a batch: the last one ends the text
        (41, 4, [0]),
        (25, 2, [0, 1, 2, 4]),
    ],
)
def test_heldout_batches_are_fixed_inside_and_spread(
    nbytes: int, windows: int, starts: list[int]
) -> None:
    found = data.heldout_plan(nbytes, context=10, batch=4, batches=4)
    assert found == (windows, starts)
    assert starts[-1] + windows * 10 < nbytes
