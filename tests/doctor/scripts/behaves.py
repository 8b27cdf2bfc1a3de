"""What a script may do besides: raise, exit, read, start processes. argv[1] says which."""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
import tempfile


def doubled(number: int) -> int:
    """What a child computes."""
    return 2 * number


def raises() -> None:
    """An exception of its own."""
    print("before")
    raise ValueError("of its own")


def in_processes() -> None:
    """Children that import this script anew."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(doubled, [1, 2]))


def forks() -> None:
    """A child that leaves by the end of the script."""
    child = os.fork()
    if child == 0:
        sys.exit(5)
    print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def leaves() -> None:
    """Another working folder, which is gone at the end."""
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


if __name__ == "__main__":
    acts = {
        "raises": raises,
        "exits": lambda: sys.exit(3),
        "says": lambda: sys.exit("no luck"),
        "reads": lambda: print("read", input()),
        "processes": in_processes,
        "forks": forks,
        "leaves": leaves,
        "closes": sys.stdout.close,
        "replaces": lambda: setattr(sys, "stdout", io.StringIO()),
        "tells": lambda: print(__name__, __file__, sys.argv[1:]),
        "interrupted": lambda: os.kill(os.getpid(), 2),
    }
    acts[sys.argv[1]]()
