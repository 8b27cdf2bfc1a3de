"""The kernel library: every source compiled once, every module loaded once a context.

A module stays loaded for the life of the process: graphs and library users may hold its functions,
and there is no moment at which nobody does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lowgraph.driver import Device, captures, forked, module
from lowgraph.driver.callers import requester
from lowgraph.errors import KernelSourceError, ModuleLoadDuringCapture
from lowgraph.hostdev.cachedir import cache_dir, make_private
from lowgraph.kernels import signature, source
from lowgraph.kernels.cache import ImageCache
from lowgraph.kernels.launch import Kernel

Defines = tuple[tuple[str, str], ...]


@dataclass
class LibraryStats:
    """What a library has done. Numbers of modules; compile_seconds is the time spent compiling."""

    compiles: int = 0
    cache_hits: int = 0
    loads: int = 0
    compile_seconds: float = 0.0


class _Loaded:
    """Modules of this process, by context, source and defines; shared by all libraries."""

    def __init__(self) -> None:
        self.lock = forked.rlock()
        self.modules: dict[tuple[int, Path, Defines], int] = {}
        self.sealed: str | None = None


_loaded = _Loaded()


class Library:
    """Kernels of one device, by source file, name and defines.

    `stats` counts what this library did; modules, and `sealed`, are shared with the other libraries
    of the process.
    """

    def __init__(self, device: Device, say: Callable[[str], None] | None = None) -> None:
        """Make an empty library for an open device; nothing is compiled yet.

        say: told once, in a line, before the first compile, which takes seconds; a cache that has
        every kernel is silent. None, the default, says nothing.
        Raises BuildError when the build cache cannot be made or is not this user's alone.
        """
        self.device = device
        self.stats = LibraryStats()
        self._say = say
        self._cache = ImageCache(make_private(cache_dir() / "kernels"))
        self._kernels: dict[tuple[Path, str, Defines], Kernel] = {}

    @property
    def sealed(self) -> str | None:
        """Why nothing may be compiled or loaded now, None if it may. A capture's window sets it."""
        return _loaded.sealed

    @sealed.setter
    def sealed(self, reason: str | None) -> None:
        _loaded.sealed = reason

    def kernel(
        self, file: str | Path, name: str, defines: Mapping[str, str | int] | None = None
    ) -> Kernel:
        """Return kernel `name` of a source file, compiling and loading it if that is still to do.

        file: of lowgraph's own kernels the file's name, as a str; of a user's a Path, or a str with
        a folder in it, relative to the current folder. defines: macros for the compiler; each set
        of them is a module of its own. The same arguments give the same object.
        Raises KernelSourceError, BuildError, DriverError, and ModuleLoadDuringCapture while sealed.
        """
        path = source.find(file)
        macros = tuple(sorted((key, str(value)) for key, value in (defines or {}).items()))
        with _loaded.lock:
            kernel = self._kernels.get((path, name, macros))
            if kernel is None:
                declared = signature.read_signature(path, name, dict(macros))
                handle = module.get_function(self._module(path, name, macros), name)
                kernel = Kernel(declared, handle)
                _check_parameters(kernel)
                self._kernels[path, name, macros] = kernel
            return kernel

    def make_resident(self) -> None:
        """Load the code of every kernel handed out so far, past the driver's lazy loading."""
        for kernel in list(self._kernels.values()):
            module.make_resident(kernel.handle)

    def kernels(self) -> list[Kernel]:
        """Return the kernels handed out so far."""
        return list(self._kernels.values())

    def _module(self, path: Path, name: str, macros: Defines) -> int:
        key = (self.device.context, path, macros)
        handle = _loaded.modules.get(key)
        if handle is None:
            if _loaded.sealed and _is_mine():
                error = ModuleLoadDuringCapture(
                    f"kernel {name} of {path.name} would be compiled or loaded inside "
                    f"{_loaded.sealed}",
                    requester(),
                    "ask the library for the kernel before the step, in a constructor",
                )
                raise captures.refused(error)
            handle = module.load_data(self._image(path, dict(macros)))
            self.stats.loads += 1
            _loaded.modules[key] = handle
        return handle

    def _image(self, path: Path, defines: dict[str, str]) -> bytes:
        key = self.device.compiler_key(defines) + self.device.place_key(path)
        digest = source.content_hash(path, defines, key)
        entry = f"{path.stem}-{self.device.arch}-{digest[:32]}.image"
        image = self._cache.read(entry)
        if image is not None:
            self.stats.cache_hits += 1
            return image
        if self._say is not None:
            self._say("compiling the kernels (first use) ...")
            self._say = None
        begin = time.perf_counter()
        image = self.device.compile(path, source.include_dirs(path), defines)
        self.stats.compile_seconds += time.perf_counter() - begin
        self.stats.compiles += 1
        self._cache.write(entry, image)
        return image


def _is_mine() -> bool:
    """Whether a seal is meant for this thread: loads of others do a window no harm (facts)."""
    window = captures.window()
    return window is None or window.thread is threading.current_thread()


def _check_parameters(kernel: Kernel) -> None:
    """Compare the parameters read from the source with the driver's: a macro could deceive us."""
    found: list[tuple[int, int]] = []
    while (place := module.param_info(kernel.handle, len(found))) is not None:
        found.append(place)
    if found != kernel.pack.layout:
        declared = kernel.signature
        raise KernelSourceError(
            f"{declared.file}:{declared.line}: {declared} has parameters at (offset, size) "
            f"{kernel.pack.layout} by its source, {found} by the driver; "
            "a macro or typedef in the parameter list hides a type"
        )
