"""What a kernel may be launched with: blocks, threads, and bytes of shared memory.

Checked before the driver is asked: its answer to any of them is INVALID_VALUE (1), which names
nothing, and which invalidates a capture that is open.
"""

from __future__ import annotations

import math
from typing import NoReturn

from lowgraph.driver import current, forked, module
from lowgraph.driver.launch import Size, three
from lowgraph.errors import ArgTypeError, ConfigError
from lowgraph.integers import integer

__all__ = ["Limits"]

# The same on every device that lowgraph supports.
_MOST_THREADS = 1024
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_THREADS_BY_AXIS = (1024, 1024, 64)
_WITHOUT_ASKING = 48 * 1024  # bytes of shared memory, static and dynamic, that need no attribute

# Dynamic bytes that the driver was asked for, by function: to ask for fewer would take them away
# from another Kernel of the same function. Modules, and so handles, live as long as the process.
_asked: dict[int, int] = {}
_lock = forked.lock()


class Limits:
    """Those of one function, by whose name it is told.

    threads: the most of a block, which its registers and __launch_bounds__ may make fewer than the
    device's. static: bytes of its own __shared__ variables.
    """

    def __init__(self, name: str, function: int) -> None:
        """Ask the driver for the two."""
        self._name = name
        self._function = function
        self.threads = min(_MOST_THREADS, module.most_threads(function))
        self.static = module.static_shared(function)

    def check(self, grid: Size, block: Size, shared: int) -> None:
        """Raise ArgTypeError for what cannot be launched; ask for the shared memory if need be."""
        blocks = self._sizes("grid", grid)
        if any(n > most for n, most in zip(blocks, _MOST_BLOCKS, strict=True)):
            self._refuse(
                "grid",
                f"at most {_MOST_BLOCKS} blocks",
                f"{grid!r}: put the longest axis first (x), or let a thread do several elements",
            )
        threads = self._sizes("block", block)
        count = math.prod(threads)
        if any(n > most for n, most in zip(threads, _MOST_THREADS_BY_AXIS, strict=True)) or (
            count > _MOST_THREADS
        ):
            self._refuse(
                "block",
                f"at most {_MOST_THREADS_BY_AXIS} and {_MOST_THREADS} threads in all",
                f"{block!r}: take smaller blocks and more of them",
            )
        if count > self.threads:
            self._refuse(
                "block",
                f"at most {self.threads} threads, which is what the kernel was compiled for",
                f"{block!r}, {count} threads: take smaller blocks, or raise its __launch_bounds__ "
                "(without them its registers are too many for such a block)",
            )
        self.allow_shared(shared)

    def allow_shared(self, nbytes: int) -> None:
        """See that launches with `nbytes` of dynamic shared memory are taken.

        Raises ArgTypeError where the device has less.
        """
        wanted = self._bytes(nbytes)
        if wanted + self.static <= _WITHOUT_ASKING or wanted <= _asked.get(self._function, 0):
            return
        device = current()
        most = device.most_shared - self.static
        if wanted > most:
            own = f", of which its __shared__ variables take {self.static}" if self.static else ""
            self._refuse(
                "shared",
                f"at most {max(most, 0)} bytes (a block on {device.spec} has {device.most_shared}"
                f"{own})",
                f"{wanted}: let a block work on a smaller tile",
            )
        with _lock:
            if wanted > _asked.get(self._function, 0):
                module.set_max_dynamic_shared(self._function, wanted)
                _asked[self._function] = wanted

    def _bytes(self, nbytes: int) -> int:
        try:
            return integer(nbytes, "shared", 0)
        except ConfigError:
            self._refuse("shared", "a number of bytes, at least 0", repr(nbytes))

    def _sizes(self, label: str, size: Size) -> tuple[int, int, int]:
        try:
            return three(label, size)
        except ConfigError as error:
            raise ArgTypeError(
                self._name,
                label,
                "one to three integers of at least 1",
                f"{size!r}: leave the launch out where there is nothing to do",
            ) from error

    def _refuse(self, argument: str, wanted: str, given: str) -> NoReturn:
        raise ArgTypeError(self._name, argument, wanted, given)
