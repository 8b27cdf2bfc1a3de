"""The kernel library: every source compiled once, every module loaded once a context.

A module stays loaded for the life of the process: graphs and library users may hold its functions,
and there is no moment at which nobody does.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lowgraph.driver import Device, captures, forked, images, module
from lowgraph.driver.callers import requester
from lowgraph.errors import DriverError, KernelSourceError, ModuleLoadDuringCapture
from lowgraph.hostdev.cachedir import cache_dir, make_private
from lowgraph.kernels import signature, source
from lowgraph.kernels.cache import ImageCache
from lowgraph.kernels.folder import KernelFolder
from lowgraph.kernels.launch import Kernel
from lowgraph.kernels.loaded import KernelImage, parameter_places
from lowgraph.kernels.settings import BuildSettings, Options


@dataclass
class LibraryStats:
    """What a library has done. Numbers of modules; compile_seconds is the time spent compiling."""

    compiles: int = 0
    cache_hits: int = 0
    loads: int = 0
    compile_seconds: float = 0.0


class _Loaded:
    """Modules of this process, by context, source and settings; shared by all libraries.

    modules: of a user's file also by what it holds (Library._content). images: those that were
        loaded as they are, by context and content.
    """

    def __init__(self) -> None:
        self.lock = forked.rlock()
        self.modules: dict[tuple[int, Path, BuildSettings, str], int] = {}
        self.images: dict[tuple[int, bytes], KernelImage] = {}
        self.sealed: str | None = None


_loaded = _Loaded()


class Library:
    """Kernels of one device, by source file, name and what it is compiled with.

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
        self._kernels: dict[tuple[Path, str, BuildSettings, str], Kernel] = {}
        self._images: dict[int, KernelImage] = {}  # by module
        self._resident: set[int] = set()  # functions

    @property
    def sealed(self) -> str | None:
        """Why nothing may be compiled or loaded now, None if it may. A capture's window sets it."""
        return _loaded.sealed

    @sealed.setter
    def sealed(self, reason: str | None) -> None:
        _loaded.sealed = reason

    def kernel(
        self,
        file: str | Path,
        name: str,
        defines: Mapping[str, str | int] | None = None,
        *,
        include_dirs: Sequence[str | Path] = (),
        options: Options | None = None,
    ) -> Kernel:
        """Return kernel `name` of a source file, compiling and loading it if that is still to do.

        file: of lowgraph's own kernels the file's name, as a str; of a user's a Path, or a str with
        a folder in it, relative to the current folder. defines: macros for the compiler.
        include_dirs: folders for its #include lines, searched behind the file's own. options: more
        flags, by the kind of device. Each set of those three is a module of its own; the same
        arguments give the same object, unless a file of the user's was edited since: what was
        handed out, and recorded, keeps the code that it had.
        Raises KernelSourceError, ConfigError, BuildError, DriverError, and ModuleLoadDuringCapture
        while sealed.
        """
        path = source.find(file)
        settings = BuildSettings.of(self.device.kind, defines, include_dirs, options)
        with _loaded.lock:
            content = self._content(path, settings)
            kernel = self._kernels.get((path, name, settings, content))
            if kernel is None:
                declared = signature.read_signature(path, name, settings.defines)
                handle = module.get_function(self._module(path, name, settings, content), name)
                kernel = Kernel(declared, handle)
                _check_parameters(kernel)
                self._kernels[path, name, settings, content] = kernel
            return kernel

    def folder(
        self,
        path: str | Path,
        defines: Mapping[str, str | int] | None = None,
        *,
        include_dirs: Sequence[str | Path] = (),
        options: Options | None = None,
    ) -> KernelFolder:
        """Return the kernels of a folder's .cu files, by name; each file is compiled when asked.

        The rest is as for `kernel`. Raises KernelSourceError: no folder, no .cu file in it, a
        declaration that cannot be read.
        """
        return KernelFolder(self, Path(path), defines, include_dirs, options)

    def compiled(
        self,
        file: str | Path,
        defines: Mapping[str, str | int] | None = None,
        *,
        include_dirs: Sequence[str | Path] = (),
        options: Options | None = None,
    ) -> bytes:
        """Return a source's module image for this device, for C code that loads its own kernels.

        The arguments are those of `kernel`. Nothing is loaded. Raises KernelSourceError,
        ConfigError, BuildError.
        """
        settings = BuildSettings.of(self.device.kind, defines, include_dirs, options)
        with _loaded.lock:
            return self._image(source.find(file), settings)

    def load(self, image: bytes | str | Path) -> KernelImage:
        """Return the kernels of a module image: PTX, a cubin or a fat binary; a file or its bytes.

        Loaded once a context and content. On the host device it is what `compiled` and `python -m
        lowgraph compile` make. Raises KernelSourceError for a file that is not there and for what
        the device cannot load, DriverError, ModuleLoadDuringCapture while sealed.
        """
        data, file = (image, None) if isinstance(image, bytes) else _read(Path(image))
        title = f"an image of {len(data)} bytes" if file is None else str(file)
        key = self.device.context, hashlib.sha256(data).digest()
        with _loaded.lock:
            found = _loaded.images.get(key)
            if found is None:
                _refuse_sealed(title)
                found = KernelImage(self._load(data, title), title, file)
                self.stats.loads += 1
                _loaded.images[key] = found
            self._images[found.module] = found
            return found

    def make_resident(self) -> None:
        """Load the code of every kernel handed out so far, past the driver's lazy loading.

        Each one once: its code stays for as long as its module, which is never unloaded.
        """
        handles = [kernel.handle for kernel in list(self._kernels.values())]
        for image in list(self._images.values()):
            handles += [kernel.handle for kernel in image.kernels]
        for handle in handles:
            if handle not in self._resident:
                module.make_resident(handle)
                self._resident.add(handle)

    def kernels(self) -> list[Kernel]:
        """Return the kernels of sources that were handed out so far."""
        return list(self._kernels.values())

    def _content(self, path: Path, settings: BuildSettings) -> str:
        """What tells a user's file from the same one edited; lowgraph's own stay as they are."""
        if source.is_own(path):
            return ""
        return source.content_hash(path, settings.defines, "", settings.folders)

    def _module(self, path: Path, name: str, settings: BuildSettings, content: str) -> int:
        key = (self.device.context, path, settings, content)
        handle = _loaded.modules.get(key)
        if handle is None:
            _refuse_sealed(f"kernel {name} of {path.name}")
            handle = module.load_data(self._image(path, settings))
            self.stats.loads += 1
            _loaded.modules[key] = handle
        return handle

    def _load(self, data: bytes, title: str) -> int:
        facts = images.describe(data)
        unfit = self.device.unfit(facts)
        if unfit:
            raise KernelSourceError(f"{title} {unfit}; {self.device.remedy_for(facts)}")
        try:
            # PTX is text, which the driver reads up to a NUL.
            return module.load_data(data + b"\0")
        except DriverError as error:
            if error.code not in images.REFUSED:
                raise
            raise KernelSourceError(
                f"{title}, {facts}, cannot be loaded on {self.device.spec} ({self.device.arch}): "
                f"{error.code} {error.name}; {self.device.remedy_for(facts)}"
            ) from error

    def _image(self, path: Path, settings: BuildSettings) -> bytes:
        defines, flags = settings.defines, settings.flags
        key = self.device.compiler_key(defines, flags) + self.device.place_key(path)
        digest = source.content_hash(path, defines, key, settings.folders)
        entry = f"{path.stem}-{self.device.arch}-{digest[:32]}.image"
        image = self._cache.read(entry)
        if image is not None:
            self.stats.cache_hits += 1
            return image
        if self._say is not None:
            self._say("compiling the kernels (first use) ...")
            self._say = None
        begin = time.perf_counter()
        folders = source.include_dirs(path, settings.folders)
        image = self.device.compile(path, folders, defines, flags)
        self.stats.compile_seconds += time.perf_counter() - begin
        self.stats.compiles += 1
        self._cache.write(entry, image)
        return image


def _read(path: Path) -> tuple[bytes, Path]:
    try:
        return path.read_bytes(), path.absolute()
    except OSError as error:
        raise KernelSourceError(
            f"module image {path.absolute()} cannot be read: {error.strerror or error}"
        ) from error


def _refuse_sealed(what: str) -> None:
    if _loaded.sealed and _is_mine():
        error = ModuleLoadDuringCapture(
            f"{what} would be compiled or loaded inside {_loaded.sealed}",
            requester(),
            "ask the library for the kernel before the step, in a constructor",
        )
        raise captures.refused(error)


def _is_mine() -> bool:
    """Whether a seal is meant for this thread: loads of others do a window no harm (facts)."""
    window = captures.window()
    return window is None or window.thread is threading.current_thread()


def _check_parameters(kernel: Kernel) -> None:
    """Compare the parameters read from the source with the driver's: a macro could deceive us."""
    found = parameter_places(kernel.handle)
    if found != kernel.pack.layout:
        declared = kernel.signature
        raise KernelSourceError(
            f"{declared.file}:{declared.line}: {declared} has parameters at (offset, size) "
            f"{kernel.pack.layout} by its source, {found} by the driver; "
            "a macro or typedef in the parameter list hides a type"
        )
