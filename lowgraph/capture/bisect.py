"""Bisecting: the capture's status is asked after every op: the first that broke it is known.

    with bisecting() as breaks:
        step(); step()
    print(breaks[0])            # "'step': broken at train.py:12 (stage 'sort') by ..."

An op is a driver call, a launch, a call of a library, a stage that begins or ends, and, with
`lines`, every line of Python that the window runs outside of lowgraph and of the standard library:
so a call that does not come through lowgraph, of a C library or of somebody else's bindings, is
found at its own line.
A driver call that answers 901 was not the one: what broke the capture lies before it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from lowgraph import stages
from lowgraph.driver import codes, gate
from lowgraph.driver.callers import is_machinery, requester
from lowgraph.driver.stream import capture_status_unheard
from lowgraph.stages import within

__all__ = ["Bisector", "Break", "bisecting", "open_bisector"]

_INVALIDATED = 901
_STANDARD = f"{Path(threading.__file__).parent}/"
_TRACED = ("line", "return", "exception")


@dataclass(frozen=True)
class Break:
    """Where a capture was broken. label: of the capture.

    op: what did it, "" where it is code that did not come through lowgraph. code: its answer, 0 if
    not known. where: file:line, stage: in which. after: the last op through lowgraph that had left
    the capture whole, "" if there was none. exact: False where only the two ops around it are
    known.
    """

    label: str
    op: str
    code: int
    where: str
    stage: str
    after: str
    exact: bool

    def __str__(self) -> str:
        """One line."""
        whole = f"; whole until then, last after {self.after}" if self.after else ""
        return f"{self.label!r}: {self.told()}{whole}"

    def told(self) -> str:
        """What broke it, and where."""
        if self.op:
            answer = f", which answered {self.code} {codes.name_of(self.code)}" if self.code else ""
            what = f"by {self.op}{answer}{'' if self.exact else ', or by code before it'}"
        elif self.exact:
            what = "by code that does not come through lowgraph"
        else:
            what = "or before, by code that does not come through lowgraph"
        return f"broken at {self.where}{within(self.stage)} {what}"


class Bisector:
    """Asks after each op of one window's thread; `found` is the break, or None.

    lines: Python lines too. They are traced only where nobody else traces (a debugger, coverage):
    `lines_traced` says whether they were.
    """

    def __init__(self, label: str, stream: int, lines: bool = True) -> None:
        self.label = label
        self.stream = stream
        self.found: Break | None = None
        self.asked = 0
        self.lines_traced = lines and sys.gettrace() is None
        self._thread = threading.get_ident()
        self._line = ""
        self._after = ""
        self._running = False
        self._busy = False
        self._stages = ExitStack()

    def start(self) -> None:
        """Ask from now on: the capture has begun."""
        self._running = True
        self._stages.enter_context(stages.listening(self))
        if self.lines_traced:
            self._trace(sys._getframe(1))

    def stop(self) -> None:
        """Ask once more, and then no more: the capture is about to end."""
        self._at_boundary(stages.current())
        self._running = False
        self._stages.close()
        if self.lines_traced and sys.gettrace() == self._enter:
            sys.settrace(None)

    # ---- what is asked after ----

    def after_op(self, op: str, code: int = 0) -> None:
        """A driver call of the window is over, or a library's: its own answer is not known (-1)."""
        if not self._asks():
            return
        self._busy = True  # Python that runs in here is traced too
        try:
            self._judge(op, code)
        finally:
            self._busy = False

    def _judge(self, op: str, code: int) -> None:
        if self._is_broken():
            did_it = code not in (0, _INVALIDATED)
            where = requester() if did_it else self._line or requester()
            exact = did_it and (code > 0 or self.lines_traced)
            self._find(op if did_it else "", max(code, 0) if did_it else 0, where, exact)
        elif code <= 0:
            self._after = f"{op} at {requester()}"

    def begin(self, path: str) -> None:
        """A stage begins."""
        self._at_boundary(stages.current())

    def end(self, path: str) -> None:
        """A stage is about to end."""
        self._at_boundary(path)

    def _at_boundary(self, stage: str) -> None:
        if self._asks() and self._is_broken():
            self._find("", 0, self._line or requester(), False, stage)

    # ---- lines ----

    def _trace(self, frame: FrameType) -> None:
        sys.settrace(self._enter)
        outer = _outside(frame)
        if outer is not None:  # a window's own block is a frame that has begun
            outer.f_trace = self._step

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        name, function = frame.f_code.co_filename, frame.f_code.co_name
        made = name == "<string>" and function.startswith("__")  # as a dataclass's methods are
        return self._step if _is_traced(name) and not made else None

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        """A line is about to run, or a function to return: what ran until here is over."""
        if not self._asks() or event not in _TRACED:
            return self._step if self._running else None
        if self._is_broken():
            if _in_gate(frame):  # the call's own end will tell more
                return self._step
            self._find("", 0, self._line or _place(frame), bool(self._line))
            return None
        now = _outside(frame.f_back) if event == "return" else frame
        self._line = "" if now is None else _place(now)
        return self._step

    # ---- inside ----

    def _asks(self) -> bool:
        mine = threading.get_ident() == self._thread
        return self._running and mine and not self._busy and self.found is None

    def _is_broken(self) -> bool:
        self.asked += 1
        return capture_status_unheard(self.stream) in ("invalidated", "none")  # none: it was ended

    def _find(self, op: str, code: int, where: str, exact: bool, stage: str | None = None) -> None:
        exact = exact or bool(self._line and where == self._line)
        stage = stages.current() if stage is None else stage
        self.found = Break(self.label, op, code, where, stage, self._after, exact)
        if _asked is not None:
            _asked.breaks.append(self.found)


def _outside(frame: FrameType | None) -> FrameType | None:
    """The nearest frame outside of lowgraph and of the standard library."""
    while frame is not None and not _is_traced(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _in_gate(frame: FrameType | None) -> bool:
    """Whether a driver call through lowgraph is not over yet: the bindings run Python too."""
    while frame is not None and frame.f_code.co_filename != gate.__file__:
        frame = frame.f_back
    return frame is not None


@lru_cache(maxsize=4096)
def _is_traced(name: str) -> bool:
    """Left out are lowgraph and, as it breaks no capture, the standard library."""
    if is_machinery(name) or name.startswith("<frozen "):
        return False
    return not name.startswith(_STANDARD) or "-packages" in name


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass
class _Asked:
    lines: bool
    breaks: list[Break]


_asked: _Asked | None = None


@contextmanager
def bisecting(lines: bool = True) -> Iterator[list[Break]]:
    """Bisect every window that opens in the block; yields the breaks, in the order they were met.

    A refusal says so too (`CaptureFailed.broken`). It costs one cuStreamIsCapturing an op and a
    line, in the recorded pass alone: docs/doctor.md has what that was measured at.
    """
    global _asked
    before = _asked
    _asked = mine = _Asked(lines, [])
    try:
        yield mine.breaks
    finally:
        _asked = before


def open_bisector(label: str, stream: int) -> Bisector | None:
    """The bisector of a window that has begun, None unless `bisecting()` is on."""
    return None if _asked is None else Bisector(label, stream, _asked.lines)
