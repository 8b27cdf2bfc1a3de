"""Fork: a process forked from one that has opened a device is refused, at once and by name.

CUDA does not survive a fork: the child has the parent's handles and none of its driver's threads,
and a lock that another thread of the parent held stays locked in it for good. So in the child the
gate, the pool and `open_device` raise ForkedProcess, and every lock of ours is a new one. A process
that forks before it opens a device, and one that is started anew (`subprocess`, the start methods
spawn and forkserver of `multiprocessing`), has nothing to fear.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from lowgraph.driver import poison
from lowgraph.errors import ForkedProcess

__all__ = ["check", "lock", "rlock", "watch"]

_SHUT = -1  # in `poison.shut`, beside 0 and the numbers of threads

_spec = ""
_pid = 0
_parent = 0  # of the child that is refused, 0 in any other process
_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock that is free in a forked child."""
    made = threading.Lock()
    _locks.add(made)
    return made


def rlock() -> Any:
    """The same, re-entrant."""
    made = threading.RLock()
    _locks.add(made)
    return made


def watch(spec: str) -> None:
    """The process has opened a device: its forks are refused from now on."""
    global _spec, _pid
    if not _pid:
        os.register_at_fork(after_in_child=_in_child)
    _spec, _pid = spec, os.getpid()


def check() -> None:
    """Raise ForkedProcess in a child of a process that had opened a device by then."""
    if _parent:
        raise ForkedProcess(
            f"process {os.getpid()} was forked from process {_parent} after that had opened the "
            f"device {_spec}: CUDA does not survive a fork. Start worker processes before "
            "open_device(), or with multiprocessing's start method 'spawn' or 'forkserver', and "
            "open the device in them"
        )


def _in_child() -> None:
    global _parent
    _parent = _pid  # in a fork of a fork too: of the process that has the device
    poison.shut.add(_SHUT)
    for each in list(_locks):
        each._at_fork_reinit()  # as the standard library does with its own
