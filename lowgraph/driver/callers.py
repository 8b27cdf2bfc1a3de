"""Where the user's own code asked: the nearest frame outside lowgraph's machinery, as file:line."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import FrameType

__all__ = ["from_folder", "is_machinery", "raised_at", "requester", "working_folder"]

_PACKAGE = Path(__file__).parents[1]  # as code objects name it: symbolic links stay
# Frames of these are ours; the first frame outside them is where the user's code asked.
_MACHINERY = tuple(
    f"{_PACKAGE}/{name}"
    for name in ("driver/", "kernels/", "memory/", "capture/", "hostdev/", "ops/", "blas/",
                 "debug/", "interop/", "counters.py", "stages.py")
)  # fmt: skip
_PLUMBING = (
    "/contextlib.py", "/functools.py", "/importlib/__init__.py", "<frozen importlib._bootstrap>"
)  # fmt: skip
# The user's line is what called them.
_LIBRARIES = ("-packages/cupy/", "-packages/cupyx/", "-packages/cupy_backends/")
# Tracebacks name frames of their compiled modules by the sources that these were built from.
_COMPILED = re.compile(r"(cupy|cupyx|cupy_backends)/.*\.p(yx|xi|xd)")

# Verdicts by file name: a journal asks for the caller at every call.
_ours: dict[str, bool] = {}


def is_machinery(name: str) -> bool:
    """Whether a source file, as code objects name it, is lowgraph's machinery or plumbing."""
    known = _ours.get(name)
    if known is None:
        ours = name.startswith(_MACHINERY) or name.endswith(_PLUMBING)
        theirs = any(part in name for part in _LIBRARIES) or _COMPILED.fullmatch(name)
        known = _ours[name] = ours or bool(theirs)
    return known


def requester(depth: int = 1) -> str:
    """file:line of the nearest frame outside lowgraph's machinery: where the user's code asked."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and frame.f_back is not None and is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "<unknown>"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def raised_at(error: BaseException) -> str | None:
    """file:line of the user's frame that an exception came through last; None if none did."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        if not is_machinery(trace.tb_frame.f_code.co_filename):
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def working_folder() -> str:
    """The process's; "" where it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def from_folder(folder: str, text: str) -> str:
    """The text with the paths below a folder told from there; "" is no folder."""
    if not folder.strip("/"):
        return text
    # Not within another path: /tmp/ is no part of /var/tmp/.
    return re.sub(rf"(?<![\w./~-]){re.escape(folder)}/", "", text)
