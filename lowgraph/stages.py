"""Stages: the parts of a step by name, so that what is said of a launch says which part it is in.

    with lowgraph.stage("backward"):
        with lowgraph.stage("attention"):   # "backward/attention"
            ...

Stages nest, and belong to the thread that enters them. A capture's journal asks for the present one
(`current`) at each launch it writes down; whoever wants to be told when stages begin and end, such
as a profiler's ranges, is a `Listener` (`listening`). A replay runs no Python of the step, so
stages cost nothing there.

While nothing listens, a stage that is named where it is entered takes 0.7 us, one that is made
before 0.45 us (benchmarks/stage_cost.py, CPython 3.11 on a shared server core): a sixth, or a
tenth, of one launch from Python.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from lowgraph.errors import ConfigError

__all__ = ["Listener", "current", "listening", "restored", "stage", "within"]


class Listener(Protocol):
    """What is told of stages, in the thread that enters and leaves them."""

    def begin(self, path: str) -> None:
        """The stage was entered; `path` is its full name."""

    def end(self, path: str) -> None:
        """The stage is about to be left, perhaps by an exception."""


class _Here(threading.local):
    def __init__(self) -> None:
        self.paths = [""]  # of the stages that this thread is in, outermost first, below no stage


_here = _Here()
_lock = threading.Lock()  # of who listens
_listeners: tuple[Listener, ...] = ()


class stage:  # used as a statement, as in `with stage("forward")`
    """`with stage(name):` names what the block does. It may be made once and entered often.

    name: any text without "/". Raises ConfigError for another.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name or "/" in name:
            raise ConfigError(
                f"stage {name!r}: a name is text without '/'; for 'a/b' open stage('a'), and in it "
                "stage('b')"
            )
        self._name = name

    def __enter__(self) -> None:
        """Enter it in the calling thread."""
        paths = _here.paths
        outer = paths[-1]
        path = f"{outer}/{self._name}" if outer else self._name
        for listener in _listeners:
            listener.begin(path)
        paths.append(path)  # last: a listener that raises leaves the stage as it was

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave it."""
        path = _here.paths.pop()
        for listener in reversed(_listeners):
            listener.end(path)


def current() -> str:
    """The calling thread's stage with those around it, "backward/attention"; "" outside of any."""
    return _here.paths[-1]


def within(path: str) -> str:
    """A stage as the end of a clause: " in stage 'backward'", or "" for none."""
    return f" in stage {path!r}" if path else ""


@contextmanager
def restored() -> Iterator[None]:
    """Leave the block in the stage that it was entered in: an interrupt may miss a stage's end."""
    paths = _here.paths
    depth = len(paths)
    try:
        yield
    finally:
        del paths[depth:]


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` of the stages of every thread until the block ends, beside those before."""
    global _listeners
    with _lock:
        _listeners = (*_listeners, listener)
    try:
        yield
    finally:
        with _lock:
            _listeners = tuple(each for each in _listeners if each is not listener)
