"""How a command ends: its exit code, and one line on stderr for what lowgraph raised."""

from __future__ import annotations

import sys
from collections.abc import Callable

from lowgraph.errors import BuildError, ConfigError, DeviceUnavailable, LowgraphError

__all__ = ["BAD_INPUT", "FAILED", "INTERRUPTED", "exit_code"]

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

# What the user can put right: flags and files, the device asked for, the compiler, the disk.
_USER_CAN_MEND = (ConfigError, DeviceUnavailable, BuildError)


def exit_code(work: Callable[[], None]) -> int:
    """Run a command: 0, or 2 for bad input, 1 for another error of ours, 130 when interrupted.

    An exception that is not lowgraph's passes: it is a defect, and its traceback is wanted.
    """
    try:
        work()
    except _USER_CAN_MEND as error:
        return _say(error, BAD_INPUT)
    except LowgraphError as error:
        return _say(error, FAILED)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def _say(error: LowgraphError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
