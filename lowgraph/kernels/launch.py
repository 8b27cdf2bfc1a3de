"""Kernel: a compiled and loaded kernel that is launched by calling it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver

from lowgraph.driver import forked
from lowgraph.driver.launch import LaunchConfig, Size, launcher
from lowgraph.kernels.limits import Limits
from lowgraph.kernels.packing import ArgumentPack
from lowgraph.kernels.signature import Signature

Observer = Callable[["Kernel", "dict[str, Any]", LaunchConfig, tuple[Any, ...]], None]

# Called before each launch with the kernel, its argument values by name (addresses for pointers),
# where it will run, and the arguments as they were given; it may raise to refuse the launch. A
# capture's window sets it.
observer: Observer | None = None


class Kernel:
    """A kernel ready to launch.

    Attributes
    ----------
    name, signature: as declared in the source.
    handle: the function's handle.
    pack: the argument storage.
    """

    def __init__(self, signature: Signature, handle: int) -> None:
        """Prepare launches of the function `handle` with the declared `signature`."""
        self.signature = signature
        self.handle = handle
        self.name = signature.name
        self.pack = ArgumentPack(signature)
        self._function = driver.CUfunction(handle)
        self._config = LaunchConfig(0, 1, 1)
        self._where: tuple[int, Size, Size, int] | None = None  # what _config holds
        self._launch = launcher(self._config, self._function, self.pack.address)
        self._limits = Limits(self.name, handle)
        # The driver call lets other threads run while it reads configuration and storage.
        self._lock = forked.lock()

    def __call__(self, stream: int, grid: Size, block: Size, *args: Any, shared: int = 0) -> None:
        """Launch on `stream`: `grid` blocks of `block` threads, `shared` dynamic bytes a block.

        A pointer takes an address or an object with `.address`, whose `.dtype`, if it has one, must
        be the declared element type; a number takes a Python or NumPy number in range. The values
        are read before the call returns. Raises ArgTypeError naming kernel and argument, for sizes
        beyond what the kernel or the device takes too; DriverError from the launch.
        """
        values = self.pack.values(args)
        with self._lock:
            if not self._is_configured(stream, grid, block, shared):
                self._configure(stream, grid, block, shared)
            self.pack.store(values)
            told = observer  # looked at once: another thread's window may end meanwhile
            if told is not None:
                told(self, dict(zip(self.pack.names, values, strict=True)), self._config, args)
            self._launch()

    def allow_shared(self, nbytes: int) -> None:
        """Ask for launches with up to `nbytes` of dynamic shared memory, if above 48 KiB.

        A launch asks by itself; after this even the first one is a single driver call. Raises
        ArgTypeError where the device has less.
        """
        with self._lock:
            self._limits.allow_shared(nbytes)

    def _is_configured(self, *where: Any) -> bool:
        try:
            return self._where == where
        except ValueError:  # a NumPy number and a tuple compare to an array, which has no truth
            return False

    def _configure(self, stream: int, grid: Size, block: Size, shared: int) -> None:
        self._where = None  # stays so if what follows refuses
        self._limits.check(grid, block, shared)
        self._config.set(stream, grid, block, shared)
        self._where = (stream, grid, block, shared)

    def __repr__(self) -> str:
        """Return the signature."""
        return f"<Kernel {self.signature}>"
