"""The text to train on: read as bytes, split in two, measured by its bigrams.

Bytes are the tokens (vocabulary 256), so that any text serves and no tokenizer is needed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from lowgraph.errors import ConfigError
from lowgraph.memory import counted

__all__ = [
    "NPY_MAGIC",
    "Corpus",
    "bigram_cross_entropy",
    "heldout_plan",
    "is_folder",
    "read_bytes",
    "read_corpus",
]

Bytes = npt.NDArray[np.uint8]

NPY_MAGIC = b"\x93NUMPY"

# Not every distribution ships these parts, and two machines with one Python should read one text.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


@dataclass(frozen=True)
class Corpus:
    """A text and its split.

    Attributes
    ----------
    source: where it comes from, for people.
    files: number of files read; skipped: files of a folder left out because they hold NUL bytes.
    sha256: of the whole text, hexadecimal.
    train, heldout: the first nine tenths and the rest, uint8.
    """

    source: str
    files: int
    skipped: int
    sha256: str
    train: Bytes
    heldout: Bytes

    kind = "text"
    unit = "nats a byte"
    tokens = "tokens"
    terms = "tokens are bytes"
    baseline_name = "bigram"

    @property
    def nbytes(self) -> int:
        """Bytes of the whole text."""
        return len(self.train) + len(self.heldout)

    def describe(self) -> str:
        """One line: source, bytes, split, sha256."""
        left_out = f", {self.skipped} binary left out" if self.skipped else ""
        return (
            f"{self.source} ({counted(self.files, 'file')}{left_out}): {self.nbytes} bytes, "
            f"{len(self.train)} train + {len(self.heldout)} held out, sha256 {self.sha256}"
        )

    def fit(self, shape: Any) -> tuple[Corpus, Any]:
        """Text and shape as they are: bytes fit every model of text."""
        return self, shape

    def check(self, shape: Any, batch: int) -> None:
        """Refuse a text shorter than one batch, or whose held-out part is shorter than one window.

        A window is `shape.context` + 1 bytes: the targets are the tokens moved by one.
        """
        window = shape.context + 1
        if len(self.train) < batch * window:
            raise ConfigError(
                f"{self.source}: {len(self.train)} bytes to train on are shorter than one batch "
                f"({batch} windows of {window} bytes); give more text, or a smaller --batch or "
                "--accumulate, or a --preset of a shorter window if the model has one"
            )
        if len(self.heldout) < window:
            raise ConfigError(
                f"{self.source}: {len(self.heldout)} held-out bytes are shorter than one window "
                f"({window} bytes); give more text, or a --preset of a shorter window if the "
                "model has one"
            )

    def baseline(self) -> float:
        """Held-out loss of a bigram model, nats a byte."""
        return bigram_cross_entropy(self)


def read_corpus(path: Path | None) -> Corpus:
    """Read a file, a folder of text (all its files, sorted), or the standard library (None).

    Raises ConfigError when the path is missing, unreadable or holds no text.
    """
    if path is None:
        source, files, skip_binary = "Python standard library", _library_sources(), False
    else:
        many = is_folder(path)
        files = _text_files(path) if many else [path]
        source, skip_binary = str(path), many
    parts = [read_bytes(file) for file in files]
    if not skip_binary and parts[0].startswith(NPY_MAGIC):
        raise ConfigError(
            f"--data {source} is an NPY file, a series; give a text, or the --model of a series"
        )
    kept = [part for part in parts if not (skip_binary and b"\0" in part)]
    text = b"".join(kept)
    if not text:
        raise ConfigError(f"--data {source} holds no text")
    data = np.frombuffer(text, dtype=np.uint8)
    cut = len(data) * 9 // 10
    digest = hashlib.sha256(text).hexdigest()
    return Corpus(source, len(kept), len(parts) - len(kept), digest, data[:cut], data[cut:])


def heldout_plan(nbytes: int, context: int, batch: int, batches: int) -> tuple[int, list[int]]:
    """Fixed places to evaluate at: windows in a batch, and the first byte of each batch.

    A batch is neighbouring windows of `context` bytes; batches are evenly spaced over a text of
    `nbytes` and overlap when it is short. A text of fewer windows than `batch` gives what it has.
    """
    windows = min(batch, (nbytes - 1) // context)
    last = nbytes - 1 - windows * context
    starts = np.linspace(0, last, batches).astype(np.int64)
    return windows, [int(start) for start in np.unique(starts)]


def bigram_cross_entropy(corpus: Corpus) -> float:
    """Cross-entropy, in nats a byte, of a bigram model of the train part on the held-out part.

    p(b | a) = (count(a, b) + 1) / (count(a) + 256): add-one smoothing, so that pairs the train
    part lacks cost a finite amount. It is the bar that a model must pass to have used more than
    the last byte.
    """
    first = corpus.train[:-1].astype(np.int64)
    counts = np.bincount(first * 256 + corpus.train[1:], minlength=65536).reshape(256, 256) + 1
    cost = np.log(counts.sum(axis=1, keepdims=True)) - np.log(counts)
    return float(cost[corpus.heldout[:-1], corpus.heldout[1:]].mean())


def _library_sources() -> list[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(root.rglob("*.py"))
    return [file for file in files if not _LEFT_OUT & set(file.relative_to(root).parts)]


def is_folder(path: Path) -> bool:
    """True for a folder, False for a regular file; ConfigError for anything else."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise ConfigError(f"--data {path}: no such file or folder") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    # A pipe without a writer would hang the run, and /dev/zero never ends.
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise ConfigError(f"--data {path}: neither a regular file nor a folder")
    return stat.S_ISDIR(mode)


def _text_files(root: Path) -> list[Path]:
    """Regular files below a folder, sorted; hidden files and folders are left out.

    Raises ConfigError for a folder that cannot be listed: what is in it would be missing unsaid.
    """

    def refuse(error: OSError) -> NoReturn:
        raise _unreadable(error.filename, error) from error

    found: list[Path] = []
    for folder, names, files in os.walk(root, onerror=refuse):
        names[:] = [name for name in names if not name.startswith(".")]
        found += [Path(folder, file) for file in files if not file.startswith(".")]
    return sorted(file for file in found if file.is_file())


def read_bytes(file: Path) -> bytes:
    """A file's content; ConfigError, naming it, if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"--data {path}: {error.strerror or error}")
