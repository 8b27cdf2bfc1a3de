"""What another thread does at a chosen moment: between two instructions of a function.

A race that needs an unlucky switch of threads happens here each time, and in every place.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from lowgraph.driver import captures


class _At:
    """Runs `act` once, before instruction `number` of a code that this thread runs in the block.

    came: whether the code had so many.
    """

    def __init__(self, code: CodeType, number: int, act: Callable[[], object]) -> None:
        self.came = False
        self._code, self._left, self._act = code, number, act
        self._before: Any = None

    def __enter__(self) -> _At:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *raised: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code is not self._code:
            return None
        frame.f_trace_opcodes = True
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "opcode" and not self.came:
            self.came = self._left == 0
            self._left -= 1
            if self.came:
                self._act()
        return self._stepped


def between_instructions(function: Callable[..., Any], act: Callable[[], object]) -> Iterator[_At]:
    """For each instruction of `function` a block in which `act` comes before it.

    The function is to be called in each block, as `with at: ...`, and has at least ten of them.
    """
    code = inspect.unwrap(function).__code__  # type: ignore[attr-defined]
    number = 0
    while True:
        at = _At(code, number, act)
        yield at
        if not at.came:
            break
        number += 1
    assert number > 10, f"{code.co_name} was not interrupted: was it called?"


def in_passing(act: Callable[[], object], threads: list[threading.Thread]) -> Callable[[], None]:
    """An act for another thread, which is waited for a little: it may have to wait for this one."""

    def start() -> None:
        threads.append(threading.Thread(target=act))
        threads[-1].start()
        threads[-1].join(0.05)

    return start


@contextmanager
def lock_asked_for() -> Iterator[threading.Event]:
    """Set once another thread asks for the capture lock: it has come so far, and waits, or will.

    A test that slept instead would pass on a busy machine before the thread had begun.
    """
    lock, mine, asked = captures.LOCK, threading.get_ident(), threading.Event()
    acquire, attempt = lock.acquire, lock.attempt

    def noted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if threading.get_ident() != mine:
                asked.set()
            return real(*args)

        return call

    lock.acquire, lock.attempt = noted(acquire), noted(attempt)  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        del lock.acquire, lock.attempt  # the class's again
