"""A Hugging Face folder as files: config.json and model.safetensors, read and written whole."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize

from lowgraph.errors import ConfigError

__all__ = ["CONFIG_NAME", "WEIGHTS_NAME", "check_target", "read_config", "read_tensors",
           "write_folder"]  # fmt: skip

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
Tensors = dict[str, npt.NDArray[np.float32]]

_deserialize: Any = deserialize  # untyped in some versions, and typed in others

# What a folder may have in place of the one file that is read, and what to do about it.
_RESAVE = "load it in transformers and save it with save_pretrained(DIR{more})"
_OTHERS = {
    "model.safetensors.index.json": (
        "is sharded",
        _RESAVE.format(more=', max_shard_size="100GB"') + ", which makes one file",
    ),
    "pytorch_model.bin.index.json": (
        "holds sharded pickles, which can run code",
        _RESAVE.format(more=', max_shard_size="100GB"'),
    ),
    "pytorch_model.bin": ("holds a pickle, which can run code", _RESAVE.format(more="")),
}


def read_config(folder: Path) -> dict[str, Any]:
    """config.json as an object. Raises ConfigError when it is missing or no JSON object."""
    file = folder / CONFIG_NAME
    if not os.path.isdir(folder):
        raise ConfigError(
            f"{folder}: no such folder; give the one that save_pretrained wrote, with "
            f"{CONFIG_NAME} and {WEIGHTS_NAME}"
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{folder}: there is no {CONFIG_NAME} in it, which says the model's shape; give the "
            "folder that save_pretrained wrote"
        ) from error
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # the latter of brackets without end
        raise ConfigError(f"{file}: not JSON: {error}; copy the checkpoint again") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{file}: not a JSON object; copy the checkpoint again")
    return config


def read_tensors(folder: Path) -> tuple[Tensors, set[str]]:
    """Tensors by name, widened to float32, and the element types that the file has.

    float32, float16 and bfloat16 are read, all of which float32 holds exactly.
    Raises ConfigError for a folder without the file, a damaged file, or another element type.
    """
    file = folder / WEIGHTS_NAME
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(_what_instead(folder)) from error
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    try:
        listed = _deserialize(content)
    except SafetensorError as error:
        raise ConfigError(
            f"{file}: damaged, or no safetensors file: {error}; copy the checkpoint again"
        ) from error
    found = {name: _widened(file, name, view) for name, view in listed}
    return found, {view["dtype"] for _, view in listed}


def check_target(folder: Path) -> None:
    """Raise ConfigError when `write_folder` could not write there."""
    target = Path(os.path.realpath(folder))
    if os.path.lexists(target) and not os.path.isdir(target):
        raise ConfigError(f"{folder}: a file is there; give a folder that is not there yet")
    if not os.path.isdir(target.parent):
        raise ConfigError(f"{folder}: {target.parent} is not there; make it, or give another path")
    try:
        if os.path.isdir(target) and os.listdir(target):
            raise ConfigError(
                f"{folder}: the folder is not empty; give one that is not there yet, or empty it"
            )
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}") from error
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{folder}: {target.parent} may not be written; give another path")


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder with these files; it appears with all of them, or not at all.

    It is written beside its place under a hidden name, flushed, and renamed; what killed writers
    left of such is removed. Raises ConfigError when the place is taken (`check_target`), or the
    system refuses.
    """
    check_target(folder)
    target = Path(os.path.realpath(folder))
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        _remove_leftovers(target)
        os.mkdir(beside)
        try:
            with _locked(beside):
                for name, content in files.items():
                    _write_flushed(beside / name, content)
                _flush(beside)
                os.rename(beside, target)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        _flush(target.parent)
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, by which a living writer is told. BlockingIOError if another does."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _remove_leftovers(target: Path) -> None:
    """Remove what killed writers of `target` left beside it, and nothing else that looks so."""
    ours = re.compile(re.escape(f".{target.name}.") + "[0-9a-f]{8}")
    for name in filter(ours.fullmatch, os.listdir(target.parent)):
        left = target.parent / name
        if os.path.isdir(left) and set(os.listdir(left)) <= {CONFIG_NAME, WEIGHTS_NAME}:
            with suppress(BlockingIOError), _locked(left):
                shutil.rmtree(left)


def _what_instead(folder: Path) -> str:
    for name, (state, remedy) in _OTHERS.items():
        if os.path.isfile(folder / name):
            return f"{folder}: {state} ({name}); {remedy}"
    return f"{folder}: there is no {WEIGHTS_NAME} in it; give the folder that save_pretrained wrote"


def _widened(file: Path, name: str, view: dict[str, Any]) -> npt.NDArray[np.float32]:
    kind, data = view["dtype"], view["data"]
    if kind == "BF16":  # the upper half of a float32
        bits = np.frombuffer(data, np.uint16).astype(np.uint32) << np.uint32(16)
        values = bits.view(np.float32)
    elif kind in ("F32", "F16"):
        stored = np.frombuffer(data, np.float32 if kind == "F32" else np.float16)
        values = stored.astype(np.float32)
    else:
        raise ConfigError(
            f"{file}: {name} holds {kind}; save the model as float32 first: in transformers, "
            "model.float().save_pretrained(DIR)"
        )
    return values.reshape(view["shape"])


def _write_flushed(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
