"""The host device's engine without a driver: builds it, loads kernel images, launches them."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lowgraph.hostdev import kernel_build, settings
from lowgraph.hostdev.toolchain import INCLUDE_DIR, find_compiler

HERE = Path(__file__).parent
# The engine and the images here use other names for what they share, so that a libcuda in the same
# process, which has an engine too, stays out of it.
OWN_NAMES = {
    f"lowgraph_{name}": f"harness_{name}"
    for name in (
        "thread", "barrier_arrive", "barrier_vote", "barrier_count", "barrier_and", "barrier_or",
        "copy_start", "copy_commit", "copy_wait", "warp_arrive", "give_way", "next_thread", "trap",
        "printf",
    )
}  # fmt: skip
ENGINE_PARTS = (
    "async_copies", "fibers", "warp", "block", "block_calls", "block_shuffle", "fault",
    "fault_signals", "shared_gaps", "shuffle", "watchdog", "workers",
)  # fmt: skip
Array = npt.NDArray[np.generic]
Dims = tuple[int, int, int]


class Fault(ctypes.Structure):
    """struct Fault of engine.h."""

    _fields_ = (
        ("code", ctypes.c_int),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("address", ctypes.c_uint64),
        ("instruction", ctypes.c_uint64),
        ("text", ctypes.c_char * 512),
    )


class Entry(ctypes.Structure):
    """struct KernelEntry of cuda_on_host/abi.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("run", ctypes.c_void_p),
        ("param_count", ctypes.c_int),
        ("sizes", ctypes.POINTER(ctypes.c_uint16)),
        ("offsets", ctypes.POINTER(ctypes.c_uint16)),
        ("touch", ctypes.c_void_p),
        ("static_shared", ctypes.c_uint32),
        ("max_threads", ctypes.c_uint32),
    )


class Buffer:
    """Device memory of the harness, poisoned with 0xFF bytes until written."""

    def __init__(self, library: ctypes.CDLL, shape: Sequence[int] | int, dtype: npt.DTypeLike):
        self._library = library
        self._like = np.empty(shape, dtype)
        self.address = int(library.harness_alloc(self._like.nbytes))

    def put(self, values: Array) -> Buffer:
        data = np.ascontiguousarray(values, dtype=self._like.dtype)
        ctypes.memmove(self.address, data.ctypes.data, data.nbytes)
        return self

    def get(self) -> Array:
        out = np.empty_like(self._like)
        ctypes.memmove(out.ctypes.data, self.address, out.nbytes)
        return out

    def free(self) -> None:
        self._library.harness_free(self.address)


@dataclass
class Engine:
    """The loaded engine. `launch` gives the Fault, whose code is 0 when all went well."""

    library: ctypes.CDLL
    path: Path

    def put(self, values: Array) -> Buffer:
        return Buffer(self.library, values.shape, values.dtype).put(values)

    def empty(self, shape: Sequence[int] | int, dtype: npt.DTypeLike = np.float32) -> Buffer:
        return Buffer(self.library, shape, dtype)

    def launch(
        self,
        entry: Entry,
        grid: int | Dims,
        block: int | Dims,
        *args: Buffer | ctypes._SimpleCData,  # type: ignore[type-arg]
        shared: int = 0,
    ) -> Fault:
        values = [ctypes.c_uint64(a.address) if isinstance(a, Buffer) else a for a in args]
        assert [ctypes.sizeof(v) for v in values] == [
            entry.sizes[i] for i in range(entry.param_count)
        ]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        fault = Fault()
        self.library.harness_launch(
            ctypes.byref(entry), _dims(grid), _dims(block), shared, pointers, ctypes.byref(fault)
        )
        return fault


class Image:
    """A compiled kernel file; `image["name"]` is the kernel's table entry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))

    def __getitem__(self, name: str) -> Entry:
        return Entry.in_dll(self._library, f"lowgraph_kernel_{name}")


def _dims(size: int | Dims) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 3)(*((size, 1, 1) if isinstance(size, int) else size))


def build_engine(folder: Path) -> Path:
    """Compiles the engine's parts and the harness into a library, for `load_engine`."""
    sources = INCLUDE_DIR.parent / "src"
    parts = [str(sources / f"{part}.cpp") for part in ENGINE_PARTS]
    library = folder / "libengine.so"
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread"]
    flags += settings.sanitizer_flags()
    hidden = ["-fvisibility=hidden", f"-I{sources}", str(HERE / "engine_harness.cpp")]
    names = [f"-D{name}={own}" for name, own in OWN_NAMES.items()]
    command = [*find_compiler().command, *flags, *names, *hidden, *parts, "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def load_engine(library: Path) -> Engine:
    """Loads a built engine into this process, where kernel images find its symbols."""
    loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    loaded.harness_alloc.restype = ctypes.c_uint64
    loaded.harness_alloc.argtypes = [ctypes.c_uint64]
    loaded.harness_free.argtypes = [ctypes.c_uint64]
    loaded.harness_switches.restype = ctypes.c_uint64
    return Engine(loaded, library)


def build_kernels(name: str, folder: Path) -> Image:
    """Compiles tests/hostdev/kernels/<name>.cu for the host device and loads it."""
    path = folder / f"{name}.so"
    path.write_bytes(compile_kernels(HERE / "kernels" / f"{name}.cu"))
    return Image(path)


def compile_kernels(source: Path, defines: Mapping[str, str] | None = None) -> bytes:
    """An image of the file's kernels that runs on this engine."""
    return kernel_build.compile(source, [], {**OWN_NAMES, **(defines or {})})
