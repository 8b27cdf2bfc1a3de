"""The host device: a `libcuda.so.1` of our own that runs kernels on the CPU.

`load()` builds the library on first use and loads it before the first driver call; from then on
cuda.bindings finds it under its name. `control` reaches what a real driver does not have.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from lowgraph.errors import DeviceUnavailable
from lowgraph.hostdev import build, check, settings, watch
from lowgraph.hostdev.cachedir import cache_dir

__all__ = ["cache_dir", "is_loaded", "load"]

_loaded: ctypes.CDLL | None = None


def load() -> ctypes.CDLL:
    """Load the host device's library into this process, and build it if it is not built yet.

    Must come before the first driver call. Raises DeviceUnavailable if another libcuda.so.1 is
    loaded already, BuildError if the library cannot be built, ConfigError if an environment
    variable holds what it cannot.
    """
    global _loaded
    if _loaded is None:
        settings.shuffle()
        path = build.library()
        other = _other_driver(path)
        if other is not None:
            raise DeviceUnavailable(
                f"this process has loaded another CUDA driver ({other}); open the host device "
                "before anything calls the driver"
            )
        # Global: the kernels' images call back into it.
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        check.apply(library)
        watch.apply(library)
        _loaded = library
    return _loaded


def is_loaded() -> bool:
    """Return whether this process has the host device's library."""
    return _loaded is not None


def _other_driver(ours: Path) -> str | None:
    """Path of a loaded libcuda.so.1 that is not ours."""
    with open("/proc/self/maps") as maps:
        paths = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps if "libcuda.so" in line}
    known = ours.resolve()
    return next((path for path in sorted(paths) if Path(path).resolve() != known), None)
