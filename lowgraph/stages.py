"""Stages: the parts of a step by name, so that what is said of a launch says which part it is in.

    with lowgraph.stage("backward"):
        with lowgraph.stage("attention"):   # "backward/attention"
            ...

Stages nest, and belong to the thread that enters them. A capture's journal asks for the present one
(`current`) at each launch it writes down; whoever wants to be told when stages begin and end, such
as a profiler's ranges, is a `Listener` (`listening`). A replay runs no Python of the step, so
stages cost nothing there.

An *arm* is a stage that a measurement can run the step without:

    with lowgraph.arm("ema") as on:
        if on:
            ...

It is on but inside `without("ema")`, whose block runs the step, or records it, with that part left
out. `nvtx_ranges` shows stages, arms among them, in NVIDIA's profilers.

While nothing listens, a stage that is named where it is entered takes 0.7 us, one that is made
before 0.45 us (benchmarks/stage_cost.py, CPython 3.11 on a shared server core): a sixth, or a
tenth, of one launch from Python.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

from lowgraph.errors import ConfigError

__all__ = [
    "Listener",
    "arm",
    "current",
    "inclusive",
    "listening",
    "nvtx_ranges",
    "restored",
    "stage",
    "within",
    "without",
]


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
_without: tuple[tuple[frozenset[str], set[str]], ...] = ()  # one of each open `without`
_off: frozenset[str] = frozenset()  # the names of all of them


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


class arm:  # used as a statement, as in `with arm("ema") as on`
    """A stage that can be left out: the block is told whether it is on, and acts by it.

    name: as of a stage. Raises ConfigError for another. What it leaves out has to be something that
    the rest of the step can do without: memory that it takes is still to be taken by who reads it.
    """

    __slots__ = ("_name", "_stage")

    def __init__(self, name: str) -> None:
        self._stage = stage(name)
        self._name = name

    def __enter__(self) -> bool:
        """Enter the stage; returns whether the arm is on."""
        self._stage.__enter__()
        for _, asked in _without:
            asked.add(self._name)
        return self._name not in _off

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the stage."""
        self._stage.__exit__(kind, error, trace)


@contextmanager
def without(*names: str) -> Iterator[set[str]]:
    """Turn arms off, in every thread, until the block ends; blocks nest, or overlap in threads.

    Yields the names of the arms that were entered in the block, on or off: empty at first.
    """
    global _off, _without
    asked: set[str] = set()
    block = frozenset(names), asked
    with _lock:
        _without = (*_without, block)
        _off |= block[0]
    try:
        yield asked
    finally:
        with _lock:  # what others turned off meanwhile stays off, and nothing else
            _without = tuple(each for each in _without if each is not block)
            _off = frozenset[str]().union(*(off for off, _ in _without))


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


class _Ranges:
    """Tells NVTX of stages, by the last part of their names: its ranges nest by themselves."""

    def __init__(self, nvtx: Any) -> None:
        self._nvtx = nvtx

    def begin(self, path: str) -> None:
        self._nvtx.push_range(path.rpartition("/")[2])

    def end(self, path: str) -> None:
        self._nvtx.pop_range()


@contextmanager
def nvtx_ranges() -> Iterator[None]:
    """Make each stage that is entered in the block an NVTX range, for NVIDIA's profilers.

    They show when a step was enqueued, or recorded; a replay enters no stage. Raises ConfigError
    without the package nvtx.
    """
    try:
        import nvtx
    except ImportError as error:
        raise ConfigError(
            "NVTX ranges need the package nvtx; install it with: pip install 'lowgraph[nvtx]'"
        ) from error
    with listening(_Ranges(nvtx)):
        yield


def inclusive(own: Mapping[str, float]) -> dict[str, float]:
    """Add to what each stage has by itself what the stages inside of it have.

    own: figures by full name, "" outside of any stage, which gets nothing added. Stages that only
    hold others are in the result too, before them.
    """
    sums: dict[str, float] = {}
    for path, value in own.items():
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            outer = "/".join(parts[:depth])
            sums[outer] = sums.get(outer, 0) + value
    return sums
