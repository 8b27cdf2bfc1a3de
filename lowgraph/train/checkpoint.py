"""A folder of checkpoints: the newest, and the one before it.

A checkpoint is written beside them under a temporary name and flushed; then the newest is renamed
to the one before, the new one to the newest, and the folder is flushed. Whenever the writer is
killed, one of the two is there and whole: `find` takes the one before when there is no newest.
"""

from __future__ import annotations

import os
from pathlib import Path

from lowgraph.errors import ConfigError
from lowgraph.memory import counted
from lowgraph.train.checkpoint_format import Checkpoint, Cursor, decode, encode
from lowgraph.train.files import remove_leftovers, replace_file

__all__ = ["FILE_NAME", "PREVIOUS_NAME", "Checkpoint", "Cursor", "find", "prepare", "read", "write"]

FILE_NAME = "checkpoint.safetensors"
PREVIOUS_NAME = "previous.safetensors"
_DAMAGED_NAME = "damaged.safetensors"
_OTHER = {FILE_NAME: PREVIOUS_NAME, PREVIOUS_NAME: FILE_NAME}


def write(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write into a folder, made if needed; returns the file. Raises ConfigError if it cannot."""
    target = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(target, encode(checkpoint), keep_as=folder / PREVIOUS_NAME)
    except OSError as error:
        raise ConfigError(f"--checkpoint {target}: {error.strerror or error}") from error
    return target


def prepare(folder: Path) -> list[str]:
    """Make a folder ready for a run's first write; returns lines that say what was done.

    What killed writers left is removed. A newest that is not readable is moved aside: the first
    write would make it the one before, in the place of one that may be whole.
    Raises ConfigError if it cannot.
    """
    newest, aside = folder / FILE_NAME, folder / _DAMAGED_NAME
    done = []
    try:
        if not os.path.isdir(folder):
            return []
        done += [f"removed {name}, left by a killed run" for name in remove_leftovers(newest)]
        if os.path.isfile(newest) and not _is_whole(newest):
            os.replace(newest, aside)
            done.append(f"{FILE_NAME} is not readable; moved to {_DAMAGED_NAME}")
    except OSError as error:
        raise ConfigError(f"--checkpoint {folder}: {error.strerror or error}") from error
    return done


def find(path: Path) -> Path:
    """The file to resume from: `path` itself, or of a folder the newest that is there.

    Raises ConfigError when there is none.
    """
    # Where a folder may not be entered, Path.is_file raises.
    for file in (path, path / FILE_NAME, path / PREVIOUS_NAME):
        if os.path.isfile(file):
            return file
    lacks = f"there is no {FILE_NAME} in it" if os.path.exists(path) else "no such file or folder"
    raise ConfigError(f"--resume {path}: {lacks}")


def read(path: Path, *, resuming: bool = True) -> Checkpoint:
    """Read a file, or a folder's newest checkpoint.

    A damaged one is a ConfigError that names what else there is: a kill does not damage one, so
    that something else went wrong, and going back by some steps is for people to decide. resuming:
    a run is to go on from it, so that the remedy is one of a run.
    """
    file = find(path)
    try:
        return decode(file)
    except ConfigError as error:
        raise ConfigError(f"{error}; {_what_else(file, resuming)}") from error


def _what_else(damaged: Path, resuming: bool) -> str:
    again = "begin again without --resume" if resuming else "name another checkpoint"
    other = damaged.with_name(_OTHER.get(damaged.name, FILE_NAME))
    if not os.path.isfile(other):
        return f"there is no {other.name} beside it; {again}"
    try:
        step = decode(other).step
    except ConfigError:
        return f"{other} cannot be read either; {again}"
    take = f"go on from it with --resume {other}" if resuming else f"name {other}"
    return f"{other} is whole, with {counted(step, 'step')} done: {take}"


def _is_whole(file: Path) -> bool:
    try:
        decode(file)
    except ConfigError:
        return False
    return True
