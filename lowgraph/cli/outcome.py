"""How a command ends: files that it writes, its exit code, one line for what lowgraph raised."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

from lowgraph.early import INTERRUPTED
from lowgraph.errors import BuildError, ConfigError, DeviceUnavailable, LowgraphError

__all__ = ["BAD_INPUT", "FAILED", "INTERRUPTED", "NOBODY_READS", "exit_code", "write_text"]

FAILED = 1
BAD_INPUT = 2
NOBODY_READS = 141  # what a shell reports for a program that SIGPIPE ended

# What the user can put right: flags and files, the device asked for, the compiler, the disk.
_USER_CAN_MEND = (ConfigError, DeviceUnavailable, BuildError)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def exit_code(work: Callable[[], None]) -> int:
    """Run a command: 0, or 2 for bad input, 1 for another error of ours, 130 when interrupted.

    141, and no word, when nobody reads its output any more (`| head`). An exception that is not
    lowgraph's passes: it is a defect, and its traceback is wanted.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # text and paths may hold any character
    code = _ended(work)
    error = _fault_of_stdout()
    if isinstance(error, BrokenPipeError):
        return code or NOBODY_READS
    return code if code or error is None else _say(_of_stdout(error), BAD_INPUT)


def _ended(work: Callable[[], None]) -> int:
    try:
        work()
    except _USER_CAN_MEND as error:
        return _say(error, BAD_INPUT)
    except LowgraphError as error:
        return _say(error, FAILED)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return NOBODY_READS
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        return _say(_of_stdout(error), BAD_INPUT)  # writers of files say which file it was
    return 0


def _fault_of_stdout() -> OSError | None:
    """What keeps the rest of the output from being written; None if nothing does."""
    if sys.stdout is None or sys.stdout.closed:
        return None
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python flushes stdout once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


def _of_stdout(error: OSError) -> ConfigError:
    return ConfigError(f"standard output: {error.strerror or error}")


def write_text(flag: str, path: Path, text: str) -> None:
    """Write what a flag asked for, whole or not at all, and say so. Raises ConfigError."""
    from lowgraph.train.files import replace_file

    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{flag} {path}: {error.strerror or error}") from error
    print(f"wrote {path}")


def _say(error: LowgraphError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
