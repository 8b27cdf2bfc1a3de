"""Whose code made a driver call, from the stack of the thread that makes it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from lowgraph.debug.doctor.findings import OTHERS, THROUGH_US
from lowgraph.driver.callers import is_machinery

__all__ = ["caller"]

# With the slash: a package lowgraph_more beside ours is somebody else's.
_HERE = f"{Path(__file__).parent}/"
_PACKAGE = f"{Path(__file__).parents[2]}/"
_LISTENER = f"{_PACKAGE}hostdev/watch.py"


def caller() -> tuple[str, str]:
    """The user's file:line, "" where the thread runs no Python; and THROUGH_US or OTHERS."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_listening(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "", OTHERS
    by = THROUGH_US if frame.f_code.co_filename.startswith(_PACKAGE) else OTHERS
    while frame is not None and is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return ("" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"), by


def _is_listening(name: str) -> bool:
    return name.startswith(_HERE) or name == _LISTENER
